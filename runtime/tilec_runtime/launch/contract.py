"""A kernel's launch contract: parsed expressions, and facts that decide launches.

It is read once from the bundle's index.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tilec_runtime.errors import ArgumentError, BundleError, ExpressionError
from tilec_runtime.model.expr import Expr, parse
from tilec_runtime.model.kernel import AxisValue, KernelInfo, VariantInfo
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind
from tilec_runtime.model.table import axis_shown

if TYPE_CHECKING:
    from tilec_runtime.launch.lists import Lists
    from tilec_runtime.launch.outputs import Outputs

Axes = tuple[tuple[str, AxisValue], ...]


def _pairs(outs: tuple[int, ...], tensors: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return each written tensor with every other one, two written ones once."""
    return tuple(
        (out, index)
        for out in outs
        for index in tensors
        if index > out or (index < out and index not in outs)
    )


def _required(params: tuple[Param, ...]) -> int:
    """Return the number of leading parameters up to the last that every call gives."""
    given = [param.default is None and not param.optional for param in params]
    return max((index + 1 for index, needed in enumerate(given) if needed), default=0)


class Contract:
    """The conditions of every launch of one kernel.

    Attributes:
        info: the kernel's index entry.
        name: the kernel's name.
        params: the kernel's parameters; `index` maps their names to places.
        call_params: the parameters of calls, with one for each list of arrays; `call_names` has
            their names.
        tensors: places of tensor parameters.
        others: places of all other parameters.
        checked: the parameters in the order of their checks. Outputs that a call may leave out come
            last, so that an error names the input that determined the output.
        outs: places of the tensors that the kernel writes.
        pairs: places of two tensors that must not overlap; the kernel writes the first.
        optionals: names of the tensors that may be None.
        defaults: the default of each parameter, None for none.
        required: number of leading parameters that a positional call must give.
        keyed: places of scalars that decide the launch because an expression reads them. Other
            scalars are only kernel arguments.
        choices: names of the axes that a caller chooses.
        undispatched: those that neither table nor rules decide, of a kernel with either.
        grid, block, shared, requires: parsed expressions.
        shared_out: whether blocks share the tiles of an output.
        table: the tuning table, or None; `sizes` holds its parsed expressions.
        rules: the dispatch rules: each a parsed condition (None holds always) and the axis values
            that it takes.
    """

    def __init__(self, info: KernelInfo) -> None:
        """Read a kernel's contract.

        Raises:
            BundleError: an expression of the index cannot be read.
        """
        self.info = info
        self.name = info.name
        self.params = params = info.params
        self.index = {param.name: index for index, param in enumerate(params)}
        self.call_params = info.call_params
        self.call_names = tuple(param.name for param in self.call_params)
        indices = range(len(params))
        self.tensors = tuple(index for index in indices if params[index].kind is ParamKind.TENSOR)
        self.others = tuple(index for index in indices if index not in self.tensors)
        self.checked = (*info.inputs, *info.allocated)
        self.outs = tuple(index for index in self.tensors if params[index].out)
        self.pairs = _pairs(self.outs, self.tensors)
        self.defaults = tuple(param.default for param in params)
        self.required = _required(self.call_params)
        self.optionals = info.optionals
        self.axes = dict(info.axes)
        self.default = dict(info.default)
        self.choices = info.choices
        self.undispatched = info.undispatched if info.dispatched else ()
        self.table = info.table
        regions = info.safety.regions if info.safety is not None else ()
        self.shared_out = any(region.mapped for region in regions)
        self.grid = self._parsed(info.launch.grid)
        self.block = self._parsed(info.launch.block)
        (self.shared,) = self._parsed((info.launch.shared,))
        self.requires = self._parsed(info.launch.requires)
        self.sizes = self._parsed(info.table.sizes) if info.table else ()
        self.rules = tuple(
            (self._parsed((rule.when,))[0] if rule.when else None, rule.take) for rule in info.rules
        )
        deciding = self._deciding()
        self.keyed = tuple(index for index in self.others if params[index].name in deciding)

    def _parsed(self, texts: Iterable[str]) -> tuple[Expr, ...]:
        try:
            return tuple(parse(text) for text in texts)
        except ExpressionError as error:
            raise BundleError(
                f"{self.name}: the bundle's index holds an expression that cannot be read: {error.what}"
            ) from error

    def _deciding(self) -> set[str]:
        """Return the names that an expression of the launch reads by value."""
        slots = {slot.expr: slot for variant in self.info.variants for slot in variant.abi}
        computed = self._parsed(text for text in sorted(slots) if self.computes(slots[text]))
        conditions = (when for when, _ in self.rules if when is not None)
        launch = (*self.grid, *self.block, self.shared, *self.requires, *self.sizes)
        return {
            name
            for expression in (*launch, *conditions, *computed)
            for name, attribute in expression.uses
            if not attribute
        }

    def computes(self, slot: AbiSlot) -> bool:
        """Whether a kernel argument is neither a tensor's address nor a parameter."""
        name = slot.expr.strip()
        index = self.index.get(name.removesuffix(".ptr"), -1)
        return index < 0 or (self.params[index].kind is ParamKind.TENSOR) != name.endswith(".ptr")

    @functools.cached_property
    def outputs(self) -> Outputs | None:
        """The outputs that calls may leave out, or None if calls give every parameter."""
        if not self.info.allocated:
            return None
        from tilec_runtime.launch.outputs import Outputs  # most kernels do not need it

        return Outputs(self.info)

    @functools.cached_property
    def lists(self) -> Lists | None:
        """The lists of arrays that calls take, or None if they take none."""
        if not self.info.lists:
            return None
        from tilec_runtime.launch.lists import Lists  # most kernels do not need it

        return Lists(self.info)

    @functools.cached_property
    def usage(self) -> str:
        """The launcher's parameters, for messages: `z, x, y, alpha=1.0`."""
        return ", ".join(
            p.name if p.default is None and not p.optional else f"{p.name}={p.default!r}"
            for p in self.call_params
        )

    @functools.cached_property
    def hints(self) -> frozenset[str]:
        """Names of the compiler hints that any image was built with."""
        return frozenset(
            name
            for variant in self.info.variants
            for _, hints in variant.hints
            for name, _ in hints
        )

    def built(self, name: str) -> str:
        """Return the values of an axis that were built, for messages."""
        return ", ".join(map(axis_shown, self.axes[name]))

    def matching(self, axes: dict[str, AxisValue]) -> list[VariantInfo]:
        """Return the variants at a point of the matrix, in the order of a launch's tries."""
        return [
            v for v in self.info.variants if all(axes.get(name) == value for name, value in v.axes)
        ]

    def refuse(
        self, kind: type[ArgumentError], param: Param, fault: str, fix: str = ""
    ) -> ArgumentError:
        """Return the error for one argument."""
        noun = "output" if param.out else "argument"
        return kind(f"{self.name}: {noun} {param.name!r} {fault}", fix=fix, kernel=self.name)

    def dtype_of(self, param: Param, bound: dict[str, AxisValue]) -> str:
        """Return a parameter's dtype once the dtype axes are bound."""
        return str(bound.get(param.dtype, param.dtype))
