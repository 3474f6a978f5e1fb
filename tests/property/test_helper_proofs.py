"""Whatever functions a kernel calls with what: an access that has lost its check stays in its
array, in every launch that is accepted.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.amount import part
from tilec.frontends.tile.declare import read
from tilec.frontends.tools.modules import load
from tilec.model.job import Source
from tilec_runtime.model.expr import parse

pytestmark = pytest.mark.toolchain

SIDE = 4
EXAMPLES = int(os.environ.get("TILEC_PROOF_EXAMPLES", part(75)))
NAMES = ("i", "j", "p")
ARRAYS = ("a", "b")


KERNEL = """@tl.kernel
def k(z: tl.Mut[tl.float32, (4, 4)], a: tl.Ref[tl.float32, 2], b: tl.Ref[tl.float32, 2], n: int):
    i, j = z.index
    p = 1
"""


@dataclasses.dataclass(frozen=True)
class Array:
    """An array of the kernel while its functions run as plain Python; without checks, every access
    has to be inside.
    """

    shape: tuple[int, int]
    index: tuple[int, int]
    checked: bool
    seen: list[bool]

    def num_tiles(self, axis: int, size: int = SIDE) -> int:
        return -(-self.shape[axis] // size)

    def load_tile(self, index: tuple[int, int], shape: tuple[int, int]) -> int:
        if not self.checked:
            inside = all(
                0 <= k < self.num_tiles(axis, size)
                for axis, (k, size) in enumerate(zip(index, shape, strict=True))
            )
            assert inside, f"tile {index} of an array of {self.shape}"
            self.seen.append(True)
        return 0


def numbers(names: tuple[str, ...] = NAMES, depth: int = 1) -> Any:
    """Mostly of what can be followed, so that there is something to be wrong about."""
    plain = st.sampled_from([*names * 3, "0", "z.index[0]", "z.index[1]", "n"])
    if not depth:
        return plain
    inner = numbers(names, depth - 1)
    made = st.one_of(
        st.builds("({}) // {}".format, inner, st.sampled_from(["2", "SIDE"])),
        st.builds("({}) % {}".format, inner, st.sampled_from(["2", "3"])),
        st.builds("({}) {} 1".format, inner, st.sampled_from("+-")),
        st.builds("min({}, {}.num_tiles(0, SIDE))".format, inner, st.sampled_from(ARRAYS)),
        st.builds("half({})".format, inner),
        st.builds("pair({}, {})[{}]".format, inner, inner, st.sampled_from("01")),
    )
    return st.one_of(*[plain] * 9, made)


def actions(functions: int, *names: str) -> Any:
    """An access, or a call: by name, with a default, or of a function that was passed on."""
    array, number = st.sampled_from(ARRAYS), numbers((*NAMES, *names))
    access = st.builds("{}.load_tile(({}, {}), (SIDE, SIDE))".format, array, number, number)
    ways = [
        "f{}(z, n, {}, {}, {}, {})",
        "f{}(z, n, {}, {}, {}, {}, p=0)",
        "(lambda g: g{0:.0}(z, n, {1}, {2}, {3}, {4}))(f{0})",
    ]
    call = st.builds(
        str.format,
        st.sampled_from([*ways[:2] * 4, ways[2]]),
        st.sampled_from([str(place) for place in range(functions)] or ["-"]),
        array,
        array,
        number,
        number,
    )
    return st.one_of(access, call) if functions else access


def body(functions: int) -> Any:
    """Lines of a function; R and K stand for names that a line binds itself."""
    loop = st.builds(
        "for K in range({}.num_tiles({}, SIDE)): {}".format,
        st.sampled_from(ARRAYS),
        st.sampled_from("01"),
        actions(functions, "K", "K"),
    )
    bind = st.builds("R = {}\n    {}".format, numbers(), actions(functions, "R", "R"))
    rebind = st.builds(
        "{1}\n    i = {0}\n    {2}".format,
        st.sampled_from(["n", "i + 1", "j", "0"]),
        actions(functions),
        actions(functions, "i", "i"),
    )
    line = st.one_of(*[actions(functions)] * 6, *[loop] * 2, bind, rebind)
    return st.lists(line, min_size=2, max_size=4).map(
        lambda found: "".join(
            f"    {text.replace('K', f'k{n}').replace('R', f'r{n}')}\n"
            for n, text in enumerate(found)
        )
    )


@st.composite
def programs(draw: Any) -> str:
    text = "import tilec.lang as tl\nSIDE = 4\ndef half(i):\n    return i // 2\ndef pair(i, j):\n    return (j, i)\n"
    for place in range(2):
        text += f"def f{place}(z, n, a, b, i, j, p=1):\n{draw(body(place))}"
    return f"{text}{KERNEL}{draw(body(2))}"


OUTPUTS, INPUTS = ((4, 4), (9, 4), (4, 9)), ((4, 20), (9, 9), (20, 20))


HARD = {
    "bound anew": (
        "b.load_tile((i, j), (SIDE, SIDE))\n    i = n\n    b.load_tile((i, j), (SIDE, SIDE))",
        "f0(z, n, a, b, i, j)",
    ),
    "called twice": (
        "b.load_tile((i, j), (SIDE, SIDE))",
        "f0(z, n, a, b, i, j)\n    f0(z, n, a, b, n, j)",
    ),
    "called and passed on": (
        "b.load_tile((i, j), (SIDE, SIDE))",
        "f0(z, n, a, b, i, j)\n    (lambda g: g(z, n, a, b, n, j))(f0)",
    ),
    "a default": (
        "b.load_tile((p, j), (SIDE, SIDE))",
        "f0(z, n, a, b, i, j, p=0)\n    f0(z, n, a, b, i, j)",
    ),
}


@pytest.mark.parametrize("case", HARD)
def test_proofs_of_helpers_hold_in_hard_cases(tmp_path: Path, case: str) -> None:
    inner, outer = HARD[case]
    helper = f"import tilec.lang as tl\nSIDE = 4\ndef f0(z, n, a, b, i, j, p=9):\n    {inner}\n"
    text = f"{helper}{KERNEL}    {outer}\n    f0(z, n, b, a, i, j, p=0)\n"
    _hold(tmp_path, text, 9, [])


def test_unchecked_accesses_stay_in_bounds(tmp_path_factory: pytest.TempPathFactory) -> None:
    seen: list[bool] = []

    @settings(
        deadline=None, max_examples=EXAMPLES, phases=(Phase.explicit, Phase.generate)
    )  # they are small as they are
    @given(programs(), st.sampled_from([-1, 9]))
    def holds(text: str, n: int) -> None:
        _hold(tmp_path_factory.mktemp("proofs"), text, n, seen)

    holds()
    assert len(seen) > 10 * EXAMPLES  # a proof of nothing would hold too


def _hold(root: Path, text: str, n: int, seen: list[bool]) -> None:
    (root / "k.py").write_text(text)
    module = load(Source(root=str(root), path="k.py"))
    with module.active():
        found = read(module, "k", vars(module.main)["k"])
    assert found is not None
    assert found.safe is not None
    requires = [parse(condition) for condition in found.decl.requires]
    for z, a, b in itertools.product(OUTPUTS, INPUTS, INPUTS):
        arrays = {"z": z, "a": a, "b": b}
        values = {
            name: SimpleNamespace(shape=shape, size=shape[0] * shape[1])
            for name, shape in arrays.items()
        }
        if not all(condition.evaluate(values) for condition in requires):
            continue
        for index in itertools.product(range(-(-z[0] // SIDE)), range(-(-z[1] // SIDE))):
            made = [
                Array(shape, index, name in found.safe.checked, seen)
                for name, shape in arrays.items()
            ]
            found.safe.function(*made, n)
