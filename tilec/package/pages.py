"""Shared parts of HTML pages: style, policy, and templates with escaped values."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from tilec.package.render import templates

if TYPE_CHECKING:
    from jinja2 import Environment


def page_environment(name: str) -> Environment:
    """Return the environment of a directory of page templates; values are escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(templates(name))
    return Environment(
        loader=loader,
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page_style(name: str) -> str:
    """Return the style sheet of a page: the shared style, then its directory's."""
    return "".join(
        (templates(folder) / file).read_text(encoding="utf-8")
        for folder, file in (("pages", "base.css"), (name, "report.css"))
    )


def page_policy(style: str, script: str = "") -> str:
    """Return the Content-Security-Policy that allows only this style and script.

    Scripts and styles of injected markup then have no effect.
    """
    allowed = f"style-src {_hash(style)}" + (f"; script-src {_hash(script)}" if script else "")
    return f"default-src 'none'; {allowed}; img-src data:; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
