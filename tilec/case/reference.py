"""Calls references: Python functions over NumPy arrays in files of the project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tilec.case.cases import BoundCase
from tilec.case.functions import Functions
from tilec.case.inputs import Array, Value, read_only
from tilec_runtime.errors import CaseError
from tilec_runtime.model.dtype import BY_NUMPY, DTYPES

_RESULT = "return one array, or for several outputs a mapping by name or a tuple in launcher order"


def expected_results(
    case: BoundCase, inputs: Mapping[str, Value], functions: Functions
) -> dict[str, Array]:
    """Return the results of the case's reference, by name of output.

    The function is called with those inputs and axes, by keyword, that its signature names (all
    inputs for `**kwargs`); arrays are read-only. A list of arrays may be named too. It returns one
    array, or for several outputs a mapping by name or a tuple in launcher order; a list for the
    arrays of a list; None for an output that is not compared. Results may be wider than the
    kernel's dtype.

    Raises:
        CaseError: the signature does not fit, the function raises, or its results are not those
            that the kernel writes.
    """
    values = {name: read_only(value) for name, value in inputs.items()}
    lists = {name: [values[item] for item in items] for name, items in case.lists}
    more = {**dict(case.known), **lists}
    result = functions.call(case, case.reference, ("reference",), values, more)
    return _results(case, result, inputs)


def _results(case: BoundCase, result: object, inputs: Mapping[str, Value]) -> dict[str, Array]:
    outs = case.outs
    if isinstance(result, Mapping):
        named = _without_lists(case, result)
    elif isinstance(result, tuple | list) and len(outs) != 1:
        if len(result) != len(outs):
            message = f"it returned {len(result)} results; the kernel writes {', '.join(outs)}"
            raise _result_error(case, message)
        named = dict(zip(outs, result, strict=True))
    elif len(outs) == 1:
        named = {outs[0]: result}
    else:
        message = f"it returned one result; the kernel writes {', '.join(outs) or 'nothing'}"
        raise _result_error(case, message)
    # A chain's reference chooses which arrays it returns; intermediate ones may be left out.
    if set(named) != set(outs) and not (case.steps and set(named) < set(outs)):
        returned = ", ".join(map(str, named)) or "nothing"
        raise _result_error(case, f"it returned {returned}; the kernel writes {', '.join(outs)}")
    given = [name for name in outs if named.get(name) is not None]
    if not given:
        raise _result_error(case, f"it returned None for {', '.join(outs)}: nothing is compared")
    return {name: _checked(case, name, named[name], inputs[name]) for name in given}


def _without_lists(case: BoundCase, result: Mapping[str, object]) -> dict[str, object]:
    """Return results by name, each list of arrays as its arrays."""
    named: dict[str, object] = {}
    lists = dict(case.lists)
    for name, value in result.items():
        items = lists.get(name)
        if items is None or not isinstance(value, Sequence):
            named[name] = value
        elif len(items) == len(value):
            named.update(zip(items, value, strict=True))
        else:
            message = f"{name} has {len(value)} arrays; the case's has {len(items)}"
            raise _result_error(case, message)
    return named


def _checked(case: BoundCase, name: str, value: object, target: Value) -> Array:
    array = np.asarray(value)
    shape = np.shape(target)
    if array.shape != shape:
        message = f"{name} has shape {list(array.shape)}; the kernel's has {list(shape)}"
        raise _result_error(case, message)
    dtype = DTYPES[case.dtype_of(name)]
    real = array.dtype.kind in "iubf" or array.dtype.name in BY_NUMPY
    if not real or (dtype.kind != "float" and array.dtype.kind not in "iub"):
        message = f"{name} has dtype {array.dtype}; the kernel's has {dtype.numpy}"
        fix = f"give it that dtype, with .astype({dtype.numpy!r})" if real else _RESULT
        raise _result_error(case, message, fix=fix)
    return array


def _result_error(case: BoundCase, message: str, *, fix: str = _RESULT) -> CaseError:
    return CaseError(
        f"{case.name}: reference {case.reference}: {message}",
        location=case.location_of("reference"),
        fix=fix,
    )
