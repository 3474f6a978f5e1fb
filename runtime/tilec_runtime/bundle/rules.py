"""Rules between several fields of an index: names, equal counts, total sizes.

All functions raise Misfit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tilec_runtime.bundle import limits
from tilec_runtime.bundle.codec import unfit
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue, BundleInfo, KernelInfo
from tilec_runtime.model.operator import GRAD, BackwardInfo, OperatorInfo
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind
from tilec_runtime.model.table import TuningTable
from tilec_runtime.model.tensormap import ALIGN, SIZE, TensorMap

_POINTER = 8
_MOST_SCRATCH = 1 << 30  # bytes of one block


def check_index(info: BundleInfo) -> None:
    """Check a whole index, apart from the kernels themselves."""
    _unique("sources", (name for name, _ in info.sources), "source")
    for index, (name, _) in enumerate(info.sources):
        _contained(f"sources[{index}]", name)
    named = {kernel.name: kernel for kernel in info.kernels}
    for kernel in info.kernels:
        if kernel.backward is not None:
            _check_backward(f"kernels.{kernel.name}.op.backward", kernel, kernel.backward, named)


def check_kernel(kernel: KernelInfo) -> None:
    """Check one kernel except its expressions, which its first launch parses."""
    here = f"kernels.{kernel.name}"
    _contained(f"{here}.location.file", kernel.location.file)
    _check_signature(here, kernel)
    _check_variants(here, kernel)


def _check_signature(here: str, kernel: KernelInfo) -> None:
    axes = dict(kernel.axes)
    tensors = {param.name for param in kernel.params if param.kind is ParamKind.TENSOR}
    _unique(f"{here}.params", (param.name for param in kernel.params), "parameter")
    _unique(f"{here}.axes", (name for name, _ in kernel.axes), "axis")
    _check_axes(here, kernel, axes)
    for index, param in enumerate(kernel.params):
        _check_param(f"{here}.params[{index}]", param, kernel)
    _check_lists(f"{here}.lists", kernel)
    for name, _ in kernel.default:
        if name not in axes:
            unfit(f"{here}.default", f"no axis {name!r}")
    for region in kernel.safety.regions if kernel.safety else ():
        if region.param not in tensors:
            unfit(f"{here}.safety.regions", f"no parameter {region.param!r} that is a tensor")
    if kernel.op is not None:
        _check_operator(f"{here}.op", kernel, kernel.op)
    if kernel.table is not None:
        _check_table(f"{here}.table", kernel.table)


def _check_axes(here: str, kernel: KernelInfo, axes: Mapping[str, tuple[AxisValue, ...]]) -> None:
    for index, (name, values) in enumerate(kernel.axes):
        if not values:
            unfit(f"{here}.axes[{index}]", f"axis {name!r} has no values")
    for name in kernel.dtype_axes:
        if name not in axes:
            unfit(f"{here}.dtype_axes", f"no axis {name!r}")
        for value in axes[name]:
            if value not in DTYPES:
                unfit(f"{here}.dtype_axes", f"axis {name!r} holds {value!r}, which is no dtype")


def _check_param(here: str, param: Param, kernel: KernelInfo) -> None:
    typed = param.dtype or param.kind in (ParamKind.TENSOR, ParamKind.SCALAR)
    if typed and param.dtype not in DTYPES and param.dtype not in kernel.dtype_axes:
        unfit(f"{here}.dtype", f"{param.dtype!r} is neither a dtype nor a dtype axis of the kernel")
    if param.optional and param.kind is not ParamKind.TENSOR:
        unfit(f"{here}.optional", f"{param.name!r} is no tensor: only tensors may be None")


def _check_lists(here: str, kernel: KernelInfo) -> None:
    """Check that lists are disjoint, hold tensors, and have axes of valid lengths."""
    axes, end = dict(kernel.axes), 0
    for index, one in enumerate(kernel.lists):
        arrays = kernel.params[one.first : one.first + one.most]
        if one.first < end or len(arrays) != one.most:
            unfit(f"{here}[{index}]", "is not in order, or has more arrays than the kernel takes")
        end = one.first + one.most
        counts = axes.get(one.axis, ()) if one.axis else (one.most,)
        whole = [count for count in counts if type(count) is int and 0 < count <= one.most]
        if not counts or len(whole) != len(counts):
            unfit(f"{here}[{index}].axis", f"{one.axis!r} is no axis of counts up to {one.most}")
        least = min(whole)
        for position, param in enumerate(arrays):
            if param.kind is not ParamKind.TENSOR or param.optional != (position >= least):
                unfit(f"{here}[{index}]", f"{param.name!r} is no array of a list")
    if kernel.lists:
        _unique(f"{here}", (param.name for param in kernel.call_params), "parameter of calls")


def _check_operator(here: str, kernel: KernelInfo, op: OperatorInfo) -> None:
    """Check the outputs of an operator.

    They must be tensors that the kernel writes, described by tensors of the inputs.
    """
    _unique(f"{here}.outputs", (output.param for output in op.outputs), "output")
    tensors = {p.name: p for p in kernel.params if p.kind is ParamKind.TENSOR and not p.optional}
    for index, output in enumerate(op.outputs):
        where = f"{here}.outputs[{index}]"
        if output.param not in tensors or not tensors[output.param].out:
            unfit(where, f"{output.param!r} is no tensor that the kernel writes")
        sources = [output.dtype.removesuffix(".dtype")] if output.dtype not in DTYPES else []
        for name in (*sources, *([output.like] if output.like else [])):
            if name not in tensors or name in op.allocated:
                unfit(where, f"{name!r} is no tensor among the inputs")


def _check_backward(
    here: str, kernel: KernelInfo, backward: BackwardInfo, kernels: dict[str, KernelInfo]
) -> None:
    """Check that a backward kernel is an operator, and that its arguments exist."""
    other = kernels.get(backward.kernel)
    if other is None or other.op is None:
        unfit(here, f"{backward.kernel!r} is no operator of the bundle")
    _unique(f"{here}.args", (name for name, _ in backward.args), "argument")
    own, its = ({param.name for param in each.params} for each in (kernel, other))
    for name, stands in backward.args:
        if name not in its:
            unfit(here, f"{backward.kernel!r} has no parameter {name!r}")
        if stands not in own and stands.removeprefix(GRAD) not in own:
            unfit(here, f"{stands!r} is neither a parameter nor the gradient of one")


def _check_table(here: str, table: TuningTable) -> None:
    """Check that devices differ, and that each entry has a range for each size."""
    _unique(f"{here}.devices", (device.name for device in table.devices), "device")
    for number, device in enumerate(table.devices):
        for index, entry in enumerate(device.entries):
            if len(entry.ranges) != len(table.sizes):
                where = f"{here}.devices[{number}].entries[{index}]"
                counts = f"{len(entry.ranges)} ranges, and there are {len(table.sizes)} sizes"
                unfit(where, f"has {counts}")


def _check_variants(here: str, kernel: KernelInfo) -> None:
    _unique(f"{here}.variants", (variant.id for variant in kernel.variants), "variant")
    axes = {name for name, _ in kernel.axes}
    tensors = {param.name for param in kernel.params if param.kind is ParamKind.TENSOR}
    optionals = kernel.optionals
    abis: dict[int, tuple[AbiSlot, ...]] = {}  # by id: thousands of variants share a few ABIs
    for index, variant in enumerate(kernel.variants):
        for name, _ in variant.axes:
            if name not in axes:
                unfit(f"{here}.variants[{index}].axes", f"no axis {name!r}")
        for assumption in variant.assume:
            if assumption.param not in (optionals if assumption.absent else tensors):
                kind = "optional parameter" if assumption.absent else "tensor"
                unfit(f"{here}.variants[{index}].assume", f"no {kind} {assumption.param!r}")
        if id(variant.abi) not in abis:
            abis[id(variant.abi)] = variant.abi
            _check_abi(f"{here}.variants[{index}].abi", variant.abi, kernel)
    _check_length(f"{here}.launch", kernel, abis.values())


def _check_abi(here: str, abi: tuple[AbiSlot, ...], kernel: KernelInfo) -> None:
    """Check that each argument has its type's size and fits its parameter."""
    params = {param.name: param for param in kernel.params}
    total = sum(slot.size for slot in abi)
    if total > limits.ARGUMENTS:
        unfit(here, f"takes {total} bytes of arguments, more than {limits.ARGUMENTS}")
    for slot in abi:
        name = slot.expr.strip()
        param = params.get(name)
        if slot.type == "struct":
            size = param.size if param is not None and param.kind is ParamKind.STRUCT else 0
        elif slot.type == "ptr" or slot.type in DTYPES:
            size = _POINTER if slot.type == "ptr" else DTYPES[slot.type].bytes
            if param is not None and param.kind in (ParamKind.TENSOR, ParamKind.STRUCT):
                unfit(here, f"{name!r} is a {param.kind.value}, and is passed as {slot.type}")
        else:
            _check_special(here, slot, kernel.params)
            continue
        if slot.size != size:
            unfit(here, f"{name!r} of type {slot.type} has {slot.size} bytes, not {size}")


