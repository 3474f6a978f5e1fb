"""Lists of arrays: one parameter of a call, one kernel parameter per array."""

from __future__ import annotations

from collections.abc import Sequence

from tilec_runtime.errors import ArgumentError
from tilec_runtime.model.kernel import KernelInfo
from tilec_runtime.model.signature import ListParam


class Lists:
    """The lists of arrays that calls of one kernel take."""

    def __init__(self, info: KernelInfo) -> None:
        """Read a kernel's index entry."""
        self._kernel = info.name
        self._counts = info.list_counts
        rows = {row.name: row for row in info.lists}
        # For each parameter of a call: its name, its first place in the kernel, its list or None.
        self._params: list[tuple[str, int, ListParam | None]] = []
        index = 0
        for param in info.call_params:
            row = rows.get(param.name)
            self._params.append((param.name, index, row))
            index += row.most if row else 1

    def spread(self, values: tuple[object, ...]) -> tuple[object, ...]:
        """Return the kernel's values for the values of a call, in order.

        A list shorter than the longest built one is filled with None.

        Raises:
            ArgumentError: a value is not a list, or has a number of arrays that was not built, or
                another one than a list of the same axis.
        """
        flat: list[object] = []
        first: dict[str, tuple[str, int]] = {}
        for value, (name, _, row) in zip(values, self._params, strict=True):
            if row is None:
                flat.append(value)
                continue
            arrays = self._arrays(row, value)
            known, length = first.setdefault(row.axis, (name, len(arrays)))
            if row.axis and length != len(arrays):
                message = f"has {len(arrays)} arrays, and {known!r} has {length}"
                raise self._refused(name, message, f"pass as many of each: both are {row.axis}")
            flat += arrays
            flat += [None] * (row.most - len(arrays))
        return tuple(flat)

    def _arrays(self, row: ListParam, value: object) -> Sequence[object]:
        counts = self._counts[row.name]
        wanted = f"{' or '.join(map(str, counts))} array{'' if counts == (1,) else 's'}"
        if not isinstance(value, (list, tuple)):
            message = f"takes a list of {wanted}, got a {type(value).__qualname__}"
            raise self._refused(row.name, message, f"pass a list or a tuple: [{row.name}]")
        if len(value) not in counts:
            message = f"takes {wanted}, got {len(value)}"
            more = (
                f"add {len(value)} to {row.axis} in" if row.axis else "change the list's length in"
            )
            table = "matrix" if row.axis else f"params.{row.name}"
            fix = f"{more} kernel.{self._kernel}.{table} and build again"
            raise self._refused(row.name, message, fix)
        for index, array in enumerate(value):
            if array is None:
                raise self._refused(row.name, f"has None at place {index}")
        return value

    def gathered(self, values: tuple[object, ...]) -> tuple[object, ...]:
        """Return the values of a call for the kernel's values; each list becomes a tuple."""
        return tuple(
            values[index]
            if row is None
            else tuple(each for each in values[index : index + row.most] if each is not None)
            for _, index, row in self._params
        )

    def _refused(self, name: str, message: str, fix: str = "") -> ArgumentError:
        message = f"{self._kernel}: argument {name!r} {message}"
        return ArgumentError(message, fix=fix, kernel=self._kernel)
