"""Binds cases of the manifest to built kernels: one bound case for each open dtype."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence

from tilec.manifest.locate import Locator, Path
from tilec.manifest.types import Bench, Case, Input, Kernel, Operand, Tolerance
from tilec.plan.points import derived_at
from tilec_runtime.errors import CaseError, Location
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue, KernelInfo, VariantInfo
from tilec_runtime.model.signature import ListParam, Param, ParamKind
from tilec_runtime.model.suggest import did_you_mean

Axes = tuple[tuple[str, AxisValue], ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class BoundStep:
    """One launch of a chain.

    Attributes:
        kernel: launcher name. language: of its source.
        arguments: by parameter: names of inputs of the case, or values.
        axes: values that the step chooses.
        title: `step 2 of both`, for messages.
        location: of the step in the manifest.
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
        kernel: launcher name; for a chain its name.
        case: the case's name in the manifest; empty for a run from the command line.
        axes: every axis whose value is known, dtypes included; expressions see them.
        let: derived axes whose values are known.
        choose: axes that the launcher takes by keyword, since its arguments do not decide them.
        variants: ids of the variants built at these axes; a launch takes one of them.
        params: the launcher's parameters in order, with dtypes in place of axis names.
        inputs: in the order in which they are made, each with its dtype.
        reference: `file.py:function`; empty for a run without one.
        tolerance: of the manifest; empty for the defaults of the dtypes.
        bench: work of one launch, if the case states it.
        location: of the case in the manifest.
        keys: locations of keys of the case, by path: `("bench", "against", 0)`.
        steps: of a chain, in order; empty for a case of one kernel.
        lists: lists of arrays among the parameters, each with the names of its arrays.
        root: the project's directory, for files of inputs.
        error: why the case does not fit the build; then only its name is known.
    """

    name: str
    kernel: str
    case: str = ""
    axes: Axes = ()
    let: Axes = ()
    choose: Axes = ()
    variants: tuple[str, ...] = ()
    params: tuple[Param, ...] = ()
    inputs: tuple[Input, ...] = ()
    reference: str = ""
    tolerance: tuple[Tolerance, ...] = ()
    bench: Bench | None = None
    location: Location | None = None
    keys: Mapping[Path, Location] = dataclasses.field(default_factory=dict, compare=False)
    steps: tuple[BoundStep, ...] = ()
    lists: tuple[tuple[str, tuple[str, ...]], ...] = ()
    root: str = ""
    error: CaseError | None = dataclasses.field(default=None, compare=False)

    def location_of(self, *key: str | int) -> Location | None:
        """Return the location of a key, or of the case if the command line gave the value."""
        return self.keys.get(key, self.location)

    @property
    def known(self) -> Axes:
        """Axes and derived axes whose values are known."""
        return (*self.axes, *self.let)

    @property
    def outs(self) -> tuple[str, ...]:
        """Names of the output tensors, in launcher order."""
        return tuple(p.name for p in self.params if p.out)

    def dtype_of(self, name: str) -> str:
        """Return the dtype of a parameter."""
        return next(p.dtype for p in self.params if p.name == name)


def expand_cases(
    kernel: Kernel, info: KernelInfo, *, locate: Locator | None = None, root: str = ""
) -> tuple[BoundCase, ...]:
    """Bind every case of a kernel, once for each built value of the dtype axes it leaves open.

    A case that does not fit (an unknown or missing input, an unknown axis, no variant) carries its
    error, so that the others run.

    Args:
        kernel: the manifest's table.
        info: the same kernel in the bundle.
        locate: finds locations in the manifest, for messages.
        root: the project's directory; by default that of `locate`.
    """
    root = locate.root if locate else root
    expanded: list[BoundCase] = []
    for case in kernel.cases:
        location = _location(kernel, case, locate)
        keys = keys_of("kernel", kernel.name, case, locate) if locate else {}
        try:
            expanded += (
                dataclasses.replace(
                    each, keys=keys, root=root, let=tuple(derived_at(kernel, each.axes))
                )
                for each in _expand(case, info, location)
            )
        except CaseError as error:
            unfit = BoundCase(
                name=f"{kernel.name}/{case.name}",
                kernel=kernel.name,
                case=case.name,
                location=location,
                error=error,
            )
            expanded.append(unfit)
    return tuple(expanded)


def require_fitting(cases: tuple[BoundCase, ...]) -> tuple[BoundCase, ...]:
    """Return the cases.

    Raises:
        CaseError: the first error of a case that does not fit its kernel.
    """
    for case in cases:
        if case.error is not None:
            raise case.error
    return cases


def small_case(case: BoundCase) -> BoundCase:
    """Return the case with the extents of `small`, which comparisons use; `shape` is measured."""
    if not any(item.small for item in case.inputs):
        return case
    inputs = (dataclasses.replace(i, shape=i.small or i.shape, small=None) for i in case.inputs)
    return dataclasses.replace(case, inputs=tuple(inputs))


def stated_axes(case: BoundCase, info: KernelInfo) -> dict[str, AxisValue]:
    """Return the axes that the case fixes, by dtypes or by choice; dispatch may change the rest."""
    return {name: value for name, value in case.axes if name in info.dtype_axes} | dict(case.choose)


def unbuilt_cases(kernel: Kernel, *, locate: Locator | None = None) -> tuple[BoundCase, ...]:
    """Return the cases of a kernel that is not built, with the names `expand_cases` would give.

    The names are right where the manifest states the dtypes; else a build decides.
    """
    axes, params = dict(kernel.matrix.axes), {param.name: param.dtype for param in kernel.params}
    unbuilt = []
    for case in kernel.cases:
        fixed = {name for name, _ in case.axes} | {
            params.get(i.name) for i in case.inputs if i.dtype and i.dtype not in axes
        }
        used = {i.dtype for i in case.inputs} | {params.get(i.name) for i in case.inputs}
        left = [name for name in axes if name in used and name not in fixed]
        for values in itertools.product(*(axes[name] for name in left)):
            label = f"[{','.join(map(str, values))}]" if left else ""
            unbuilt.append(
                BoundCase(
                    name=f"{kernel.name}/{case.name}{label}",
                    kernel=kernel.name,
                    case=case.name,
                    axes=tuple(zip(left, values, strict=True)),
                    location=_location(kernel, case, locate),
                )
            )
    return tuple(unbuilt)


def bind(case: Case, info: KernelInfo) -> BoundCase:
    """Bind a case whose inputs' dtypes are all known.

    Args:
        case: inputs with dtypes (an empty one is the parameter's own).
        info: the kernel.

    Raises:
        CaseError: it does not fit the kernel, or a dtype axis stays open and has several values.
    """
    bound = tuple(_expand(case, info, None))
    if len(bound) > 1:
        values = ", ".join(b.name for b in bound)
        raise CaseError(
            f"{info.name}: the arguments fit more than one variant: {values}",
            fix="say the dtype of every tensor, or choose an axis",
        )
    return bound[0]


def keys_of(table: str, name: str, case: Case, locate: Locator) -> Mapping[Path, Location]:
    """Return the locations of the keys that only a run can reject; `table` is `kernel` or `chain`."""
    paths: list[Path] = [("inputs", item.name) for item in case.inputs]
    paths += [("reference",)] if case.reference else []
    if case.bench:
        paths += [("bench", key) for key in ("flops", "bytes") if getattr(case.bench, key)]
        paths += [("bench", "against", index) for index in range(len(case.bench.against))]
    return {path: locate((table, name, "case", case.name, *path)) for path in paths}


def _location(kernel: Kernel, case: Case, locate: Locator | None) -> Location | None:
    return locate(("kernel", kernel.name, "case", case.name)) if locate else None


def variants_at(info: KernelInfo, axes: Mapping[str, AxisValue]) -> tuple[VariantInfo, ...]:
    """Return the variants whose axes have these values."""
    return tuple(
        variant
        for variant in info.variants
        if all(axes.get(name, value) == value for name, value in variant.axes)
    )


def _expand(case: Case, info: KernelInfo, location: Location | None) -> Iterator[BoundCase]:
    title = f"{info.name}/{case.name}" if case.name else info.name
    axes = dict(info.axes)
    given = [i.name for i in case.inputs]
    _check_names(title, case, info, given, location)
    dtypes = {i.name: i.dtype for i in case.inputs if i.dtype}
    fixed = dict(case.axes) | _bound_by_dtypes(title, case, info, dtypes, location)
    fixed |= _bound_by_lists(info, given)
    points = [*_built_points(info, fixed)]
    if not points:
        raise _not_built(title, info, fixed, location)
    for label, settled, variants in points:
        params = _params(info, settled, given)
        yield BoundCase(
            name=f"{title}[{label}]" if label else title,
            kernel=info.name,
            case=case.name,
            axes=tuple((name, settled[name]) for name in axes if name in settled),
            choose=tuple((name, value) for name, value in case.axes if name not in info.dtype_axes),
            variants=tuple(variant.id for variant in variants),
            params=params,
            inputs=tuple(_with_dtype(i, params, settled) for i in _with_scalars(case.inputs, info)),
            lists=tuple((row.name, _arrays(info, row, given)) for row in info.lists),
            reference=case.reference,
            tolerance=case.tolerance,
            bench=case.bench,
            location=location,
        )


def _built_points(
    info: KernelInfo, fixed: Mapping[str, AxisValue]
) -> Iterator[tuple[str, dict[str, AxisValue], tuple[VariantInfo, ...]]]:
    """Yield the dtypes of open axes as a label, the axes with them, and the variants there."""
    axes = dict(info.axes)
    open_axes = [name for name in info.dtype_axes if name not in fixed]
    for values in itertools.product(*(axes[name] for name in open_axes)):
        settled = _with_defaults(info, {**fixed, **dict(zip(open_axes, values, strict=True))})
        if variants := variants_at(info, settled):
            yield ",".join(map(str, values)), settled, variants


def _not_built(
    title: str, info: KernelInfo, axes: Mapping[str, AxisValue], location: Location | None
) -> CaseError:
    """Return the error of a case that no variant fits, with the axes of those that were built."""
    wanted = ", ".join(f"{name} = {value!r}" for name, value in axes.items()) or "its dtypes"
    points = (", ".join(f"{n} = {v!r}" for n, v in each.axes) for each in info.variants)
    built = "; ".join(dict.fromkeys(points)) or "none"
    return CaseError(
        f"{title}: no variant was built for {wanted}; built are: {built}", location=location
    )


def _params(
    info: KernelInfo, axes: Mapping[str, AxisValue], given: Sequence[str]
) -> tuple[Param, ...]:
    """Return the parameters with their dtypes, without optional ones that a case leaves out."""
    return tuple(
        dataclasses.replace(param, dtype=str(axes.get(param.dtype, param.dtype)))
        for param in info.params
        if not param.optional or param.name in given
    )


def _check_names(
    title: str, case: Case, info: KernelInfo, given: Sequence[str], location: Location | None
) -> None:
    known = [p.name for p in info.params]
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
    """Return the dtype axes that the inputs' dtypes decide."""
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


def _bound_by_lists(info: KernelInfo, given: Sequence[str]) -> dict[str, AxisValue]:
    """Return the axes that the numbers of arrays in lists decide."""
    return {row.axis: len(_arrays(info, row, given)) for row in info.lists if row.axis}


def _arrays(info: KernelInfo, row: ListParam, given: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a list's arrays that a case gives."""
    arrays = info.params[row.first : row.first + row.most]
    return tuple(param.name for param in arrays if param.name in given)


def _with_defaults(info: KernelInfo, known: dict[str, AxisValue]) -> dict[str, AxisValue]:
    """Complete the known axes with the manifest's defaults and with axes of a single value.

    A kernel with a tuning table or rules may have no variant at the defaults; then dispatch
    decides, and the defaults do not count.
    """
    single = {name: values[0] for name, values in info.axes if len(values) == 1}
    settled = {**single, **dict(info.default), **known}
    return settled if not info.dispatched or variants_at(info, settled) else {**single, **known}


def _with_scalars(inputs: tuple[Input, ...], info: KernelInfo) -> tuple[Input, ...]:
    """Return the inputs and the launcher's defaults for left-out scalars: references see both."""
    given = {i.name for i in inputs}
    missing = (p for p in info.params if p.name not in given and p.default is not None)
    return (*inputs, *(Input(name=p.name, value=p.default) for p in missing))


def _with_dtype(item: Input, params: Sequence[Param], axes: Mapping[str, AxisValue]) -> Input:
    param = next(p for p in params if p.name == item.name)
    return dataclasses.replace(item, dtype=str(axes.get(item.dtype, item.dtype)) or param.dtype)
