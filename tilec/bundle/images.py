"""The row of an image in a bundle's index."""

from __future__ import annotations

from typing import Any

from tilec.bundle.codec import Codec, Misfit, digest, flag, integer, optional, parsed, record, row, sequence, text
from tilec.model.arch import Target
from tilec.model.image import ImageInfo, Resources

MAX_IMAGE = 1 << 30
COUNT = integer(0)
VERSION = row(integer(0, 999), integer(0, 999))
DIMS = sequence(integer(1, 1 << 31), most=3)

_RESOURCES = record(
    Resources,
    registers=optional(COUNT),
    spill_stores=optional(COUNT),
    spill_loads=optional(COUNT),
    stack=optional(COUNT),
    shared=optional(COUNT),
    constant=optional(COUNT),
    code=optional(COUNT),
)
_FIELDS = {
    "target": parsed(Target.parse),
    "digest": digest,
    "size": integer(0, MAX_IMAGE),
    "symbol": text(most=100_000),
    "exact": flag,
    "ptx_isa": optional(VERSION),
    "cuda": VERSION,
    "resources": _RESOURCES,
    "max_threads": COUNT,
    "required_block": DIMS,
    "cluster": DIMS,
    "block": DIMS,
    "dynamic_shared": COUNT,
}
# What a linker is told by whoever wrote the bundle: options that change the code and nothing else.
_OPTION = text(pattern=r"-O0|-(ftz|prec-div|prec-sqrt|fma)=[01]|-maxrregcount=[0-9]{1,3}", what="an option of a link", most=30)
_LINKING = sequence(_OPTION, most=16)
_PLAIN = record(ImageInfo, **_FIELDS)
_LINKED = record(ImageInfo, **_FIELDS, linking=_LINKING)


def _write(image: ImageInfo) -> Any:
    return (_LINKED if image.linking else _PLAIN).write(image)


def _read(value: Any) -> Any:
    if type(value) is not dict or "linking" not in value:  # which few images have
        return _PLAIN.read(value)
    if value["linking"] == []:
        raise Misfit("key 'linking' is there and empty: it is left out where it is")
    return _LINKED.read(value)


IMAGE = Codec(_write, _read)
