"""Cases of the manifest bound to a built kernel: one bound case per dtype that a case stands for."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

from tilec.manifest.locate import Locator, Path
from tilec.manifest.types import Bench, Case, Input, Kernel, Operand, Tolerance
from tilec_runtime.errors import CaseError, Location
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue, KernelInfo
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind
from tilec_runtime.model.suggest import did_you_mean

Axes = tuple[tuple[str, AxisValue], ...]
# (parameter, dtype, path) of arrays that are read from files; the dtype is empty where the file
# does not say it.
Files = tuple[tuple[str, str, str], ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class BoundStep:
    """One launch of a chain.

    Attributes:
        kernel: launcher name. language: of its source.
        arguments: by parameter: inputs of the case by name, and values.
        axes: that the step chooses.
        title: `step 2 of both`, for messages.
        location: where it is written.
    """

    kernel: str
    language: str = ""
    arguments: tuple[tuple[str, Operand], ...] = ()
    axes: Axes = ()
    title: str = ""
    location: Location | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class BoundCase:
    """A case that is ready to run.

    Attributes:
        name: `gemm/4k[f16]`: kernel, case, and the dtypes of the axes that the case leaves open.
        kernel: launcher name; of a chain its name.
        case: the case's name in the manifest; empty for a run from the command line.
        axes: every axis whose value is known, dtypes included; what expressions see.
        choose: the axes that the launcher is told by keyword (those that its arguments do not
            decide).
        variants: ids of the variants that were built at these axes, of which a launch takes one.
            abis: what their entry points take; where nothing is compiled yet, what they will take
            of extents and strides, as far as that is known.
        params: what the launcher takes, in order, with dtypes in place of axis names.
        inputs: in the order in which they are made, each with its dtype.
        files: arrays that are read from files instead, as (parameter, `x.npy` or `x.npz:key`).
        reference: `file.py:function`, empty for a run without one.
        tolerance: as the manifest gives it; empty for the defaults of the dtypes.
        bench: work of one launch, if the case says.
        location: where the case is written.
        keys: where some of its keys are, by their paths in it: `("bench", "against", 0)`.
        steps: of a chain, in order; empty for a case of one kernel.
        error: why it is no more than a name: the manifest's case does not fit what was built.
    """

    name: str
    kernel: str
    case: str = ""
    axes: Axes = ()
    choose: Axes = ()
    variants: tuple[str, ...] = ()
    abis: tuple[tuple[AbiSlot, ...], ...] = dataclasses.field(default=(), compare=False, repr=False)
    params: tuple[Param, ...] = ()
    inputs: tuple[Input, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    reference: str = ""
    tolerance: tuple[Tolerance, ...] = ()
    bench: Bench | None = None
    location: Location | None = None
    keys: Mapping[Path, Location] = dataclasses.field(default_factory=dict, compare=False)
    steps: tuple[BoundStep, ...] = ()
    error: CaseError | None = dataclasses.field(default=None, compare=False)

    def place(self, *key: str | int) -> Location | None:
        """Where a key of the case is written; else the case, as where the command line says what
        the key would.
        """
        return self.keys.get(key, self.location)

    @property
    def outs(self) -> tuple[str, ...]:
        """Names of the tensors that the kernel writes, in launcher order."""
        return tuple(p.name for p in self.params if p.out)


def expand_cases(
    kernel: Kernel, info: KernelInfo, *, locate: Locator | None = None, files: Files = ()
) -> tuple[BoundCase, ...]:
    """Every case of a kernel, once for each value of the dtype axes that it leaves open and that
    was built with its other axes.

    Args:
        kernel: the manifest's table.
        info: the same kernel in the bundle.
        locate: finds places in the manifest, for messages.
        files: arrays that every case is given, in place of its own inputs.

    Raises:
        CaseError: an input that the launcher does not have or lacks, an unknown axis, or no variant
            at all for a case.
    """
    found: list[BoundCase] = []
    for case in kernel.cases:
        keys = keys_of("kernel", kernel.name, case, locate) if locate else {}
        found += (
            dataclasses.replace(bound, keys=keys)
            for bound in _expand(case, info, _place(kernel, case, locate), files=files)
        )
    return tuple(found)


def small_case(case: BoundCase) -> BoundCase:
    """A case with the extents of runs that are held against the reference; those of `shape` may be
    for measuring alone.
    """
    if not any(item.small for item in case.inputs):
        return case
    return dataclasses.replace(
        case,
        inputs=tuple(
            dataclasses.replace(i, shape=i.small or i.shape, small=None) for i in case.inputs
        ),
    )


def said_axes(case: BoundCase, info: KernelInfo) -> dict[str, AxisValue]:
    """The axes that a case says, by its dtypes or its choice: the others are the launch's to
    choose, and `axes` has but their defaults.
    """
    return {name: value for name, value in case.axes if name in info.dtype_axes} | dict(case.choose)


def fitting_cases(
    kernel: Kernel, info: KernelInfo, *, locate: Locator | None = None
) -> tuple[BoundCase, ...]:
    """Every case of a kernel as `expand_cases` gives it; one that does not fit what was built is
    there by its name, with its error.

    So that one such case keeps no other from being run.
    """
    found: list[BoundCase] = []
    for case in kernel.cases:
        alone = dataclasses.replace(kernel, cases=(case,))
        try:
            found += expand_cases(alone, info, locate=locate)
        except CaseError as error:
            found.append(
                dataclasses.replace(
                    unbuilt_cases(alone, locate=locate)[0],
                    name=f"{kernel.name}/{case.name}",
                    error=error,
                )
            )
    return tuple(found)


def unbuilt_cases(kernel: Kernel, *, locate: Locator | None = None) -> tuple[BoundCase, ...]:
    """Every case of a kernel that is in no bundle, by its name alone: as `expand_cases` names them,
    as far as the manifest tells.

    Args:
        kernel: the manifest's table.
        locate: finds places in the manifest, for messages.
    """
    axes, params = dict(kernel.matrix.axes), {param.name: param.dtype for param in kernel.params}
    found = []
    for case in kernel.cases:
        fixed = {name for name, _ in case.axes} | {
            params.get(i.name) for i in case.inputs if i.dtype and i.dtype not in axes
        }
        used = {i.dtype or params.get(i.name) for i in case.inputs} | {
            params.get(i.name) for i in case.inputs
        }
        left = [name for name in axes if name in used and name not in fixed]
        for values in itertools.product(*(axes[name] for name in left)):
            label = f"[{','.join(map(str, values))}]" if left else ""
            name, place = f"{kernel.name}/{case.name}{label}", _place(kernel, case, locate)
            found.append(
                BoundCase(
                    name=name,
                    kernel=kernel.name,
                    case=case.name,
                    axes=tuple(zip(left, values, strict=True)),
                    location=place,
                )
            )
    return tuple(found)


def bind(
    case: Case, info: KernelInfo, *, files: Files = (), location: Location | None = None
) -> BoundCase:
    """One bound case where the dtypes of all inputs are known.

    Args:
        case: inputs with dtypes (an empty one is the parameter's own).
        info: the kernel.
        files: (parameter, dtype, path) of arrays that are read from files.
        location: where the case is written.

    Raises:
        CaseError: as `expand_cases`; also when a dtype axis stays open and has several values.
    """
    bound = tuple(_expand(case, info, location, files=files))
    if len(bound) > 1:
        values = ", ".join(b.name for b in bound)
        raise CaseError(
            f"{info.name}: the arguments fit more than one variant: {values}",
            fix="say the dtype of every tensor, or choose an axis",
        )
    return bound[0]


def keys_of(table: str, name: str, case: Case, locate: Locator) -> Mapping[Path, Location]:
    """Places of the keys of a case that only a run can find fault with; `table` is `kernel` or
    `chain`, `name` that of it.
    """
    paths: list[Path] = [("inputs", item.name) for item in case.inputs]
    paths += [("reference",)] if case.reference else []
    if case.bench:
        paths += [("bench", key) for key in ("flops", "bytes") if getattr(case.bench, key)]
        paths += [("bench", "against", index) for index in range(len(case.bench.against))]
    return {path: locate((table, name, "case", case.name, *path)) for path in paths}


def _place(kernel: Kernel, case: Case, locate: Locator | None) -> Location | None:
    return locate(("kernel", kernel.name, "case", case.name)) if locate else None


def _expand(
    case: Case, info: KernelInfo, location: Location | None, *, files: Files = ()
) -> Iterator[BoundCase]:
    title = f"{info.name}/{case.name}" if case.name else info.name
    axes = dict(info.axes)
    _check_names(title, case, info, [name for name, _, _ in files], location)
    dtypes = {i.name: i.dtype for i in case.inputs if i.dtype} | {
        name: dtype for name, dtype, _ in files
    }
    fixed = dict(case.axes) | _bound_by_dtypes(title, case, info, dtypes, location)
    open_axes = [name for name in info.dtype_axes if name not in fixed]
    points = [
        dict(zip(open_axes, values, strict=True))
        for values in itertools.product(*(axes[name] for name in open_axes))
    ]
    found = False
    for point in points:
        settled = _with_defaults(info, fixed | point)
        variants = _built_at(info, settled)
        if not variants:
            continue
        found = True
        label = ",".join(str(point[name]) for name in open_axes)
        given = {i.name for i in case.inputs} | {name for name, _, _ in files}
        here = [
            p for p in info.params if not p.optional or p.name in given
        ]  # the others are None: nothing is made or compared
        params = tuple(
            dataclasses.replace(p, dtype=str(settled.get(p.dtype, p.dtype))) for p in here
        )
        yield BoundCase(
            name=f"{title}[{label}]" if label else title,
            kernel=info.name,
            case=case.name,
            axes=tuple((name, settled[name]) for name in axes if name in settled),
            choose=tuple((name, value) for name, value in case.axes if name not in info.dtype_axes),
            variants=variants,
            abis=_abis(info, variants),
            params=params,
            inputs=tuple(_with_dtype(i, params, settled) for i in _with_scalars(case.inputs, info)),
            files=tuple((name, path) for name, _, path in files),
            reference=case.reference,
            tolerance=case.tolerance,
            bench=case.bench,
            location=location,
        )
    if not found:
        asked = ", ".join(f"{name} = {value!r}" for name, value in fixed.items()) or "its dtypes"
        built = "; ".join(
            dict.fromkeys(
                ", ".join(f"{n} = {v!r}" for n, v in variant.axes) for variant in info.variants
            )
        )
        raise CaseError(
            f"{title}: no variant was built for {asked}; built are: {built or 'none'}",
            location=location,
        )


def _check_names(
    title: str, case: Case, info: KernelInfo, files: Sequence[str], location: Location | None
) -> None:
    known = [p.name for p in info.params]
    given = [*(i.name for i in case.inputs), *files]
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known) or f"; it takes {', '.join(known)}"
            raise CaseError(
                f"{title}: the launcher has no parameter {name!r}{hint}", location=location
            )
    for param in info.params:
        if param.name not in given and param.default is None and not param.optional:
            raise CaseError(
                f"{title}: nothing is given for {param.name!r}",
                location=location,
                fix=_example(param),
            )
    axes = [name for name, _ in info.axes]
    for name, _ in case.axes:
        if name not in axes:
            hint = did_you_mean(name, axes) or (
                f"; it has {', '.join(axes)}" if axes else "; it has none"
            )
            raise CaseError(f"{title}: the kernel has no axis {name!r}{hint}", location=location)


def _example(param: Param) -> str:
    if param.kind is ParamKind.TENSOR:
        shape = ", ".join(["1024"] * max(param.rank, 1))
        return f'give it a value: inputs.{param.name} = {{ shape = [{shape}], dtype = "{param.dtype}" }}, or --arg {param.name}=f32[1024]'
    return f"give it a value: inputs.{param.name} = 1, or --arg {param.name}=1"


def _bound_by_dtypes(
    title: str, case: Case, info: KernelInfo, dtypes: Mapping[str, str], location: Location | None
) -> dict[str, AxisValue]:
    """The dtype axes that the inputs' own dtypes decide."""
    bound: dict[str, AxisValue] = {}
    chosen = dict(case.axes)
    for param in info.params:
        dtype = dtypes.get(param.name, "")
        if not dtype or dtype in info.dtype_axes:
            continue
        if dtype not in DTYPES:
            hint = did_you_mean(dtype, [*DTYPES, *info.dtype_axes])
            raise CaseError(
                f"{title}: {param.name} has dtype {dtype!r}, which is neither a dtype nor an axis{hint}",
                location=location,
            )
        if param.dtype in info.dtype_axes:
            other = bound.setdefault(param.dtype, chosen.get(param.dtype, dtype))
            if other != dtype:
                raise CaseError(
                    f"{title}: {param.name} has dtype {dtype}, but axis {param.dtype} is {other}",
                    location=location,
                )
        elif param.kind is not ParamKind.STRUCT and dtype != param.dtype:
            raise CaseError(
                f"{title}: {param.name} has dtype {dtype}, but the kernel takes {param.dtype}",
                location=location,
            )
    return bound


def _with_defaults(info: KernelInfo, known: dict[str, AxisValue]) -> dict[str, AxisValue]:
    """The known axes, then the manifest's defaults, then axes that have one value only.

    Launches of a kernel with a tuning table or rules take what fits where there is no variant at
    the defaults: then these say nothing.
    """
    single = {name: values[0] for name, values in info.axes if len(values) == 1}
    settled = {**single, **dict(info.default), **known}
    return settled if not info.dispatched or _built_at(info, settled) else {**single, **known}


def _abis(info: KernelInfo, variants: Sequence[str]) -> tuple[tuple[AbiSlot, ...], ...]:
    """What a case's variants take. Kernels in the safe language count in 32 bits, whatever is
    compiled.
    """
    found = tuple(
        dict.fromkeys(
            variant.abi for variant in info.variants if variant.id in variants and variant.abi
        )
    )
    if found or info.safety is None:
        return found
    ranks = {param.name: param.rank for param in info.params if param.kind is ParamKind.TENSOR}
    texts = [
        f"{name}.{part}[{axis}]"
        for name, rank in ranks.items()
        for part in ("shape", "stride")
        for axis in range(rank)
    ]
    return (tuple(AbiSlot(type="i32", expr=text, size=4, align=4) for text in texts),)


def _built_at(info: KernelInfo, axes: Mapping[str, AxisValue]) -> tuple[str, ...]:
    return tuple(
        v.id for v in info.variants if all(axes.get(name, value) == value for name, value in v.axes)
    )


def _with_scalars(inputs: tuple[Input, ...], info: KernelInfo) -> tuple[Input, ...]:
    """The inputs, and the launcher's defaults for scalars that the case leaves out: the reference
    sees them too.
    """
    given = {i.name for i in inputs}
    missing = (p for p in info.params if p.name not in given and p.default is not None)
    return (*inputs, *(Input(name=p.name, value=p.default) for p in missing))


def _with_dtype(item: Input, params: Sequence[Param], axes: Mapping[str, AxisValue]) -> Input:
    param = next(p for p in params if p.name == item.name)
    return dataclasses.replace(item, dtype=str(axes.get(item.dtype, item.dtype)) or param.dtype)
