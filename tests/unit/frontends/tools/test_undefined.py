"""Names in a kernel's body that nothing defines."""

from __future__ import annotations

from types import FunctionType

from tilec.frontends.tools.undefined import missing_attributes, undefined_names

TEXT = """\
SIZE = 4
def helper(x):
    return x

def kernel(y, factor):
    def inner(a):
        return a * factr + other
    for i in range(SIZE):
        y[i] = helper(factr) + [k for k in y][0] + inner(len(y))
"""


def test_names_are_found_at_their_first_use() -> None:
    scope: dict[str, object] = {}
    exec(compile(TEXT, "k.py", "exec"), scope)
    kernel = scope["kernel"]
    assert isinstance(kernel, FunctionType)
    found = undefined_names(kernel, {"k.py": TEXT})
    assert [(d.message, str(d.location), d.hint) for d in found] == [
        ("factr is not defined", "k.py:7:20", "did you mean 'factor'"),
        ("other is not defined", "k.py:7:28", ""),
    ]
    assert undefined_names(kernel, {}) == ()


ATTRIBUTES = """\
import math
import os.path
import numpy as np
def kernel(y):
    def inner(np):
        return np.sinn(1)
    y[0] = math.sinn(math.sin(y.sinn)) + os.path.joint(y) + np.sinn(y) + os.sinn
    if hasattr(math, "shiny"):
        y[1]: math.Int = math.shiny(y)
    y[2] = math.shiny(y) if hasattr(math, "shiny") else 0
"""


def test_attributes_that_modules_do_not_have() -> None:
    scope: dict[str, object] = {}
    exec(compile(ATTRIBUTES, "k.py", "exec"), scope)
    kernel = scope["kernel"]
    assert isinstance(kernel, FunctionType)
    found = missing_attributes(
        kernel, {"k.py": ATTRIBUTES}, ("math", "numpy", "posixpath"), lambda *asked: str(asked)
    )
    assert [(d.message, str(d.location), d.hint) for d in found] == [
        ("Module 'math' has no attribute 'sinn'", "k.py:7:12", "('math', 'sinn')"),
        ("Module 'posixpath' has no attribute 'joint'", "k.py:7:42", "('posixpath', 'joint')"),
    ]
