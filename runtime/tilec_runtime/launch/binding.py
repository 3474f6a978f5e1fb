"""Binds a call's arguments to parameters by count, names and defaults.

It also takes the axes that the caller chose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from tilec_runtime.errors import ArgumentError, VariantError
from tilec_runtime.launch.contract import Contract
from tilec_runtime.model.kernel import AxisValue
from tilec_runtime.model.signature import ParamKind


def bind(
    contract: Contract, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, AxisValue | None], Any]:
    """Return all parameter values in order, the chosen axes, and the configuration.

    The caller checks the values of axes; None leaves an axis open.

    Raises:
        ArgumentError: too many or too few arguments, an unknown or a repeated name.
    """
    name, params = contract.name, contract.call_params
    if len(args) > len(params):
        raise ArgumentError(
            f"{name}: takes {count(len(params))} ({contract.usage}), got {len(args)}",
            fix=stream_by_name(contract, args)
            or config_by_name(contract, args)
            or _lists_as_one(contract),
            kernel=name,
        )
    values: dict[str, Any] = {param.name: value for param, value in zip(params, args, strict=False)}
    chosen, config = _take_named(contract, kwargs, values)
    missing = [
        p.name for p in params if p.name not in values and p.default is None and not p.optional
    ]
    if missing:
        listed = ", ".join(repr(m) for m in missing)
        plural = "arguments are" if len(missing) > 1 else "argument is"
        message = f"{name}: takes {count(len(params))} ({contract.usage}), got {len(values)}: the {plural} missing: {listed}"
        fix = (
            "pass it as `stream_`: `stream` is where the kernel is enqueued"
            if "stream" in missing
            else ""
        )
        raise ArgumentError(message, fix=fix, kernel=name)
    given = tuple(values.get(p.name, p.default) for p in params)
    return given if contract.lists is None else contract.lists.spread(given), chosen, config


def _take_named(
    contract: Contract, kwargs: dict[str, Any], values: dict[str, Any]
) -> tuple[dict[str, AxisValue | None], Any]:
    """Add arguments by name to the values; return the axes and the configuration."""
    name, chosen, config = contract.name, dict[str, AxisValue | None](), None
    # A launcher takes `stream` itself, so a kernel's parameter of that name is `stream_`.
    renamed = {"stream_": "stream"} if "stream_" not in contract.call_names else {}
    for given, value in kwargs.items():
        key = renamed.get(given, given)
        if key in contract.call_names:
            if key in values:
                message = f"{name}: argument {key!r} is given twice, by place and by name"
                fix = ""
                if any(param.name == key for param in contract.info.allocated):
                    fix = (
                        f"leave {key} out, so that it is allocated, or give every argument by name"
                    )
                raise ArgumentError(message, fix=fix, kernel=name)
            values[key] = value
        elif key in contract.axes:
            chosen[key] = value
        elif key == "config":
            config = value
        else:
            from tilec_runtime.model.suggest import did_you_mean  # for the message alone

            hint = did_you_mean(given, [*contract.call_names, *contract.axes])
            message = f"{name}: there is no argument {given!r}{hint}; it takes {contract.usage}"
            raise ArgumentError(message, kernel=name)
    return chosen, config


def stream_by_name(contract: Contract, values: Sequence[Any]) -> str:
    """Return how to pass the stream, if the first or last value seems to be one."""
    first, last = values[0], values[-1]
    number = isinstance(first, int) and contract.call_params[0].kind is ParamKind.TENSOR
    if not number and not any(_is_stream(value) for value in (first, last)):
        return ""
    config = ["config=config"] if contract.info.launch.open else []
    given = [*(param.name for param in contract.call_params), "stream=stream", *config]
    return f"pass the stream by name: {contract.name}({', '.join(given)})"


def _is_stream(value: Any) -> bool:
    return any(hasattr(type(value), name) for name in ("__cuda_stream__", "cuda_stream"))


def config_by_name(contract: Contract, values: tuple[Any, ...]) -> str:
    """Return how to pass the configuration, if a call has one among its values."""
    from tilec_runtime.launch.config import LaunchConfig  # for the message alone

    if not any(isinstance(value, LaunchConfig) for value in values):
        return ""
    given = [*(param.name for param in contract.call_params), "config=config"]
    return f"pass the configuration by name: {contract.name}({', '.join(given)})"


def _lists_as_one(contract: Contract) -> str:
    """Return how to pass lists of arrays, if the kernel takes any."""
    names = list(contract.info.list_counts)
    return f"pass each list as one argument: {', '.join(names)}" if names else ""


def check_axes(
    contract: Contract,
    axes: Mapping[str, AxisValue | None],
    pinned: Mapping[str, AxisValue],
) -> dict[str, AxisValue]:
    """Return the axes that have a value, without those that None leaves open.

    Raises:
        VariantError: an axis does not exist, its value was not built, or differs from `pinned`.
    """
    chosen: dict[str, AxisValue] = {}
    for axis, value in axes.items():
        if axis not in contract.axes:
            _refuse_axis(contract, axis)
        if value is None:
            continue
        # True is not 1 and 64.0 is not 64: variant ids distinguish them.
        if not any(type(value) is type(known) and value == known for known in contract.axes[axis]):
            raise VariantError(
                f"{contract.name}: {axis} = {value!r} was not built; built are {contract.built(axis)}",
                fix=f"add the value to the matrix of kernel.{contract.name} and build again",
                kernel=contract.name,
            )
        if pinned.get(axis, value) != value:
            message = (
                f"{contract.name}: {axis} is {pinned[axis]!r} for this launcher, got {value!r}"
            )
            raise VariantError(message, kernel=contract.name)
        chosen[axis] = value
    return chosen


def _refuse_axis(contract: Contract, axis: str) -> NoReturn:
    from tilec_runtime.model.suggest import did_you_mean

    known = ", ".join(contract.axes) or "none"
    message = f"{contract.name}: there is no axis {axis!r}{did_you_mean(axis, contract.axes)}; its axes are {known}"
    raise VariantError(message, kernel=contract.name)


def count(number: int) -> str:
    """Return a number of arguments as text: `1 argument`, `3 arguments`."""
    return f"{number} argument{'' if number == 1 else 's'}"
