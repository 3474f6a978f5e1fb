"""Indexes of older schema versions as those of today."""

from __future__ import annotations

from typing import Any

from tilec_runtime.bundle.codec import unfit


def upgraded(plain: dict[str, Any]) -> dict[str, Any]:
    """The values below the version of an older index, as one of today has them; what is no such index is left for the reader to refuse.

    Version 1 said nothing of hints, versions 1 and 2 nothing of blocks that a compiler chose. Only version 4 has tuning tables,
    and assumptions on extents and contiguity. Raises Misfit.
    """
    version = plain.pop("schema_version")
    for number, kernel in _objects(plain, "kernels"):
        if "table" in kernel:
            unfit(f"kernels[{number}]", "unknown key 'table'")
        for index, variant in _objects(kernel, "variants"):
            where = f"kernels[{number}].variants[{index}]"
            if version < 2:
                _add(variant, "hints", [], where)
            for place, fact in _objects(variant, "assume"):
                _add(fact, "extent", [], f"{where}.assume[{place}]")
                _add(fact, "contiguous", False, f"{where}.assume[{place}]")
            for place, image in _objects(variant, "images"):
                if version < 3:
                    _add(image, "block", [], f"{where}.images[{place}]")
                    _add(image, "dynamic_shared", 0, f"{where}.images[{place}]")
    return plain


def _objects(plain: Any, key: str) -> list[tuple[int, dict[str, Any]]]:
    items = plain.get(key) if type(plain) is dict else None
    return [(index, item) for index, item in enumerate(items if type(items) is list else ()) if type(item) is dict]


def _add(plain: dict[str, Any], key: str, value: Any, where: str) -> None:
    if key in plain:
        unfit(where, f"unknown key {key!r}")
    plain[key] = value
