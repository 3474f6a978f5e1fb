"""The reader of Tile IR takes any bytes: a module or one kind of error comes out, in bounded time
and memory. What is read can be printed and prepared, or is refused by the same kind of error.
"""

from __future__ import annotations

import contextlib
import functools
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tilec_runtime.cpu.tileir.ir import Module
from tilec_runtime.cpu.tileir.program import prepare
from tilec_runtime.cpu.tileir.read import MAGIC, read_module
from tilec_runtime.cpu.tileir.text import render
from tilec_runtime.errors import TileIRError

FOLDER = Path(__file__).parents[1] / "samples" / "tileir"
FILES = {path.stem: path.read_bytes() for path in sorted(FOLDER.glob("*.tilebc"))}
NAMES = sorted(FILES)
SECONDS = 5.0  # of this process, for files of some kilobytes that take milliseconds
BYTES = 32 << 20


def taken(data: bytes) -> Module | None:
    """What is read, printed and prepared, or None where it is refused."""
    start = time.process_time()
    module = None
    with contextlib.suppress(TileIRError):
        module = read_module(data)
        with contextlib.suppress(TileIRError):
            assert render(module)
        for function in module.functions:
            with contextlib.suppress(TileIRError):
                prepare(module, function.name)
    assert time.process_time() - start < SECONDS
    return module


@pytest.mark.parametrize("name", NAMES)
def test_the_files_are_whole(name: str) -> None:
    module = taken(FILES[name])
    assert module is not None
    assert sum(1 for function in module.functions for _ in function.walk()) > 10


@pytest.mark.parametrize("name", NAMES)
def test_no_cut_file_is_taken(name: str) -> None:
    whole = FILES[name]
    assert [length for length in range(len(whole)) if taken(whole[:length])] == []


@examples(400)
@given(
    st.sampled_from(NAMES),
    st.lists(st.tuples(st.integers(0, 2**32), st.integers(0, 255)), min_size=1, max_size=8),
)
def test_changed_bytes(name: str, changes: list[tuple[int, int]]) -> None:
    data = bytearray(FILES[name])
    for place, value in changes:
        data[place % len(data)] = value
    taken(bytes(data))


@examples(300)
@given(st.sampled_from(NAMES), st.data())
def test_parts_that_are_moved_left_out_or_put_in(name: str, data: st.DataObject) -> None:
    whole = FILES[name]
    first, second, third = sorted(
        data.draw(st.tuples(*[st.integers(len(MAGIC), len(whole))] * 3), label="places")
    )
    put = data.draw(st.binary(max_size=6), label="bytes")
    taken(data.draw(st.sampled_from([
        whole[:first] + whole[second:third] + whole[first:second] + whole[third:],
        whole[:first] + put + whole[second:],
        whole[:first] + whole[first:second] * 3 + whole[second:],
    ])))  # fmt: skip


@examples(200)
@given(st.integers(0, 255), st.integers(0, 255), st.binary(max_size=300))
def test_any_bytes_behind_a_header(major: int, minor: int, tail: bytes) -> None:
    assert taken(MAGIC + bytes([major, minor]) + tail) is None
    assert taken(MAGIC + b"\x0d\x03\0\0" + tail) is None or not tail
    assert taken(tail) is None


@examples(60)
@given(
    st.sampled_from(NAMES),
    st.integers(0, 2**32),
    st.sampled_from([b"\xff" * 9 + b"\1", b"\xff\xff\xff\x7f", b"\xff\xff\x03"]),
)
def test_huge_numbers_take_no_memory(name: str, place: int, number: bytes) -> None:
    whole = FILES[name]
    at = 12 + place % (len(whole) - 12)
    tracemalloc.start()
    try:
        taken(whole[:at] + number + whole[at + 1 :])
        assert tracemalloc.get_traced_memory()[1] < BYTES
    finally:
        tracemalloc.stop()


# Files made to be costly: small on disk, large once read.


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def section(number: int, content: bytes) -> bytes:
    return bytes([number]) + varint(len(content)) + content


