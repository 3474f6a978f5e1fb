"""Names in a kernel's body that nothing defines."""

from __future__ import annotations

from types import FunctionType

from tilec.frontends.tools.undefined import undefined_names

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
