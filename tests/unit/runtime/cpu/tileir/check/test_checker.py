"""What the checker makes of accesses that it is told of, without a kernel that does them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.runtime.cpu.tileir.build import region_of
from tilec_runtime.cpu.tileir.check.checker import Checker
from tilec_runtime.cpu.tileir.check.findings import FindingKind
from tilec_runtime.cpu.tileir.check.shadow import SyncLog
from tilec_runtime.cpu.tileir.frame import Access, AccessKind, Frame, Launch, Options
from tilec_runtime.cpu.tileir.ir import (
    Block,
    Function,
    Loc,
    MemoryOrder,
    MemoryScope,
    Op,
    Signature,
)
from tilec_runtime.cpu.tileir.memory import Memory

READ, WRITE, ATOMIC = AccessKind.READ, AccessKind.WRITE, AccessKind.ATOMIC
RELAXED, ACQ_REL, ACQUIRE, RELEASE = (
    MemoryOrder.RELAXED,
    MemoryOrder.ACQ_REL,
    MemoryOrder.ACQUIRE,
    MemoryOrder.RELEASE,
)


class Scene:
    """A checker over arrays `x` and `y` of 64 f32 each, and accesses of blocks to them."""

    def __init__(self, *, uninitialized: tuple[str, ...] = (), alias: bool = False) -> None:
        x = np.zeros(64, np.float32)
        arrays = {
            "x": x,
            "y": x if alias else np.zeros(64, np.float32),
            "flag": np.zeros(4, np.int32),
        }
        self.regions = {name: region_of(name, array) for name, array in arrays.items()}
        self.memory = Memory(self.regions.values())
        body = Block((), ())
        function = Function(
            name="k",
            signature=Signature((), ()),
            entry=True,
            hints=None,
            body=body,
            loc=None,
        )
        self.checker = Checker(function, self.memory, uninitialized=uninitialized)
        self.launch = Launch(
            options=Options(kernel="k", observer=self.checker),
            grid=(64, 1, 1),
            memory=self.memory,
            globals={},
        )

    def op(self, line: int) -> Op:
        return Op(
            name="op",
            results=(),
            operands={},
            attributes={},
            regions=(),
            loc=Loc("k.py", line, 6),
            number=line,
        )

    def access(
        self,
        line: int,
        kind: AccessKind,
        blocks: list[int],
        elements: list[list[int]],
        *,
        name: str = "x",
        order: MemoryOrder = MemoryOrder.WEAK,
        scope: MemoryScope | None = None,
        mask: list[list[bool]] | None = None,
        size: int = 4,
    ) -> None:
        """Each of the blocks touches its own list of elements."""
        self.checker.access(
            Access(
                op=self.op(line),
                frame=Frame(self.launch, np.asarray(blocks, np.int64)),
                region=self.regions[name],
                offsets=np.asarray(elements, np.int64) * size,
                mask=None if mask is None else np.asarray(mask),
                size=size,
                kind=kind,
                order=order,
                scope=scope
                if scope is not None or order is MemoryOrder.WEAK
                else MemoryScope.DEVICE,
            )
        )

    def kinds(self) -> list[FindingKind]:
        return [finding.kind for finding in self.checker.findings]


FLAG = {"name": "flag"}
NO_RACE: list[FindingKind] = []
READ_RACE, WRITE_RACE = [FindingKind.READ_RACE], [FindingKind.WRITE_RACE]
EIGHT = list(range(8))
# Accesses, as (kind, blocks, elements, further arguments), and what is found once all are done.
SCENES = {
    "blocks that keep apart": (
        [
            (READ, [0, 1], [[0, 1], [2, 3]], {}),
            (WRITE, [0, 1], [[0, 1], [2, 3]], {}),
            (READ, [1, 0], [[2, 3], [0, 1]], {}),
        ],
        NO_RACE,
    ),
    "many readers hide no writer": (
        [(READ, EIGHT, [[4]] * 8, {}), (WRITE, [0], [[4]], {})],
        READ_RACE,
    ),
    "a block's own": ([(READ, [0], [[4]], {}), (WRITE, [0], [[4]], {})] * 3, NO_RACE),
    "masked elements": (
        [(WRITE, [0, 1], [[0, 1], [1, 2]], {"mask": [[True, False], [True, True]]})],
        NO_RACE,
    ),
    "atomics alone": (
        [
            (ATOMIC, [0, 1], [[0], [0]], {"order": ACQ_REL}),
            (ATOMIC, [2], [[0]], {"order": RELAXED}),
        ],
        NO_RACE,
    ),
    "an atomic and a plain write": (
        [(ATOMIC, [0, 1], [[0], [0]], {"order": ACQ_REL}), (WRITE, [3], [[0]], {})],
        WRITE_RACE,
    ),
    "atomics of the block's scope": (
        [(ATOMIC, [0, 1], [[0], [0]], {"order": ACQ_REL, "scope": MemoryScope.TILE_BLOCK})],
        WRITE_RACE,
    ),
    **{
        f"a flag, {released.name} and {acquired.name}": (
            [
                (WRITE, [0], [[5]], {}),
                (ATOMIC, [0], [[0]], {**FLAG, "order": released}),
                (ATOMIC, [1], [[0]], {**FLAG, "order": acquired}),
                (READ, [1], [[5]], {}),
            ],
            found,
        )
        for released, acquired, found in (
            (ACQ_REL, ACQ_REL, NO_RACE),
            (RELAXED, ACQ_REL, READ_RACE),
            (ACQ_REL, RELAXED, READ_RACE),
        )
    },
    "a write after the release": (
        [
            (ATOMIC, [0], [[0]], {**FLAG, "order": ACQ_REL}),
            (WRITE, [0], [[5]], {}),
            (ATOMIC, [1], [[0]], {**FLAG, "order": ACQ_REL}),
            (READ, [1], [[5]], {}),
        ],
        READ_RACE,
    ),
    "another flag": (
        [
            (WRITE, [0], [[5]], {}),
            (ATOMIC, [0], [[0]], {**FLAG, "order": ACQ_REL}),
            (ATOMIC, [1], [[1]], {**FLAG, "order": ACQ_REL}),
            (READ, [1], [[5]], {}),
        ],
        READ_RACE,
    ),
    "order through a third block": (
        [
            (WRITE, [0], [[5]], {}),
            (WRITE, [0], [[0]], {**FLAG, "order": RELEASE}),
            (READ, [1], [[0]], {**FLAG, "order": ACQUIRE}),
            (WRITE, [1], [[1]], {**FLAG, "order": RELEASE}),
            (READ, [2], [[1]], {**FLAG, "order": ACQUIRE}),
            (READ, [2], [[5]], {}),
        ],
        NO_RACE,
    ),
    **{
        f"block {reader} of eight reads what all wrote": (
            [
                (WRITE, EIGHT, [[block] for block in EIGHT], {}),
                (ATOMIC, EIGHT, [[0]] * 8, {**FLAG, "order": ACQ_REL}),
                (READ, [reader], [EIGHT], {}),
            ],
            found,
        )
        for reader, found in ((7, NO_RACE), (3, READ_RACE))
    },
}


def scene_of(accesses: list[tuple[Any, ...]]) -> Scene:
    scene = Scene()
    for line, (kind, blocks, elements, more) in enumerate(accesses):
        scene.access(line, kind, blocks, elements, **more)
    return scene


@pytest.mark.parametrize("name", SCENES)
def test_races_are_where_nothing_orders_two_blocks(name: str) -> None:
    accesses, found = SCENES[name]
    assert scene_of(accesses).kinds() == found


# Accesses that race, and the lines of both.
SIDES = {
    "a read after a write": ([(WRITE, [0], [[7]], {}), (READ, [9], [[7]], {})], (1, 0)),
    "a write after a read": ([(READ, [0], [[7]], {}), (WRITE, [9], [[7]], {})], (1, 0)),
    "the later read of a block": (
        [
            (READ, [1], [[5]], {}),
            (ATOMIC, [1], [[0]], {**FLAG, "order": ACQ_REL}),
            (READ, [1], [[5]], {}),
            (ATOMIC, [0], [[0]], {**FLAG, "order": ACQ_REL}),
            (WRITE, [0], [[5]], {}),
        ],
        (4, 2),
    ),
    "the plain read, not the atomic one": (
        [
            (READ, [1], [[5]], {}),
            (READ, [1], [[5]], {"order": RELAXED}),
            (WRITE, [0], [[5]], {"order": RELAXED}),
        ],
        (2, 0),
    ),
}


@pytest.mark.parametrize("name", SIDES)
def test_a_race_names_both_accesses(name: str) -> None:
    accesses, lines = SIDES[name]
    (found,) = scene_of(accesses).checker.findings
    assert found.kind is FindingKind.READ_RACE
    assert found.location is not None
    assert found.other is not None
    assert found.other.location is not None
    assert (found.location.line, found.other.location.line) == lines


@given(
    st.lists(
        st.tuples(
            st.sampled_from([READ, WRITE]),
            st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=4),
        ),
        max_size=6,
    )
)
def test_races_are_found_where_two_blocks_meet_and_nowhere_else(
    accesses: list[tuple[AccessKind, list[tuple[int, int]]]],
) -> None:
    scene = Scene()
    for line, (kind, touched) in enumerate(accesses):
        scene.access(
            line,
            kind,
            [block for block, _ in touched],
            [[2 * part, 2 * part + 1] for _, part in touched],
        )
    done = [(kind, *place) for kind, touched in accesses for place in touched]
    expected = any(
        one[1] != two[1] and one[2] == two[2] and WRITE in (one[0], two[0])
        for one, two in itertools.combinations(done, 2)
    )
    assert bool(scene.checker.findings) == expected


def test_parameters_that_share_memory_are_one() -> None:
    scene = Scene(alias=True)
    scene.access(1, READ, [0], [[3]], name="x")
    scene.access(2, WRITE, [1], [[3]], name="y")
    assert scene.kinds() == [FindingKind.READ_RACE]


def test_elements_of_other_sizes_are_compared_by_their_bytes() -> None:
    scene = Scene()
    scene.access(1, WRITE, [0], [[0]], size=4)
    scene.access(2, WRITE, [1], [[7]], size=1)
    scene.access(3, WRITE, [1], [[1]], size=2)
    (found,) = scene.checker.findings
    assert found.other is not None
    assert (found.index, found.other.block) == ((0,), (0, 0, 0))


def test_too_much_synchronisation_is_taken_for_order_and_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tilec_runtime.cpu.tileir.check.shadow._MOST_WORK", 0)
    scene = Scene()
    scene.access(1, WRITE, [0], [[5]])
    scene.access(2, ATOMIC, [0], [[0]], name="flag", order=ACQ_REL)
    scene.access(4, READ, [1], [[5]])
    assert scene.kinds() == []
    assert scene.checker.unsure


EVENTS = st.tuples(
    st.sampled_from([READ, WRITE, ATOMIC]),
    st.integers(0, 3),
    st.integers(0, 2),
    st.sampled_from([RELAXED, ACQUIRE, RELEASE, ACQ_REL]),
)


@given(
    st.lists(EVENTS, max_size=14),
    st.lists(st.integers(0, 14), min_size=2, max_size=2),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_order_is_the_same_looked_at_from_either_end(
    events: list[tuple[AccessKind, int, int, MemoryOrder]],
    times: list[int],
    first: int,
    second: int,
) -> None:
    scene = Scene()
    for line, (kind, block, element, order) in enumerate(events):
        scene.access(line, kind, [block], [[element]], name="flag", order=order)
    log = scene.checker._log
    since, until = sorted(min(time, log.time) for time in times)
    if first != second:
        forward = log.ordered(first, since, second, until)
        assert log.ordered(first, since, second, until, backward=True) == forward
        for step in range(since, until + 1):  # in steps, as a launch goes on, or at once
            log.ordered(first, since, second, step)
        assert SyncLog.ordered(log, first, since, second, until) == forward
