"""Cases of chains: bound to the kernels that were built, and launched as one op, each step behind the one before on one stream."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tilec.errors import CaseError, Location
from tilec.manifest.locate import Locator
from tilec.manifest.types import Case, Chain, Input, Operand, Step
from tilec.model.dtype import DTYPES
from tilec.model.kernel import KernelInfo
from tilec.model.signature import Param, ParamKind
from tilec.model.suggest import did_you_mean
from tilec.runner.cases import BoundCase, BoundStep
from tilec.runner.inputs import Array
from tilec.runner.run import Device


class LaunchesInOrder(Device, Protocol):
    """A device that launches several kernels as one op."""

    def launch_in_order(self, calls: Sequence[tuple[str, Mapping[str, Any], Mapping[str, Any]]]) -> None:
        """Launch (kernel, arguments, axes) one behind the other on one stream, and wait."""


def chain_cases(chain: Chain, built: Mapping[str, KernelInfo], *, locate: Locator | None = None) -> tuple[BoundCase, ...]:
    """Every case of a chain, bound to its kernels; by its name alone where one of them was not built.

    Args:
        chain: the manifest's table.
        built: kernels of the bundle by name.
        locate: finds places in the manifest, for messages.

    Raises:
        CaseError: a step does not fit its kernel, or two steps take one input for different things.
    """
    whole = all(step.kernel in built for step in chain.steps)
    return tuple(_Binder(chain, built, case, locate).bound() if whole else _unbuilt(chain, case, locate) for case in chain.cases)


def _unbuilt(chain: Chain, case: Case, locate: Locator | None) -> BoundCase:
    steps = tuple(BoundStep(kernel=step.kernel) for step in chain.steps)
    return BoundCase(
        name=f"{chain.name}/{case.name}", kernel=chain.name, case=case.name, steps=steps, location=_place(locate, chain, "case", case.name)
    )


class ChainDevice:
    """A device as a case of a chain needs it: what launches the chain's name launches its steps.

    Args:
        device: where each kernel runs.
        steps: of the chain, in order.
    """

    def __init__(self, device: LaunchesInOrder, steps: Sequence[BoundStep]) -> None:
        self._device = device
        self._steps = steps

    def refusal(self, kernel: str, axes: Mapping[str, Any]) -> str:  # noqa: ARG002 - of a protocol; each step has its own
        """Why a step cannot run here; of the first that cannot."""
        for step in self._steps:
            if reason := self._device.refusal(step.kernel, dict(step.axes)):
                return f"{step.kernel}: {reason}"
        return ""

    def to_device(self, array: Array, dtype: str) -> Any:
        """A tensor with the array's contents."""
        return self._device.to_device(array, dtype)

    def from_device(self, tensor: Any) -> Array:
        """The tensor's contents."""
        return self._device.from_device(tensor)

    def launch(self, kernel: str, arguments: Mapping[str, Any], axes: Mapping[str, Any]) -> None:  # noqa: ARG002 - of a protocol
        """Launch every step over the same tensors, and wait until the last is done."""
        calls = [
            (step.kernel, {name: arguments[o.name] if o.name else o.value for name, o in step.arguments}, dict(step.axes))
            for step in self._steps
        ]
        self._device.launch_in_order(calls)


