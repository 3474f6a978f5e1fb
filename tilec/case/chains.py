"""Cases of chains: bound to the kernels that were built, and launched as one op, each step behind
the one before on one stream.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tilec.case.cases import BoundCase, BoundStep, keys_of
from tilec.case.inputs import Array
from tilec.case.run import Device
from tilec.manifest.locate import Locator
from tilec.manifest.types import Case, Chain, Input, Operand, Step
from tilec_runtime.errors import (
    CaseError,
    KernelCacheError,
    LaunchError,
    Location,
    NoImageError,
    TilecError,
)
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue, KernelInfo, VariantInfo
from tilec_runtime.model.signature import Param, ParamKind
from tilec_runtime.model.suggest import did_you_mean

if TYPE_CHECKING:
    from tilec_runtime.launch.launcher import Launcher
    from tilec_runtime.launch.load import Module


T = TypeVar("T")


class LaunchesInOrder(Device, Protocol):
    """A device that launches several kernels as one op."""

    def launch_in_order(
        self,
        calls: Sequence[tuple[str, Mapping[str, Any], Mapping[str, Any]]],
        failed: Callable[[int, TilecError], None],
    ) -> None:
        """Launch (kernel, arguments, axes) in order on one stream, and wait; `failed` is told of an
        error, and which call was reached.
        """


def chain_cases(
    chain: Chain, built: Mapping[str, KernelInfo], *, locate: Locator | None = None
) -> tuple[BoundCase, ...]:
    """Every case of a chain, bound to its kernels; by its name alone where one of them was not
    built.

    Args:
        chain: the manifest's table.
        built: kernels of the bundle by name.
        locate: finds places in the manifest, for messages.

    Raises:
        CaseError: a step does not fit its kernel, or two steps take one input for different things.
    """
    whole = all(step.kernel in built for step in chain.steps)
    return tuple(
        _Binder(chain, built, case, locate).bound() if whole else _unbuilt(chain, case, locate)
        for case in chain.cases
    )


def fitting_chain_cases(
    chain: Chain, built: Mapping[str, KernelInfo], *, locate: Locator | None = None
) -> tuple[BoundCase, ...]:
    """Every case of a chain as `chain_cases` gives it; one that does not fit its kernels is there
    by its name, with its error.
    """
    found: list[BoundCase] = []
    for case in chain.cases:
        try:
            found += chain_cases(dataclasses.replace(chain, cases=(case,)), built, locate=locate)
        except CaseError as error:
            found.append(dataclasses.replace(_unbuilt(chain, case, locate), error=error))
    return tuple(found)


def _unbuilt(chain: Chain, case: Case, locate: Locator | None) -> BoundCase:
    steps = tuple(BoundStep(kernel=step.kernel) for step in chain.steps)
    return BoundCase(
        name=f"{chain.name}/{case.name}",
        kernel=chain.name,
        case=case.name,
        steps=steps,
        location=_place(locate, chain, "case", case.name),
    )


def axes_of(step: BoundStep, info: KernelInfo, case: BoundCase) -> dict[str, AxisValue]:
    """The axes of a step's launch that are known before it: those that it chooses, and those that
    its arrays' dtypes decide.
    """
    axes, dtypes, given = (
        dict(step.axes),
        {param.name: param.dtype for param in case.params},
        dict(step.arguments),
    )
    for param in info.params:
        if param.dtype in info.dtype_axes and param.name in given and given[param.name].name:
            axes.setdefault(param.dtype, dtypes[given[param.name].name])
    for name, value in info.default:
        axes.setdefault(name, value)
    return axes


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
            (
                step.kernel,
                {name: arguments[o.name] if o.name else o.value for name, o in step.arguments},
                dict(step.axes),
            )
            for step in self._steps
        ]
        self._device.launch_in_order(
            calls, lambda place, error: _say_step(error, self._steps[place])
        )


class ChainModule:
    """A loaded bundle as one that has the chain of a case for its one kernel, whose parameters are
    the case's.

    Args:
        module: the bundle on a device.
        case: of a chain.
    """

    def __init__(self, module: Module, case: BoundCase) -> None:
        self.device = module.device
        self.kernels: Mapping[str, ChainLauncher] = {case.kernel: ChainLauncher(module, case)}


class ChainLauncher:
    """Launches the steps of a chain in order on one stream, over the same arguments; in use like
    the launcher of one kernel.
    """

    def __init__(self, module: Module, case: BoundCase) -> None:
        """Find the launchers of its kernels."""
        self._names = [param.name for param in case.params]
        self._calls = [_call(module.kernels[step.kernel], step, self._names) for step in case.steps]

    def __call__(self, *args: Any, stream: Any) -> None:
        """Launch every step, with all checks of each."""
        for call in self._calls:
            values = [value if place is None else args[place] for place, value in call.taken]
            try:
                call.launcher(
                    *values[: call.leading],
                    **dict(zip(call.rest, values[call.leading :], strict=True)),
                    **call.axes,
                    stream=stream,
                )
            except TilecError as error:
                _say_step(error, call.step)
                raise

    def explain(self, **arguments: Any) -> ChainExplanation:
        """What the steps take."""
        given = [arguments[name] for name in self._names]
        taken = [call.asked(call.launcher.explain, given) for call in self._calls]
        digests = [one.image.digest if one.image else "" for one in taken]
        return ChainExplanation(
            variant=VariantInfo(id=" -> ".join(one.variant.id for one in taken)),
            image=ChainCode(digest=sha256(" ".join(digests).encode())),
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Call:
    """How a step's launcher is called.

    Attributes:
        step: the step. launcher: of its kernel. axes: that the step chooses.
        names: its parameters that are given, in its order. taken: for each the place among the
            chain's arguments, or None and a value.
        leading: how many of them are given by place, which takes the launcher less time.
    """

    step: BoundStep
    launcher: Launcher
    axes: Mapping[str, Any]
    names: tuple[str, ...]
    taken: tuple[tuple[int | None, Any], ...]
    leading: int

    @property
    def rest(self) -> tuple[str, ...]:
        """Those that are given by name."""
        return self.names[self.leading :]

    def asked(self, ask: Callable[..., T], arguments: Sequence[Any]) -> T:
        """What the launcher says of the step, which is asked with parameters and axes by name."""
        values = (value if place is None else arguments[place] for place, value in self.taken)
        try:
            return ask(**dict(zip(self.names, values, strict=True)), **self.axes)
        except TilecError as error:
            _say_step(error, self.step)
            raise


def _call(launcher: Launcher, step: BoundStep, arguments: Sequence[str]) -> _Call:
    """How a launcher is called for a step of a chain with these arguments."""
    operands = dict(step.arguments)
    params = [param.name for param in launcher.info.params]
    names = tuple(name for name in params if name in operands)
    return _Call(
        step=step,
        launcher=launcher,
        axes=dict(step.axes),
        names=names,
        taken=tuple(
            (arguments.index(one.name) if one.name else None, one.value)
            for one in (operands[name] for name in names)
        ),
        leading=next(
            (
                place
                for place, (one, other) in enumerate(zip(params, names, strict=False))
                if one != other
            ),
            len(names),
        ),
    )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ChainCode:
    """The images of all steps, by a digest of theirs."""

    digest: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ChainExplanation:
    """What the steps of a chain take: `variant` is called like theirs, in order."""

    variant: VariantInfo
    image: ChainCode


class _Binder:
    """One case of a chain."""

    def __init__(
        self, chain: Chain, built: Mapping[str, KernelInfo], case: Case, locate: Locator | None
    ) -> None:
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
            bench=self._case.bench,
            location=_place(self._locate, self._chain, "case", self._case.name),
            keys=keys_of("chain", self._chain.name, self._case, self._locate)
            if self._locate
            else {},
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
                raise CaseError(
                    f"{self._title}: {step.kernel} is given {name!r} by place and by name",
                    location=at,
                )
            if name in names:
                arguments[name] = operand
            elif name not in known_axes:
                known = [*names, *known_axes]
                hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
                raise CaseError(
                    f"{self._title}: {name!r} of {step.kernel} is no parameter and no axis{hint}",
                    location=at,
                )
            else:
                axes[name] = self._axis_value(step.kernel, name, operand, dict(info.axes)[name], at)
        for param in info.params:
            if param.name not in arguments and param.default is None and not param.optional:
                raise CaseError(
                    f"{self._title}: {step.kernel} is given nothing for {param.name!r}", location=at
                )
            if param.name in arguments:
                self._meet(step.kernel, param, arguments[param.name], dict(info.axes), at)
        return BoundStep(
            kernel=step.kernel,
            language=info.language,
            arguments=tuple(arguments.items()),
            axes=tuple(axes.items()),
            title=f"step {index + 1} of {self._chain.name}",
            location=at,
        )

    def _axis_value(
        self, kernel: str, name: str, operand: Operand, built: Sequence[Any], at: Location | None
    ) -> Any:
        """What a step says of an axis."""
        values = ", ".join(map(str, built))
        if operand.name:
            what = f"{self._title}: {name!r} of {kernel} takes a value, not an input; there are {values}"
            raise CaseError(
                what,
                location=at,
                fix=f'write text in quotes: {name}="{operand.name}"'
                if operand.name in built
                else "",
            )
        if operand.value not in built:
            raise CaseError(
                f"{self._title}: {name} = {operand.value!r} of {kernel} was not built; built are {values}",
                location=at,
            )
        return operand.value

    def _meet(
        self,
        kernel: str,
        param: Param,
        operand: Operand,
        axes: Mapping[str, Any],
        at: Location | None,
    ) -> None:
        """Take up what a step says of an input: what it is, and whether it is written; all steps
        have to agree.
        """
        if not operand.name:
            if param.kind is ParamKind.TENSOR or isinstance(operand.value, str):
                what = f"{self._title}: {kernel} takes {operand.value!r} for {param.name!r}, which is a {param.kind.value}"
                raise CaseError(
                    what, location=at, fix="make it an input of the case, and name that"
                )
            return
        item, known = self._inputs[operand.name], self._params.get(operand.name)
        dtype = item.dtype or (known.dtype if known else "") or param.dtype
        if dtype not in DTYPES and len(axes.get(dtype, ())) == 1:
            dtype = str(axes[dtype][0])
        if dtype not in DTYPES:
            what = f"{self._title}: {operand.name} has no dtype of its own, and {kernel} was built for several"
            raise CaseError(what, location=at, fix=f'say it: inputs.{operand.name}.dtype = "f32"')
        if param.dtype in DTYPES and param.dtype != dtype:
            raise CaseError(
                f"{self._title}: {operand.name} is {dtype}, and {kernel} takes {param.dtype} for {param.name!r}",
                location=at,
            )
        if (item.shape is not None) != (param.kind is ParamKind.TENSOR):
            what = "a tensor" if item.shape is not None else "a number"
            raise CaseError(
                f"{self._title}: {operand.name} is {what}, and {param.name!r} of {kernel} is a {param.kind.value}",
                location=at,
            )
        out = param.out or (known is not None and known.out)
        self._params[operand.name] = Param(
            name=operand.name, kind=param.kind, dtype=dtype, rank=param.rank, out=out
        )

    def _with_dtype(self, item: Input) -> Input:
        return dataclasses.replace(item, dtype=self._params[item.name].dtype)


def device_of(case: BoundCase, device: LaunchesInOrder) -> Device:
    """Where a case is run: on the device itself, or as a chain on it."""
    return ChainDevice(device, case.steps) if case.steps else device


def chain_text(case: BoundCase) -> str:
    """`row_softmax (tile) -> threshold_scale (simt)`."""
    return " -> ".join(f"{step.kernel} ({step.language})" for step in case.steps)


def _say_step(error: TilecError, step: BoundStep) -> None:
    """Let the error of a step that was not launched say which it is: it names the kernel alone,
    which a chain may launch twice.
    """
    if not isinstance(error, LaunchError | NoImageError | KernelCacheError):
        return  # it may be about a step that was launched before
    error.what = f"{step.title}: {error.what}"
    error.args = (error.what,)
    error.location = error.location or step.location


def _place(locate: Locator | None, chain: Chain, *path: str | int) -> Location | None:
    return locate(("chain", chain.name, *path)) if locate else None
