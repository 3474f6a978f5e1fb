"""What a use has to wait for, against a model that knows everything that comes before everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tilec_runtime.device.lines import Line
from tilec_runtime.tensors.uses import Uses

STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["read", "write", "sync"])), max_size=40
)


@given(STEPS)
def test_every_conflict_is_ordered_and_nothing_waits_for_itself(
    steps: list[tuple[int, str]],
) -> None:
    """Streams as vector clocks: each use knows which uses certainly come before it. The host waits
    for a line now and then.
    """
    uses = Uses()
    lines = [Line(0, handle) for handle in range(4)]
    # What comes before the next work of a line, by the number of its last use then; and what the
    # host waited for, which comes before everything that is enqueued later.
    known: dict[Line, dict[int, set[int]]] = {line: {0: set()} for line in lines}
    host: set[int] = set()
    done: list[bool] = []
    for place, verb in steps:
        line = lines[place]
        mine = known[line][max(known[line])]
        if verb == "sync":
            line.complete(line.enqueued)
            host |= mine
            continue
        write, before = verb == "write", set(mine)
        for use in uses.before(line, write=write):
            assert use.line is not line
            before |= known[use.line][max(n for n in known[use.line] if n >= use.number)]
        conflicts = {index for index, wrote in enumerate(done) if write or wrote}
        assert conflicts <= before | host, "a conflicting use is not ordered"
        uses.note(line, write=write)
        known[line][line.count] = before | {len(done)}
        done.append(write)
    covered = set(host).union(*(known[use.line][use.number] for use in uses.last))
    assert covered == set(range(len(done))), "memory would be given back before its last use"
