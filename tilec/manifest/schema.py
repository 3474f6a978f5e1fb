"""The JSON Schema of tilec.toml, from the same table of keys that the loader reads with."""

from __future__ import annotations

from typing import Any

from tilec.manifest.keys import EDITION, MANIFEST


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12). What one value alone cannot say, such as whether an axis exists,
    `tilec check` says.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tilec.toml",
        "description": f"Manifest of a tilec project, edition {EDITION}.",
        **MANIFEST.schema(),
    }