def table(items: list[bytes], width: int = 4) -> bytes:
    """A table at a section's start, its offsets behind padding."""
    head = varint(len(items))
    head += bytes(-len(head) % width)
    offsets, at = b"", 0
    for item in items:
        offsets += at.to_bytes(width, "little")
        at += len(item)
    return head + offsets + b"".join(items)


def assembled(types: list[bytes], body: bytes, debug: bytes = b"", records: int = 0) -> bytes:
    """A file with one kernel `k`: type 0 is its signature."""
    one = varint(0) + varint(0) + b"\x02" + varint(records) + varint(len(body)) + body
    parts = section(2, varint(1) + one) + section(5, table(types)) + section(1, table([b"k"]))
    return MAGIC + b"\x0d\x04\0\0" + parts + (section(3, debug) if debug else b"") + b"\0"


SIGNATURE = b"\x10\0\0"
RETURN = b"\x5c\0\0"
TOKEN_TYPE = b"\x11"
MAKE_TOKEN = b"\x44\1"


def refused(data: bytes, limit: int) -> str:
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(TileIRError) as caught:
            read_module(data)
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()
    assert time.process_time() - start < 60
    return str(caught.value)


def test_too_many_operations() -> None:
    # Their number is what bounds the memory: 100,000 take less than 100 MB.
    with pytest.raises(TileIRError, match="more than 500000 operations, values and attributes"):
        read_module(assembled([SIGNATURE, TOKEN_TYPE], MAKE_TOKEN * 130_000 + RETURN))


def places(records: list[bytes], index: int) -> bytes:
    """A debug section for one function whose two operations are at one record."""
    numbers = b"\1" + bytes(3) + bytes(4) + b"\3"
    numbers += bytes(-len(numbers) % 8) + index.to_bytes(8, "little") * 3
    count = varint(len(records))
    head = count + bytes(-(len(numbers) + len(count)) % 4)
    offsets = b"".join(
        sum(map(len, records[:n])).to_bytes(4, "little") for n in range(len(records))
    )
    return numbers + head + offsets + b"".join(records)


JOIN = b"\x3c\1\1" + varint(600_000) + b"\0" * 600_000
# A loop without values whose only block has the next loop, and so on.
NESTED = functools.reduce(lambda inner, _: b"\x41\0\0\1\1\0\1" + inner, range(5000), b"\x0a\0\0")
# Each signature has the next one for both parameters.
DOUBLED = [b"\x10\2" + varint(n + 1) * 2 + b"\0" for n in range(60)]
# Each call site has the one before it both as callee and as caller.
CALL_SITES = [b"\x04\0\0\1\1"] + [b"\x06" + varint(n) * 2 for n in range(1, 40)]


def with_places(records: list[bytes], index: int) -> bytes:
    made = places(records, index)
    return assembled([SIGNATURE, TOKEN_TYPE], MAKE_TOKEN + RETURN, made, records=1)


@pytest.mark.parametrize(
    ("data", "limit", "says"),
    [
        (assembled([SIGNATURE, TOKEN_TYPE], MAKE_TOKEN + JOIN + RETURN), 100, "more than 500000"),
        (assembled([SIGNATURE], NESTED), 100, "regions are nested too deeply"),
        (assembled([*DOUBLED, SIGNATURE], RETURN), 10, "types are nested too deeply"),
        (assembled([b"\x10\1\0\0"], RETURN), 10, "types are nested too deeply"),
        (assembled([TOKEN_TYPE], RETURN), 10, "the type of k is no function's"),
        (with_places(CALL_SITES, 40), 10, "debug locations are nested too deeply"),
        (with_places([b"\x06\1\1"], 1), 10, "debug locations are nested too deeply"),
    ],
    ids=[
        *("operands", "regions in regions", "types in types", "a type in itself"),
        *("a kernel of another type", "call sites that double", "a call site in itself"),
    ],
)
def test_costly_files_are_refused(data: bytes, limit: int, says: str) -> None:
    assert says in refused(data, limit << 20)


def test_a_huge_file_is_not_looked_at() -> None:
    with contextlib.suppress(MemoryError):
        assert "more than" in refused(MAGIC + bytes(64 << 20), 200 << 20)
