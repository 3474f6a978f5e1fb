"""Tiles through views, held against a reference that goes element by element, and undetermined
elements.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from tests.amount import examples
from tests.unit.runtime.cpu.tileir.build import I32, TOKEN, gathered, partition, region_of, run_op
from tests.unit.runtime.cpu.tileir.samples import garbage
from tests.unit.runtime.cpu.tileir.watching import Watcher
from tilec_runtime.cpu.tileir.frame import AccessKind, Undetermined
from tilec_runtime.cpu.tileir.ir import (
    MemoryOrder,
    Padding,
    Pointer,
    Scalar,
    TensorView,
    Tile,
    Type,
    View,
)
from tilec_runtime.cpu.tileir.memory import Memory, MemoryRegion
from tilec_runtime.cpu.tileir.values import LAYOUTS, STORAGE, Array, Layout, join, take
from tilec_runtime.cpu.tileir.views import Tensor
from tilec_runtime.errors import FaultError

INDEX_TYPES = (Scalar.I8, Scalar.I16, Scalar.I32, Scalar.I64)
ATTRIBUTES = {"order": MemoryOrder.WEAK, "inbounds": ()}


START = 0x7000_0000_1230  # far from a page's start, but a multiple of every element's size


@dataclasses.dataclass
class Case:
    """A view of a tensor in a buffer of random elements, which are held one to an item of `raw`;
    and one index for each block.
    """

    view: View
    raw: Array
    base: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    index: list[tuple[Tile, Array]]
    blocks: int

    @property
    def element(self) -> Scalar:
        return self.view.tensor.element

    @property
    def layout(self) -> Layout:
        return LAYOUTS[self.element]

    def region(self) -> MemoryRegion:
        """A copy of the elements as they lie in memory: those of four bits two to a byte."""
        raw = self.raw[0::2] | self.raw[1::2] << 4 if self.layout.packed else self.raw.copy()
        return MemoryRegion("x", START, raw.view(np.uint8), itemsize=self.layout.size)

    def byte(self, at: int) -> int:
        """The byte offset of an element."""
        return at // 2 if self.layout.packed else at * self.layout.size

    def tensor(self) -> Tensor:
        base = np.array([START + self.byte(self.base)])
        return Tensor(base, np.array([self.extents]), np.array([self.strides]))

    def positions(self, block: int) -> list[tuple[tuple[int, ...], int | None]]:
        """For each element of a block's tile its place in the tile, and its place in the buffer;
        None outside the tensor.
        """
        view = self.view
        found: list[tuple[tuple[int, ...], int | None]] = []
        for place in np.ndindex(*view.tile):
            at, inside = self.base, True
            for axis, dim in enumerate(view.dims):
                held = self.index[axis][1]
                row = held[block if len(held) > 1 else 0]
                where = (
                    int(row[place[axis]])
                    if axis == view.sparse
                    else int(row) * view.steps[axis] + place[axis]
                )
                inside &= 0 <= where < self.extents[dim]
                at += where * self.strides[dim]
            found.append((place, at if inside else None))
        return found


@st.composite
def cases(
    draw: st.DrawFn, elements: tuple[Scalar, ...] = tuple(Scalar), plain: bool = False
) -> Case:
    element = draw(st.sampled_from(elements))
    rank = draw(st.integers(1, 3))
    extents = tuple(draw(st.integers(1, 9)) for _ in range(rank))
    if plain:
        strides = tuple(int(np.prod(extents[dim + 1 :])) for dim in range(rank))
    else:
        strides = tuple(draw(st.sampled_from([1, 2, 3, 9, 10, 81, 0, -1, -9])) for _ in range(rank))
    tile = tuple(draw(st.sampled_from([1, 2, 4])) for _ in range(rank))
    padding = (
        draw(st.sampled_from([None, *Padding]))
        if element.is_float
        else draw(st.sampled_from([None, Padding.ZERO]))
    )
    tensor = TensorView(element, (None,) * rank, (None,) * rank)
    view: View
    match draw(st.sampled_from(["partition", "strided", "gather"])):
        case "partition":
            view = partition(tile, tensor, tuple(draw(st.permutations(range(rank)))), padding)
        case "strided":
            steps = tuple(draw(st.integers(1, 5)) for _ in range(rank))
            dims = tuple(draw(st.permutations(range(rank))))
            view = partition(tile, tensor, dims, padding, steps)
        case _:
            view = gathered(tile, tensor, draw(st.integers(0, rank - 1)), padding)
    blocks = draw(st.integers(1, 6))
    index = [draw(indices(view, axis, blocks)) for axis in range(rank)]
    low = sum(
        min(stride * (extent - 1), 0) for stride, extent in zip(strides, extents, strict=True)
    )
    high = sum(
        max(stride * (extent - 1), 0) for stride, extent in zip(strides, extents, strict=True)
    )
    base = -low + 2 * draw(st.integers(0, 3))
    base += base % 2
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    raw = random_elements(element, rng, (base + high + 2) // 2 * 2)
    return Case(view, raw, base, extents, strides, index, blocks)


def random_elements(element: Scalar, rng: np.random.Generator, *shape: int) -> Array:
    """Random elements, one to an item."""
    layout = LAYOUTS[element]
    data = rng.integers(0, 16 if layout.packed else 256, (*shape, layout.size), np.uint8)
    return data.view(layout.raw)[..., 0]


@st.composite
def indices(draw: st.DrawFn, view: View, axis: int, blocks: int) -> tuple[Tile, Array]:
    element = draw(st.sampled_from(INDEX_TYPES))
    rows = draw(st.sampled_from([1, blocks]))
    if axis == view.sparse:
        shape: tuple[int, ...] = (view.tile[axis],)
    else:
        shape = ()
        if rows > 1 and draw(st.booleans()):
            # Blocks whose tiles follow each other, the usual case.
            start, step = draw(st.integers(-2, 3)), draw(st.sampled_from([0, 1, 2, -1]))
            return Tile(element, ()), (start + step * np.arange(rows)).astype(STORAGE[element])
    number = rows * int(np.prod(shape))
    held = np.array([draw(st.integers(-3, 10)) for _ in range(number)], STORAGE[element]).reshape(
        rows, *shape
    )
    return Tile(element, shape), held


@given(case=cases())
def test_loads_give_what_the_reference_gives(case: Case) -> None:
    watcher, layout, padding = Watcher(), case.layout, case.view.padding
    held = layout.decode(case.raw)
    beyond = (
        garbage(layout, case.view.tile)
        if padding is None
        else np.broadcast_to(layout.decode(np.array([layout.padding(padding)])), case.view.tile)
    )
    for observer in (None, watcher):
        found, token = load(case, Memory([case.region()]), observer=observer)
        assert token is None
        assert found.dtype == STORAGE[case.element]
        assert len(found) in (1, case.blocks)
        for block in range(case.blocks):
            for place, at in case.positions(block):
                wanted = beyond[place] if at is None else held[at]
                got = found[(block if len(found) > 1 else 0, *place)]
                assert got.tobytes() == wanted.tobytes()
    assert watcher.elements(layout) == {
        (block, case.byte(at))
        for block in range(case.blocks)
        for _, at in case.positions(block)
        if at is not None
    }


@given(case=cases(), seed=st.integers(0, 1000), one=st.booleans())
def test_stores_leave_what_the_reference_leaves(case: Case, seed: int, one: bool) -> None:
    shape = (1 if one else case.blocks, *case.view.tile)
    held = case.layout.decode(random_elements(case.element, np.random.default_rng(seed), *shape))
    regions = [case.region() for _ in range(2)]
    for region, observer in zip(regions, (None, Watcher()), strict=True):
        store(case, Memory([region]), held, observer=observer)
    raw = case.layout.encode(held)
    for block in range(case.blocks):
        for place, at in case.positions(block):
            if at is not None:
                case.raw[at] = raw[(0 if one else block, *place)]
    for region in regions:
        np.testing.assert_array_equal(region.data, case.region().data)


@examples(50)
@given(case=cases(elements=(Scalar.F32, Scalar.I8, Scalar.F64), plain=True))
def test_each_block_may_have_a_tensor_of_its_own(case: Case) -> None:
    whole = case.tensor()
    rows = case.blocks
    extents = np.repeat(whole.extents, rows, axis=0)
    extents[:, 0] = np.arange(rows) % (case.extents[0] + 1)
    size = LAYOUTS[case.element].size
    # Each starts a row further on, and ends before the buffer does.
    base = whole.base + np.arange(rows) % case.extents[0] * case.strides[0] * size
    extents[:, 0] = np.minimum(extents[:, 0], case.extents[0] - np.arange(rows) % case.extents[0])
    found = load(case, Memory([case.region()]), Tensor(base, extents, whole.strides))[0]
    for block in range(rows):
        mine = Tensor(base[block : block + 1], extents[block : block + 1], whole.strides)
        alone = dataclasses.replace(
            case,
            index=[
                (kind, held[block : block + 1] if len(held) > 1 else held)
                for kind, held in case.index
            ],
        )
        expected = load(alone, Memory([case.region()]), mine)[0][0]
        assert found[block if len(found) > 1 else 0].tobytes() == expected.tobytes()


def load(
    case: Case, memory: Memory, tensor: Tensor | None = None, **more: Any
) -> tuple[Array, None]:
    operands: dict[str, Any] = {"view": (case.view, tensor or case.tensor()), "index": case.index}
    kinds: list[Type] = [Tile(case.element, case.view.tile), TOKEN]
    found = run_op(
        "load_view_tko", operands, kinds, ATTRIBUTES, memory=memory, blocks=case.blocks, **more
    )
    return found[0], found[1]


def store(case: Case, memory: Memory, held: Array, **more: Any) -> None:
    operands: dict[str, Any] = {
        "view": (case.view, case.tensor()),
        "value": (Tile(case.element, case.view.tile), held),
        "index": case.index,
    }
    run_op("store_view_tko", operands, TOKEN, ATTRIBUTES, memory=memory, blocks=case.blocks, **more)


def matrix(array: Array, tile: tuple[int, ...], *index: Array, **more: Any) -> tuple[Any, ...]:
    """Load tiles of an array of float32, or store `value` there."""
    rank, element = array.ndim, Scalar.F32
    view = partition(
        tile,
        TensorView(element, array.shape, (None,) * rank),
        tuple(range(rank)),
        more.pop("padding", None),
    )
    memory = more.pop("memory", None) or Memory([region_of("x", array)])
    strides = [stride // array.itemsize for stride in array.strides]
    tensor = Tensor(
        np.array([array.ctypes.data]),
        np.array([more.pop("extents", array.shape)]),
        np.array([strides]),
    )
    attributes = {**ATTRIBUTES, "inbounds": more.pop("inbounds", ())}
    operands: dict[str, Any] = {
        "view": (view, tensor),
        "index": [(Tile(Scalar.I64, ()), item) for item in index],
    }
    if "value" in more:
        operands["value"] = (Tile(element, tile), more.pop("value"))
        return run_op("store_view_tko", operands, TOKEN, attributes, memory=memory, **more)
    return run_op(
        "load_view_tko", operands, [Tile(element, tile), TOKEN], attributes, memory=memory, **more
    )


def test_a_loaded_value_does_not_change_with_memory() -> None:
    array = np.zeros((4, 4), np.float32)
    for index in (
        [np.array([0]), np.array([0])],
        [np.arange(2), np.zeros(2, int)],
        [np.array([1, 0, 1]), np.array([0, 1, 1])],
    ):
        found = matrix(array, (2, 2), *index)[0]
        array += 1
        assert (found == array[0, 0] - 1).all()


def test_a_tile_that_goes_past_memory_is_a_fault_though_its_tensor_does_not_say_so() -> None:
    array = np.zeros((4, 4), np.float32)
    with pytest.raises(FaultError) as error:
        matrix(array, (2, 2), np.array([0, 1, 2]), np.array([0]), extents=(6, 4), grid=(2, 2, 1))
    assert str(error.value) == (
        f"{error.value.location}: kernel: load_view_tko in block (0, 1, 0): reads element (4, 0) of a view with extents (6, 4), which is "
        "element 16 of x with 16 elements\n"
        "  cause: the extents or strides that the view was made with describe more memory than the parameter has\n"
        "  fix: pass the array's own shape and strides to the kernel"
    )
    assert error.value.location is not None
    assert (error.value.location.file, error.value.location.line) == ("kernel.py", 1)
    assert (error.value.block, error.value.parameter, error.value.index) == ((0, 1, 0), "x", (4, 0))


def test_a_broken_promise_of_bounds() -> None:
    whole = np.arange(16, dtype=np.float32).reshape(4, 4)
    part, index = whole[:, :3], (np.array([0]), np.array([1]))
    inbounds = {"inbounds": (False, True)}
    # Beside the tensor, yet in its memory: on a GPU nobody would notice.
    memory = Memory([region_of("x", whole)])
    found = matrix(part, (2, 2), *index, memory=memory, **inbounds)[0]
    np.testing.assert_array_equal(found[0], whole[:2, 2:])
    watcher = Watcher(go_on=True)
    found = matrix(part, (2, 2), *index, observer=watcher, **inbounds)[0]
    np.testing.assert_array_equal(found[0], [[2, 0], [6, 0]])
    (told,) = watcher.outsides
    assert told.promised
    assert told.index is not None
    assert told.index.tolist() == [[0, 3], [1, 3]]
    what = (
        r"reads element \(0, 3\) of a view with extents \(4, 3\), though it is declared in bounds"
    )
    with pytest.raises(FaultError, match=what):
        matrix(part, (2, 2), *index, observer=Watcher(), **inbounds)


@pytest.mark.parametrize("value", [{}, {"value": np.zeros((5, 2, 4), np.float32)}])
def test_an_observer_is_told_of_tiles_that_lie_entirely_outside(value: dict[str, Array]) -> None:
    array, watcher = np.ones((3, 6), np.float32), Watcher()
    # Inside, partly, below, to the right, above.
    matrix(
        array,
        (2, 4),
        np.array([0, 1, 2, 1, -1]),
        np.array([0, 1, 0, 2, 1]),
        observer=watcher,
        **value,
    )
    (told,) = watcher.outsides
    assert told.index is not None
    assert (told.kind is AccessKind.WRITE, told.promised, told.tile) == (bool(value), False, (2, 4))
    assert (told.rows.tolist(), told.index.tolist()) == ([2, 3, 4], [[4, 0], [2, 8], [-2, 4]])
    assert told.addresses.tolist() == [array.ctypes.data + 4 * at for at in (24, 20, -8)]
    inside = [(0, at) for at in (0, 4, 8, 12, 24, 28, 32, 36)] + [(1, 64), (1, 68)]
    assert watcher.elements(LAYOUTS[Scalar.F32]) == set(inside)


@pytest.mark.parametrize("far", [1 << 62, -(1 << 62), (1 << 63) - 1])
def test_an_index_so_far_out_that_places_would_wrap(far: int) -> None:
    array, index = np.ones(64, np.float32), np.array([far, 0])
    found = matrix(array, (4,), index, padding=Padding.NAN)[0]
    assert np.isnan(found[0]).all()
    assert (found[1] == 1).all()


def test_make_tensor_view_takes_extents_and_strides_from_type_and_values() -> None:
    kind = TensorView(Scalar.F32, (None, 8, None), (None, 4, 1))
    pointer = Tile(Pointer(Scalar.F32), ())
    operands: dict[str, Any] = {
        "base": (pointer, np.array([0x1000, 0x2000])),
        "shape": [(I32, np.array([3, 3])), (I32, np.array([5]))],
        "strides": [(Tile(Scalar.I64, ()), np.array([40, 50]))],
    }
    (made,) = run_op("make_tensor_view", operands, kind)
    assert made.base.tolist() == [0x1000, 0x2000]
    assert made.extents.tolist() == [[3, 8, 5]]
    assert made.strides.tolist() == [[40, 4, 1], [50, 4, 1]]


def test_tensors_are_parted_and_joined_with_their_blocks() -> None:
    tensor = Tensor(np.array([1, 2, 3, 4]), np.array([[5]]), np.array([[1], [2], [3], [4]]))
    places = [np.array([0, 2]), np.array([3, 1])]
    whole = join([take(tensor, rows) for rows in places], places, 4)
    assert isinstance(whole, Tensor)
    assert whole.base.tolist() == [1, 2, 3, 4]
    assert whole.extents.tolist() == [[5]]
    assert whole.strides.tolist() == [[1], [2], [3], [4]]


_FAR = st.one_of(
    st.sampled_from([1, 2, 3, -1, 5116089176692883457, (1 << 62) + 1, (1 << 63) - 1, -(1 << 63)]),
    st.integers(0, 63).map(lambda bits: (1 << bits) - 1),
    st.integers(0, 63).map(lambda bits: -(1 << bits)),
)


@examples(300)
@given(case=cases(), go_on=st.sampled_from([None, False, True]), data=st.data())
def test_no_number_is_too_large(case: Case, go_on: bool | None, data: st.DataObject) -> None:
    """Whatever extents, strides, steps and indices damaged Tile IR has: a launch ends well, or with
    a fault that says why.
    """

    def some(numbers: tuple[int, ...], least: int = -(1 << 63)) -> tuple[int, ...]:
        return tuple(
            max(data.draw(_FAR), least) if data.draw(st.booleans()) else number
            for number in numbers
        )

    index = [(Tile(Scalar.I64, kind.shape), held.astype(np.int64)) for kind, held in case.index]
    for _, held in index:
        held.reshape(-1)[:1] = data.draw(_FAR)
    view = case.view
    if view.name == "strided_view":
        view = dataclasses.replace(
            view, steps=tuple(min(step, (1 << 31) - 1) for step in some(view.steps, least=1))
        )
    case = dataclasses.replace(
        case, view=view, extents=some(case.extents), strides=some(case.strides), index=index
    )
    observers = [None if go_on is None else Watcher(go_on=go_on) for _ in range(2)]
    region, faults = case.region(), []
    before = region.data.copy()
    try:
        load(case, Memory([region]), observer=observers[0])
    except FaultError as error:
        faults.append(error)
    assert (region.data == before).all()
    held = np.zeros((1, *view.tile), STORAGE[case.element])
    try:
        store(case, Memory([region]), held, observer=observers[1])
    except FaultError as error:
        faults.append(error)
    assert all(
        error.location is not None and (go_on is not True or "multiple" in error.what)
        for error in faults
    )


NAN, BIG = np.nan, float(np.finfo(np.float32).max)


@pytest.mark.parametrize(
    ("element", "values"),
    [
        (Scalar.F16, [NAN, 65504, -65504]),
        (Scalar.BF16, [NAN, 3.3895313892515355e38, -3.3895313892515355e38]),
        (Scalar.F32, [NAN, BIG, -BIG]),
        (Scalar.TF32, [NAN, 3.4011621342146535e38, -3.4011621342146535e38]),
        (Scalar.F64, [NAN, np.finfo(np.float64).max, np.finfo(np.float64).min]),
        (Scalar.F8E4M3FN, [NAN, 448, -448]),
        (Scalar.F8E5M2, [NAN, 57344, -57344]),
        (Scalar.F8E8M0FNU, [NAN, 2.0**127, 2.0**-127]),
        (Scalar.F8E5M3FNU, [0xFF, 0xFE, 0]),
        (Scalar.F4E2M1FN, [6, 6, -6]),
        (Scalar.I1, [True, False, True]),
        (Scalar.I4, [7, -8, 7]),
        (Scalar.I8, [127, -128, 127]),
        (Scalar.I64, [2**63 - 1, -(2**63), 2**63 - 1]),
    ],
    ids=str,
)
def test_hostile_values(element: Scalar, values: list[Any]) -> None:
    form = LAYOUTS[element]
    found = form.decode(form.hostile())
    np.testing.assert_array_equal(
        found if found.dtype.kind in "ib" else found.astype(np.float64), values
    )


INDEX = np.array([0, 1]), np.array([1])


@pytest.mark.parametrize("observer", [None, Watcher()], ids=["whole tiles", "one by one"])
@pytest.mark.parametrize("turn", [0, 1, 2, None])
def test_elements_beyond_the_edge(turn: int | None, observer: Watcher | None) -> None:
    array = np.ones((3, 6), np.float32)
    wish = Undetermined(turn=turn)
    found = matrix(array, (2, 4), *INDEX, observer=observer, undetermined=wish)[0]
    other = (
        np.zeros((2, 4), np.float32) if turn is None else garbage(LAYOUTS[Scalar.F32], (2, 4), turn)
    )
    inside = np.zeros((2, 2, 4), np.bool_)
    inside[0, :, :2] = inside[1, :1, :2] = True
    np.testing.assert_array_equal(found, np.where(inside, np.float32(1), other))


def test_one_operation_and_some_blocks_can_be_filled() -> None:
    array = np.ones((3, 6), np.float32)
    for wish, filled in (
        (Undetermined(site=("kernel", 0)), [True, True]),
        (Undetermined(site=("kernel", 1)), [False, False]),
        (Undetermined(site=("other", 0)), [False, False]),
        (Undetermined(blocks=1), [True, False]),
        (Undetermined(blocks=0), [False, False]),
    ):
        found = matrix(array, (2, 4), *INDEX, undetermined=wish)[0]
        assert [bool((tile_ != np.nan_to_num(tile_)).any()) for tile_ in found] == filled
        assert all(
            set(tile_.reshape(-1).tolist()) == {0, 1}
            for tile_, full in zip(found, filled, strict=True)
            if not full
        )
