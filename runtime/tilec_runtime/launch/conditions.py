"""The program of a plan: under which conditions `prepare` would decide for another call as it did
for this one.

A call of the same class (`keys.facts_of`: presence, dtype, rank, device of each tensor, whether it
is read-only, contiguous, empty, aligned; types of other arguments) is decided alike except for the
following, each covered as noted.

| decided by | on | covered by |
|---|---|---|
| `Call`, `check_dtypes`, `check_ranks` | types, dtypes, ranks | the class; numbers fit their dtypes: patches (`packing`) |
| `check_places` | device; memory where there are elements | the class |
| `check_layouts` | contiguity, wanted strides, alignment to elements | the class; `_layout` |
| `check_writable` | read-only; outputs that overlap themselves | the class; `_layout`: strided outputs stay nested |
| `check_aliases` | byte ranges of outputs and others | `_apart`: ranges do not meet, or the addresses stay as far apart |
| `check_requires`, `check_facts` | every `requires`, divisors, alignment | `_contract` |
| `select_variant` | assumptions, optional tensors | `_variant`: those passed over stay unmet, the one taken stays met |
| `settle_in_turn` | tuning table, rules, points that were passed over | `_turn` |
| `launch_shape` | grid, block, shared memory | the program's outputs; `_shape`: not negative |
| `check_counts` | tiles of shared outputs | `_tiles` |
| `check_device_limits` | the device's limits, whole clusters | `_limits`, before and after what the compiler chose |
| an empty grid | launches nothing | `_shape`: it stays empty, or stays not empty |
| `packing.fixed_parts` | computed arguments fit their types | `_arguments` |
| `check_compiled`, `admit` | block, clusters, threads, shared memory | `_admitted`: no more shared memory than was allowed |
| `check_residency` | what fits on the device at once | `_admitted`: block and shared memory stay; the grid is no larger |
| `require_image`, `Site.function` | variant and device | nothing: they stay |

What cannot be written so makes a plan exact: it is for one set of extents, strides and deciding
numbers. `why_exact` has the reasons that are known beforehand; a `LoweringError` has the others
(floats computed with extents, small floats that are computed). A program has to give its own call's
launch, or it is not used.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilec_runtime.device.layout import TensorFacts, nesting, spans_meet
from tilec_runtime.device.scalars import numpy_dtype
from tilec_runtime.device.seam_types import DeviceInfo, GridWish, LaunchShape
from tilec_runtime.launch import program as op
from tilec_runtime.launch.checks import Call
from tilec_runtime.launch.images import Function
from tilec_runtime.launch.keys import Slots, has_slot
from tilec_runtime.launch.limits import MOST_TILES, cluster_of, is_tile, limits_of, whole_clusters
from tilec_runtime.launch.lowering import TensorTerms, lowered, number, truth
from tilec_runtime.launch.program import (
    LoweringError,
    Term,
    Writer,
    all_of,
    any_of,
    binary,
    product,
    unary,
)
from tilec_runtime.launch.select import Decision, Settled, assumed
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.expr import Expr, parse
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import AxisValue, VariantInfo
from tilec_runtime.model.signature import AbiSlot, Assumption, Param
from tilec_runtime.values import value_class

if TYPE_CHECKING:
    from tilec_runtime.model.table import TableEntry

# Grid, block and dynamic shared memory come first among the outputs; then computed kernel
# arguments.
SHAPE_OUTPUTS = 7
Terms = list[Term]


@value_class(frozen=True, kw_only=True, slots=True)
class Admitted:
    """What a launch was admitted for.

    Attributes:
        own: its shape by the kernel's expressions and the caller. shape: with what the image's
            compiler chose.
        wished: whether the caller says something of the grid.
        image: that is launched.
        function: its entry point; None for an empty grid.
        resident: the most blocks of a cooperative launch.
    """

    own: LaunchShape
    shape: LaunchShape
    image: ImageInfo
    wished: bool = False
    function: Function | None = None
    resident: int | None = None


@value_class(frozen=True, kw_only=True, slots=True)
class Program:
    """A plan's program.

    Attributes:
        steps: what it does. outputs: how many it has.
        arguments: output of each computed kernel argument, by (expression, type); others are
            constants of the plan.
        lasting: whether it has all conditions; else its plan is for one call.
    """

    steps: tuple[op.Step, ...]
    outputs: int
    arguments: Mapping[tuple[str, str], int]
    lasting: bool = True


def why_exact(
    call: Call, abi: Sequence[AbiSlot], device: DeviceInfo, grid: Sequence[GridWish]
) -> str:
    """Why the plan of a call is for its extents and strides alone; empty where it can be general."""
    contract = call.contract
    if device.interprets is not None:
        return "the cpu device is told the shapes of the tensors"
    if grid or call.cut_outputs:
        return "the caller says the grid, or cuts outputs into tiles"
    if any(slot.type.startswith("tensormap:") for slot in abi):
        return "tensor maps hold extents and strides"
    for param in contract.params:
        facts = call.tensors.get(param.name)
        if facts is None or facts.contiguous:
            continue
        if param.out and nesting(facts) is None:
            return "whether a strided output overlaps itself is searched for"
        if min(facts.stride) < 0 or DTYPES[facts.dtype].packed:
            return "a tensor has negative strides, or gaps between elements that share bytes"
    return ""


def settled_program(
    call: Call, settled: Settled, device: DeviceInfo, admitted: Admitted, slots: Slots, exact: str
) -> tuple[Program, str]:
    """The program of a call that was checked and admitted, and why it is exact.

    Args:
        call: with its axes settled.
        settled: how they were, and the variant.
        device: where it is launched.
        admitted: what was admitted.
        slots: of the call.
        exact: why its plan cannot be general; empty where it may be.
    """
    shape = [*admitted.shape.grid, *admitted.shape.block, admitted.shape.shared]
    for fixed in (True,) if exact else (False, True):
        why = "its program does not give its own launch"
        try:
            program = _Conditions(call, device, exact=fixed).program(settled, admitted)
            found = op.run(program.steps, slots, program.outputs)
            if found is not None and found[:SHAPE_OUTPUTS] == shape:
                return program, exact
        except LoweringError as error:
            why = str(error)
        exact = exact or why
    steps = tuple(
        step for output, value in enumerate(shape) for step in ((op.CONST, value), (op.OUT, output))
    )
    return Program(steps=steps, outputs=SHAPE_OUTPUTS, arguments={}, lasting=False), exact


class _Conditions:
    """Writes the program of one call."""

    def __init__(self, call: Call, device: DeviceInfo, *, exact: bool) -> None:
        self.call, self.contract, self.device, self.exact = call, call.contract, device, exact
        self.write = Writer()
        self.tensors: dict[str, TensorTerms] = {}
        self.names: dict[str, Any] = {}
        end = 0
        for place in self.contract.tensors:
            name = self.contract.params[place].name
            facts = call.tensors.get(name)
            if facts is None:
                end += 1
                continue
            self.tensors[name] = self.names[name] = self._terms(facts, end)
            end += 3 + 2 * len(facts.shape)
        for slot, place in enumerate(self.contract.others, end):
            if place in self.contract.keyed:
                value = call.values[place]
                self.names[self.contract.params[place].name] = (
                    ((op.SLOT, slot),) if has_slot(value) and not exact else _plain(value)
                )

    def _terms(self, facts: TensorFacts, first: int) -> TensorTerms:
        rank, shape, stride = len(facts.shape), list[Term](facts.shape), list[Term](facts.stride)
        if not self.exact:
            shape = [((op.SLOT, first + 3 + dim),) for dim in range(rank)]
            stride = [((op.SLOT, first + 3 + rank + dim),) for dim in range(rank)]
            if rank and facts.contiguous:
                stride[-1] = 1
        ptr, start, end = (((op.SLOT, first + place),) for place in range(3))
        size, dtype, contiguous = product(shape), facts.dtype, facts.contiguous
        return TensorTerms(
            ptr=ptr,
            start=start,
            end=end,
            shape=shape,
            stride=stride,
            size=size,
            dtype=dtype,
            contiguous=contiguous,
        )

    def program(self, settled: Settled, admitted: Admitted) -> Program:
        """Write it: what tells calls apart first."""
        variant, call = settled.considered[-1].variant, self.call
        computed = {
            (slot.expr.strip(), slot.type): slot
            for slot in variant.abi
            if not slot.scratch and self.contract.computes(slot)
        }
        env = self._env(call.axes)
        values = {key: lowered(parse(slot.expr), env) for key, slot in computed.items()}
        changing = [key for key, value in values.items() if isinstance(value, tuple)]
        arguments = {key: SHAPE_OUTPUTS + place for place, key in enumerate(changing)}
        for turn in settled.trail:
            self._turn(turn)
        for passed in settled.considered[:-1]:
            self.write.check(unary(op.NOT, all_of(self._variant(passed.variant))))
        for condition in [*self._variant(variant), *self._contract(call.axes)]:
            self.write.check(condition)
        params = self.contract.params
        for param in params:
            if param.name in self.tensors:
                self._layout(param)
        for out, other in self.contract.pairs:
            if params[out].name in self.tensors and params[other].name in self.tensors:
                self._apart(params[out].name, params[other].name)
        self._shape(env, admitted)
        for key, output in arguments.items():
            self._argument(output, number(values[key]), key[1])
        return Program(
            steps=tuple(self.write.steps),
            outputs=SHAPE_OUTPUTS + len(arguments),
            arguments=arguments,
        )

    def _env(self, axes: Mapping[str, AxisValue]) -> dict[str, Any]:
        return {**self.names, **axes}

    # The point and the variant

    def _turn(self, turn: Decision) -> None:
        """What was decided on the way to the point that was taken is decided so again."""
        if turn.unsayable:
            asked = [*(turn.sizes or ()), *((turn.when,) if turn.when is not None else ())]
            if not self.exact or any(
                attribute == "ptr" for each in asked for _, attribute in each.uses
            ):
                raise LoweringError("a dispatch rule or a tuning table cannot say")
            return None
        if turn.sizes is not None:
            sizes = [lowered(size, self._env(turn.axes)) for size in turn.sizes]
            return self._look_up(
                turn.entry,
                [number(int(size) if isinstance(size, float) else size) for size in sizes],
                turn.axes,
            )
        if turn.when is not None:
            held = truth(lowered(turn.when, self._env(turn.axes)))
            return self.write.check(held if turn.held else unary(op.NOT, held))
        fitting = any_of(
            [all_of(self._variant(variant)) for variant in self.contract.matching(dict(turn.axes))]
        )
        return self.write.check(unary(op.NOT, all_of([*self._contract(turn.axes), fitting])))

    def _look_up(
        self, found: TableEntry | None, sizes: Terms, axes: Mapping[str, AxisValue]
    ) -> None:
        from tilec_runtime.model.table import nearest, same_point  # few kernels have a table

        table, device = self.contract.table, self.device
        assert table is not None
        near = nearest(table, device.name, device.cc, device.multiprocessors)
        for entry in (
            entry for tuned in near for entry in tuned.entries if same_point(entry.point, axes)
        ):
            inside = [
                condition
                for (low, high), size in zip(entry.ranges, sizes, strict=True)
                for condition in (binary(op.GE, size, low), binary(op.LE, size, high))
            ]
            if entry is found:
                for condition in inside:
                    self.write.check(condition)
                return
            apart = found is not None and any(
                a[1] < b[0] or b[1] < a[0] for a, b in zip(entry.ranges, found.ranges, strict=True)
            )
            if not apart:
                self.write.check(unary(op.NOT, all_of(inside)))

    def _contract(self, axes: Mapping[str, AxisValue]) -> Terms:
        absent, env = self.call.absent, self._env(axes)
        requires = [
            truth(lowered(each, env)) for each in self.contract.requires if not absent & each.names
        ]
        given = (param for param in self.contract.params if param.name in self.tensors)
        facts = (
            Assumption(
                param=p.name, shape=p.shape_divisible, stride=p.stride_divisible, align=p.align
            )
            for p in given
        )
        return [
            *requires,
            *(holds for fact in facts for holds, _, _ in assumed(fact, self.tensors[fact.param])),
        ]

    def _variant(self, variant: VariantInfo) -> Terms:
        """Whether the arguments satisfy all assumptions of a variant."""
        if (
            self.contract.optionals
            and {fact.param for fact in variant.assume if fact.absent} != self.call.absent
        ):
            return [0]
        return [
            holds
            for fact in variant.assume
            if not fact.absent
            for holds, _, _ in assumed(fact, self.tensors[fact.param])
        ]

    # Tensors

    def _layout(self, param: Param) -> None:
        """Wanted strides; and dimensions of an output that lie within each other as they do, so
        that no two indices name one element.
        """
        facts, terms = self.call.tensors[param.name], self.tensors[param.name]
        if 0 in facts.shape:
            return
        for wanted, extent, step in zip(
            param.stride or (), terms.shape, terms.stride, strict=False
        ):
            if wanted is not None and step != wanted:
                equal = binary(op.EQ, step, wanted)
                self.write.check(equal if equal == 1 else any_of([equal, binary(op.LE, extent, 1)]))
        if param.out and not facts.contiguous and not self.exact:
            within: Term = 1
            for dim in reversed(nesting(facts) or ()):
                self.write.check(binary(op.GE, terms.stride[dim], within))
                within = binary(op.MUL, terms.shape[dim], terms.stride[dim])

    def _apart(self, out: str, other: str) -> None:
        """An output shares no byte with another tensor; interleaved ones stay as far apart as they
        are.
        """
        facts, other_facts = self.call.tensors[out], self.call.tensors[other]
        if 0 in (*facts.shape, *other_facts.shape):
            return
        one, two = self.tensors[out], self.tensors[other]
        if not spans_meet(facts, other_facts):
            self.write.check(
                binary(
                    op.EITHER, binary(op.LE, one.end, two.start), binary(op.LE, two.end, one.start)
                )
            )
        elif self.exact:
            self.write.check(
                binary(op.EQ, binary(op.SUB, two.ptr, one.ptr), other_facts.ptr - facts.ptr)
            )
        else:
            raise LoweringError("two tensors lie between each other")

    # The launch

    def _shape(self, env: Mapping[str, Any], admitted: Admitted) -> None:
        """Grid, block and shared memory: outputs, and what they are held against."""
        contract, write, own, image = self.contract, self.write, admitted.own, admitted.image
        grid, block = (
            [*self._dims(0, contract.grid, env), 1, 1, 1][:3],
            [*self._dims(3, contract.block, env), 1, 1, 1][:3],
        )
        (shared,) = self._dims(6, (contract.shared,), env)
        if admitted.wished:
            if any(isinstance(term, tuple) for term in grid):
                raise LoweringError(
                    "the caller says the grid, and the kernel's own depends on addresses"
                )
            grid = list(own.grid)
        empty = 0 in own.grid
        for term in grid:
            write.check(binary(op.GE if empty else op.GT, term, 0))
        for term in (*block, shared):
            write.check(binary(op.GE, term, 0))
        if empty:
            write.check(unary(op.NOT, all_of(grid)))
        self._tiles(grid, env)
        self._limits(grid, block, own)
        if image.block:
            grid = [binary(op.MUL, grid[0], product(image.cluster)), *grid[1:]]
            block, shared = list(admitted.shape.block), admitted.shape.shared
            self._limits(grid, block, admitted.shape)
        if admitted.function is not None:
            self._admitted(grid, block, shared, admitted, admitted.function)
        for output, term in enumerate((*grid, *block, shared)):
            if term != ((op.GET, output),):
                write.out(output, term)

    def _dims(self, first: int, expressions: Sequence[Expr], env: Mapping[str, Any]) -> Terms:
        """Values of expressions, which are outputs at once."""
        terms = [number(lowered(expression, env)) for expression in expressions]
        for output, term in enumerate(terms, first):
            if isinstance(term, tuple):
                self.write.out(output, term)
                terms[output - first] = ((op.GET, output),)
        return terms

    def _tiles(self, grid: Terms, env: Mapping[str, Any]) -> None:
        safety = self.contract.info.safety
        for region in safety.regions if safety is not None else ():
            if region.mapped:
                shape = self.tensors[region.param].shape
                sides = [number(lowered(parse(side), env)) for side in region.tile]
                tiles = product(
                    binary(op.CDIV, extent, side)
                    for extent, side in zip(shape, sides, strict=False)
                )
                self.write.check(binary(op.LE, binary(op.ADD, tiles, product(grid)), MOST_TILES))

    def _limits(self, grid: Terms, block: Terms, shape: LaunchShape) -> None:
        for holds, _, _ in limits_of(grid, block, shape.cluster, self.device):
            self.write.check(holds)

    def _admitted(
        self, grid: Terms, block: Terms, shared: Term, admitted: Admitted, function: Function
    ) -> None:
        """What `check_compiled`, `admit` and `check_residency` hold against the image."""
        check, shape, image, facts = (
            self.write.check,
            admitted.shape,
            admitted.image,
            function.facts,
        )
        threads = product(block)
        if not is_tile(image):
            for term, has in zip(block, shape.block, strict=True):
                if image.required_block:
                    check(binary(op.EQ, term, has))
            check(
                binary(
                    op.LE, threads, min(facts.max_threads, image.max_threads or facts.max_threads)
                )
            )
            for holds, _, _ in whole_clusters(grid, image.cluster):
                check(holds)
        check(
            binary(
                op.LE, shared, max(self.device.shared_default - facts.static_shared, shape.shared)
            )
        )
        if (
            cluster_of(shape, image) or shape.cooperative
        ):  # the driver was asked about launches of this block
            for term, has in zip((*block, shared), (*shape.block, shape.shared), strict=True):
                check(binary(op.EQ, term, has))
        if admitted.resident is not None:
            check(binary(op.LE, product(grid), admitted.resident))

    def _argument(self, output: int, term: Term, kind: str) -> None:
        """A computed kernel argument, in the range of its type."""
        row = DTYPES.get(kind)
        if row is None or (row.kind == "float" and row.bits < 32):
            raise LoweringError(f"a kernel argument of type {kind} is computed")
        if row.kind == "bool":
            return self.write.out(output, binary(op.NE, term, 0))
        bits = 0 if row.kind == "float" else row.bits if row.kind == "int" else -row.bits
        return self.write.out(output, term, bits)


def _plain(value: Any) -> int | float:
    """A number as expressions read it: one of NumPy as one of Python."""
    if isinstance(value, int | float):
        return value
    if numpy_dtype(value) == "bool":
        return bool(value)
    return operator.index(value) if hasattr(value, "__index__") else float(value)
