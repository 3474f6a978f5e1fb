"""The row of an image in a bundle's index."""

from __future__ import annotations

from typing import Any

from tilec_runtime.bundle import limits
from tilec_runtime.bundle.codec import Codec, Misfit, digest, flag, integer, line, optional, parsed, record, row, sequence, shown, text
from tilec_runtime.model.arch import Target
from tilec_runtime.model.image import ImageInfo, Resources

COUNT = integer(0)
BYTES = integer(0, limits.BYTES)
VERSION = row(integer(0, 999), integer(0, 999))
DIMS = sequence(integer(1, limits.DIM), most=3)

_RESOURCES = record(
    Resources,
    registers=optional(integer(0, limits.DIM)),
    spill_stores=optional(BYTES),
    spill_loads=optional(BYTES),
    stack=optional(BYTES),
    shared=optional(BYTES),
    constant=optional(BYTES),
    code=optional(BYTES),
)
_FIELDS = {
    "target": parsed(Target.parse),
    "digest": digest,
    "size": integer(0, limits.IMAGE),
    "symbol": line(),
    "exact": flag,
    "ptx_isa": optional(VERSION),
    "cuda": VERSION,
    "resources": _RESOURCES,
    "max_threads": integer(0, limits.DIM),
    "required_block": DIMS,
    "cluster": DIMS,
    "block": DIMS,
    "dynamic_shared": integer(0, limits.DIM),
}
# What a linker is told by whoever wrote the bundle: options that change the code and nothing else.
_OPTION = text(pattern=r"-O0|-(ftz|prec-div|prec-sqrt|fma)=[01]|-maxrregcount=[0-9]{1,3}", what="an option of a link", most=30)
_LINKING = sequence(_OPTION, most=16)
# Keys that few images have, each with the value that is never written.
_RARE: dict[str, tuple[Codec, Any]] = {"linking": (_LINKING, []), "reproducible": (flag, True)}
_PLAIN = record(ImageInfo, **_FIELDS)
_WITH: dict[tuple[str, ...], Codec] = {
    names: record(ImageInfo, **_FIELDS, **{name: _RARE[name][0] for name in names})
    for names in (("linking",), ("reproducible",), ("linking", "reproducible"))
}


def _write(image: ImageInfo) -> Any:
    names = (*(("linking",) if image.linking else ()), *(() if image.reproducible else ("reproducible",)))
    return _WITH.get(names, _PLAIN).write(image)


def _read(value: Any) -> Any:
    names = tuple(name for name in _RARE if name in value) if type(value) is dict else ()
    for name in names:
        if value[name] == _RARE[name][1]:
            raise Misfit(f"key {name!r} is {shown(value[name])}: it is left out where it is")
    return _WITH.get(names, _PLAIN).read(value)


IMAGE = Codec(_write, _read)
