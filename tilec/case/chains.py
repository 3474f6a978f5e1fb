"""Binds cases of chains: several kernels that run one after another over the same inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tilec.case.cases import BoundCase, BoundStep, keys_of
from tilec.manifest.locate import Locator
from tilec.manifest.types import Case, Chain, Input, Operand, Step
from tilec_runtime.errors import CaseError, Location
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue, KernelInfo
from tilec_runtime.model.signature import Param, ParamKind
from tilec_runtime.model.suggest import did_you_mean
from tilec_runtime.model.table import axis_shown


def chain_cases(
    chain: Chain, built: Mapping[str, KernelInfo], *, locate: Locator | None = None
) -> tuple[BoundCase, ...]:
    """Bind every case of a chain; if a kernel is not built, the cases have their names only.

    A case whose steps do not fit their kernels, or disagree about an input, carries its error.

    Args:
        chain: the manifest's table.
        built: kernels of the bundle by name.
        locate: finds locations in the manifest, for messages.
    """
    whole = all(step.kernel in built for step in chain.steps)
    bound = []
    for case in chain.cases:
        unbuilt = BoundCase(
            name=f"{chain.name}/{case.name}",
            kernel=chain.name,
            case=case.name,
            steps=tuple(BoundStep(kernel=step.kernel) for step in chain.steps),
            location=_location(locate, chain, "case", case.name),
        )
        try:
            bound.append(_Binder(chain, built, case, locate).bound() if whole else unbuilt)
        except CaseError as error:
            bound.append(dataclasses.replace(unbuilt, error=error))
    return tuple(bound)


def chain_text(case: BoundCase) -> str:
    """`row_softmax (tile) -> threshold_scale (simt)`."""
    return " -> ".join(f"{step.kernel} ({step.language})" for step in case.steps)


class _Binder:
    """Binds one case of a chain."""

    def __init__(
        self, chain: Chain, built: Mapping[str, KernelInfo], case: Case, locate: Locator | None
    ) -> None:
        self._chain, self._built, self._case, self._locate = chain, built, case, locate
        self._inputs = {item.name: item for item in case.inputs}
        self._params: dict[str, Param] = {}

    def bound(self) -> BoundCase:
        """Return the case, ready to run."""
        case, chain, locate = self._case, self._chain, self._locate
        steps = tuple(self._step(index, step) for index, step in enumerate(chain.steps))
        return BoundCase(
            name=f"{chain.name}/{case.name}",
            kernel=chain.name,
            case=case.name,
            params=tuple(self._params.values()),
            inputs=tuple(
                dataclasses.replace(item, dtype=self._params[item.name].dtype)
                for item in case.inputs
            ),
            steps=steps,
            reference=case.reference,
            tolerance=case.tolerance,
            bench=case.bench,
            location=_location(locate, chain, "case", case.name),
            keys=keys_of("chain", chain.name, case, locate) if locate else {},
            root=locate.root if locate else "",
        )

    def _step(self, index: int, step: Step) -> BoundStep:
        info = self._built[step.kernel]
        at = _location(self._locate, self._chain, "steps", index)
        names, built = [param.name for param in info.params], dict(info.axes)
        if len(step.args) > len(names):
            takes = f"takes {len(names)} arguments ({', '.join(names)}), got {len(step.args)}"
            raise self._error(f"{step.kernel} {takes}", at)
        arguments: dict[str, Operand] = dict(zip(names, step.args, strict=False))
        axes: dict[str, AxisValue] = {}
        for name, operand in step.named:
            if name in arguments:
                raise self._error(f"{step.kernel} is given {name!r} by place and by name", at)
            if name in names:
                arguments[name] = operand
            elif name in built:
                axes[name] = self._axis_value(step.kernel, name, operand, built[name], at)
            else:
                known = [*names, *built]
                hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
                raise self._error(
                    f"{name!r} of {step.kernel} is no parameter and no axis{hint}", at
                )
        for param in info.params:
            if param.name in arguments:
                self._merge(step.kernel, param, arguments[param.name], built, at)
            elif param.default is None and not param.optional:
                raise self._error(f"{step.kernel} is given nothing for {param.name!r}", at)
        return BoundStep(
            kernel=step.kernel,
            language=info.language,
            arguments=tuple(arguments.items()),
            axes=tuple(axes.items()),
            title=f"step {index + 1} of {self._chain.name}",
            location=at,
        )

    def _axis_value(
        self,
        kernel: str,
        name: str,
        operand: Operand,
        built: Sequence[AxisValue],
        at: Location | None,
    ) -> AxisValue:
        values = ", ".join(map(axis_shown, built))
        if operand.name:
            quoted = f'write text in quotes: {name}="{operand.name}"'
            raise self._error(
                f"{name!r} of {kernel} takes a value, not an input; there are {values}",
                at,
                fix=quoted if operand.name in built else "",
            )
        if operand.value is None or operand.value not in built:
            raise self._error(
                f"{name} = {operand.value!r} of {kernel} was not built; built are {values}", at
            )
        return operand.value

    def _merge(
        self,
        kernel: str,
        param: Param,
        operand: Operand,
        axes: Mapping[str, Sequence[AxisValue]],
        at: Location | None,
    ) -> None:
        """Merge a step's facts of an input: kind, dtype, written or not; all steps must agree."""
        if not operand.name:
            if param.kind is ParamKind.TENSOR or isinstance(operand.value, str):
                raise self._error(
                    f"{kernel} takes {operand.value!r} for {param.name!r}, which is a {param.kind.value}",
                    at,
                    fix="make it an input of the case, and name that",
                )
            return
        item, known = self._inputs[operand.name], self._params.get(operand.name)
        dtype = self._dtype(item, known or param, axes)
        if dtype not in DTYPES:
            raise self._error(
                f"{operand.name} has no dtype of its own, and {kernel} was built for several",
                at,
                fix=f'say it: inputs.{operand.name}.dtype = "f32"',
            )
        if param.dtype in DTYPES and param.dtype != dtype:
            raise self._error(
                f"{operand.name} is {dtype}, and {kernel} takes {param.dtype} for {param.name!r}",
                at,
            )
        if item.tensor != (param.kind is ParamKind.TENSOR):
            message = "a tensor" if item.tensor else "a number"
            raise self._error(
                f"{operand.name} is {message}, and {param.name!r} of {kernel} is a {param.kind.value}",
                at,
            )
        if item.shape is not None and param.rank >= 0 and len(item.shape) != param.rank:
            raise self._error(
                f"{operand.name} has {len(item.shape)} dimensions, and {kernel} takes {param.rank} for {param.name!r}",
                at,
            )
        self._params[operand.name] = Param(
            name=operand.name,
            kind=param.kind,
            dtype=dtype,
            rank=param.rank,
            out=param.out or (known is not None and known.out),
        )

    @staticmethod
    def _dtype(item: Input, param: Param, axes: Mapping[str, Sequence[AxisValue]]) -> str:
        """Return an input's dtype: its own, or the parameter's, whose axis may have one value."""
        dtype = item.dtype or param.dtype
        values = axes.get(dtype, ())
        return str(values[0]) if dtype not in DTYPES and len(values) == 1 else dtype

    def _error(self, message: str, location: Location | None, *, fix: str = "") -> CaseError:
        return CaseError(
            f"{self._chain.name}/{self._case.name}: {message}", location=location, fix=fix
        )


def _location(locate: Locator | None, chain: Chain, *path: str | int) -> Location | None:
    return locate(("chain", chain.name, *path)) if locate else None