class _Binder:
    """One case of a chain."""

    def __init__(self, chain: Chain, built: Mapping[str, KernelInfo], case: Case, locate: Locator | None) -> None:
        self._chain, self._built, self._case, self._locate = chain, built, case, locate
        self._title = f"{chain.name}/{case.name}"
        self._inputs = {item.name: item for item in case.inputs}
        self._params: dict[str, Param] = {}

    def bound(self) -> BoundCase:
        """The case, ready to run."""
        steps = tuple(self._step(index, step) for index, step in enumerate(self._chain.steps))
        inputs = tuple(self._with_dtype(item) for item in self._case.inputs)
        return BoundCase(
            name=self._title,
            kernel=self._chain.name,
            case=self._case.name,
            params=tuple(self._params.values()),
            inputs=inputs,
            steps=steps,
            reference=self._case.reference,
            tolerance=self._case.tolerance,
            location=_place(self._locate, self._chain, "case", self._case.name),
        )

    def _step(self, index: int, step: Step) -> BoundStep:
        info, at = self._built[step.kernel], _place(self._locate, self._chain, "steps", index)
        arguments: dict[str, Operand] = {}
        axes: dict[str, Any] = {}
        names = [param.name for param in info.params]
        if len(step.args) > len(names):
            takes = f"takes {len(names)} arguments ({', '.join(names)}), got {len(step.args)}"
            raise CaseError(f"{self._title}: {step.kernel} {takes}", location=at)
        arguments.update(zip(names, step.args, strict=False))
        known_axes = [name for name, _ in info.axes]
        for name, operand in step.named:
            if name in arguments:
                raise CaseError(f"{self._title}: {step.kernel} is given {name!r} by place and by name", location=at)
            if name in names:
                arguments[name] = operand
            elif name not in known_axes:
                known = [*names, *known_axes]
                hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
                raise CaseError(f"{self._title}: {name!r} of {step.kernel} is no parameter and no axis{hint}", location=at)
            else:
                axes[name] = self._axis_value(step.kernel, name, operand, dict(info.axes)[name], at)
        for param in info.params:
            if param.name not in arguments and param.default is None and not param.optional:
                raise CaseError(f"{self._title}: {step.kernel} is given nothing for {param.name!r}", location=at)
            if param.name in arguments:
                self._meet(step.kernel, param, arguments[param.name], dict(info.axes), at)
        return BoundStep(kernel=step.kernel, language=info.language, arguments=tuple(arguments.items()), axes=tuple(axes.items()))

    def _axis_value(self, kernel: str, name: str, operand: Operand, built: Sequence[Any], at: Location | None) -> Any:
        """What a step says of an axis."""
        values = ", ".join(map(str, built))
        if operand.name:
            what = f"{self._title}: {name!r} of {kernel} takes a value, not an input; there are {values}"
            raise CaseError(what, location=at, fix=f'write text in quotes: {name}="{operand.name}"' if operand.name in built else "")
        if operand.value not in built:
            raise CaseError(f"{self._title}: {name} = {operand.value!r} of {kernel} was not built; built are {values}", location=at)
        return operand.value

    def _meet(self, kernel: str, param: Param, operand: Operand, axes: Mapping[str, Any], at: Location | None) -> None:
        """Take up what a step says of an input: what it is, and whether it is written; all steps have to agree."""
        if not operand.name:
            if param.kind is ParamKind.TENSOR or isinstance(operand.value, str):
                what = f"{self._title}: {kernel} takes {operand.value!r} for {param.name!r}, which is a {param.kind.value}"
                raise CaseError(what, location=at, fix="make it an input of the case, and name that")
            return
        item, known = self._inputs[operand.name], self._params.get(operand.name)
        dtype = item.dtype or (known.dtype if known else "") or param.dtype
        if dtype not in DTYPES and len(axes.get(dtype, ())) == 1:
            dtype = str(axes[dtype][0])
        if dtype not in DTYPES:
            what = f"{self._title}: {operand.name} has no dtype of its own, and {kernel} was built for several"
            raise CaseError(what, location=at, fix=f'say it: inputs.{operand.name}.dtype = "f32"')
        if param.dtype in DTYPES and param.dtype != dtype:
            raise CaseError(f"{self._title}: {operand.name} is {dtype}, and {kernel} takes {param.dtype} for {param.name!r}", location=at)
        if (item.shape is not None) != (param.kind is ParamKind.TENSOR):
            what = "a tensor" if item.shape is not None else "a number"
            raise CaseError(f"{self._title}: {operand.name} is {what}, and {param.name!r} of {kernel} is a {param.kind.value}", location=at)
        out = param.out or (known is not None and known.out)
        self._params[operand.name] = Param(name=operand.name, kind=param.kind, dtype=dtype, rank=param.rank, out=out)

    def _with_dtype(self, item: Input) -> Input:
        return dataclasses.replace(item, dtype=self._params[item.name].dtype)


def device_of(case: BoundCase, device: LaunchesInOrder) -> Device:
    """Where a case is run: on the device itself, or as a chain on it."""
    return ChainDevice(device, case.steps) if case.steps else device


def chain_text(case: BoundCase) -> str:
    """`row_softmax (tile) -> threshold_scale (simt)`."""
    return " -> ".join(f"{step.kernel} ({step.language})" for step in case.steps)


def _place(locate: Locator | None, chain: Chain, *path: str | int) -> Location | None:
    return locate(("chain", chain.name, *path)) if locate else None
