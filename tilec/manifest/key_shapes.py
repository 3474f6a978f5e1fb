"""Shapes that several tables share."""

from __future__ import annotations

from tilec.manifest import values
from tilec.manifest.shapes import Either, Integer, ListOf, Plain, Shape, Text
from tilec.manifest.tables import Names, Pairs
from tilec_runtime.model.dtype import short_name

_TARGET = Text("target", known=values.target_names, convert=values.target)
TARGET_LIST = ListOf(_TARGET, least=1, unique=True)
DTYPE = Text(  # with dots, as in torch.float16, for a suggestion
    "a dtype such as f32, or an axis",
    pattern=rf"{values.IDENTIFIER}(?:\.{values.IDENTIFIER})*",
    convert=short_name,
)
PATH = Text("a path", convert=values.project_path)
LINE = Text("one line of text", convert=values.one_line, empty=True)
BYTES = Either(
    (Integer(0), Text("a size such as 90 MiB", pattern=values.SIZE, convert=values.size))
)
HINTS = Pairs(names=Names(values.IDENTIFIER, "a hint", Integer()))
FUNCTION = Text(
    "a file and a function such as ref.py:gemm",
    pattern=values.FUNCTION,
    convert=values.inner_path,
)
POINT = Pairs(names=Names(values.IDENTIFIER, "an axis's name", Plain()))


def parameters(shape: Shape, doc: str = "") -> Names:
    """Return a shape of free names of parameters, each with a value of `shape`."""
    return Names(values.IDENTIFIER, "a parameter's name", shape, doc)
