"""The tree of errors: as its module tells it, with the fields that an error of the runtime has."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest

from tilec_runtime import errors
from tilec_runtime.errors import (
    ContextError,
    ContextLostError,
    DeviceError,
    DriverError,
    OutOfMemoryError,
    TilecError,
)

# `|  `- ExpressionError           2   what it is about`: what stands before the name says how deep.
_LINE = re.compile(r"^([|` -]*)(\w+Error) +(\d)   (.+)$")


def tree() -> dict[str, tuple[str, int, str]]:
    """(parent, exit code, words) of every class, as the module's docstring has it."""
    found: dict[str, tuple[str, int, str]] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        if match := _LINE.match(line.removeprefix("    ")):
            depth = len(match[1]) // 3
            del above[depth:]
            found[match[2]] = (above[-1] if above else "", int(match[3]), match[4])
            above.append(match[2])
    return found


def classes() -> dict[str, type[TilecError]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, TilecError)
    }


def test_the_tree_is_as_it_is_told() -> None:
    told, there = tree(), classes()
    assert set(told) == set(there)
    for name, (parent, exit_code, words) in told.items():
        cls = there[name]
        bases = [base.__name__ for base in cls.__bases__]
        assert bases[0] == (parent or "Exception"), name
        assert cls.exit_code == exit_code, name
        assert all(base in words for base in bases[1:]), f"{name} is a {bases[1:]} too"


def test_the_kinds_of_the_runtime_are_device_errors() -> None:
    kinds = ("Driver", "Context", "KernelCache", "Scheduling", "Launch", "Internal")
    assert all(issubclass(getattr(errors, f"{kind}Error"), DeviceError) for kind in kinds)
    assert issubclass(ContextLostError, ContextError)
    assert issubclass(ContextLostError, DriverError)


@pytest.mark.parametrize(
    "name", [name for name, cls in classes().items() if issubclass(cls, DeviceError)]
)
def test_every_error_of_the_runtime_has_the_fields(name: str) -> None:
    cls: Any = classes()[name]
    needed = (
        {"requested": 1, "used": 2, "reserved": 3, "free": 4, "total": 5}
        if cls is OutOfMemoryError
        else {}
    )
    plain = cls("what", **needed)
    assert plain.device == (-1 if name == "FaultError" else None)
    assert (plain.kernel, plain.cause, plain.fix, plain.op) == ("", "", "", "")
    assert (plain.result, plain.code) == (("CUDA_ERROR_OUT_OF_MEMORY", 2) if needed else ("", 0))
    plain.device, plain.op = 3, "value, created at app.py:1"
    for other in (pickle.loads(pickle.dumps(plain)), copy.copy(plain)):
        assert type(other) is cls
        assert (other.device, other.op, str(other)) == (
            3,
            plain.op,
            "what\n  op: value, created at app.py:1",
        )