def _check_special(here: str, slot: AbiSlot, params: Sequence[Param]) -> None:
    """Check an argument of another type: it must be a tensor map or scratch memory."""
    tensors = [f"{param.name}.ptr" for param in params if param.kind is ParamKind.TENSOR]
    if slot.scratch:
        if slot.scratch > _MOST_SCRATCH or (slot.expr, slot.size, slot.align) != ("0", 8, 8):
            unfit(here, f"{slot.type!r} is no address of scratch memory")
    elif TensorMap.parse(slot.type) is None:
        unfit(
            here, f"{slot.type!r} is neither ptr, struct, a dtype, a tensor map nor scratch memory"
        )
    elif slot.expr not in tensors or (slot.size, slot.align) != (SIZE, ALIGN):
        unfit(here, f"{slot.expr!r} of {slot.size} bytes is no tensor map of a parameter")


def _check_length(here: str, kernel: KernelInfo, abis: Iterable[tuple[AbiSlot, ...]]) -> None:
    """Check the total length of expressions.

    The first launch of a kernel parses them.
    """
    launch = kernel.launch
    texts = {
        *launch.grid,
        *launch.block,
        launch.shared,
        *launch.requires,
        *(slot.expr for abi in abis for slot in abi),
    }
    texts.update(rule.when for rule in kernel.rules)
    texts.update(kernel.table.sizes if kernel.table is not None else ())
    length = sum(map(len, texts)) + limits.EXPRESSION_COST * len(texts)
    if length > limits.EXPRESSIONS:
        unfit(
            here,
            f"{len(texts)} expressions are too much to parse: they count {length} characters, the most is {limits.EXPRESSIONS}",
        )


def _contained(where: str, name: str) -> None:
    """Check that a file name is relative, uses forward slashes, and contains no `..`."""
    if (
        not name
        or name.startswith("/")
        or "\\" in name
        or "\0" in name
        or name[1:3] == ":/"
        or ".." in name.split("/")
    ):
        unfit(where, f"{name!r} is not a file name inside the project")


def _unique(where: str, names: Iterable[str], noun: str) -> None:
    counts = Counter(names)
    if counts and max(counts.values()) > 1:
        unfit(where, f"{noun} {counts.most_common(1)[0][0]!r} appears twice")
