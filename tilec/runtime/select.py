"""Which variant a call takes: its point of the matrix, then the first set of assumptions that the arguments satisfy."""

from __future__ import annotations

import dataclasses

from tilec.errors import VariantError
from tilec.model.kernel import AxisValue, VariantInfo
from tilec.model.signature import Assumption
from tilec.runtime.checks import Call
from tilec.runtime.contract import Contract
from tilec.runtime.layout import TensorFacts


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Considered:
    """A variant that was looked at, and why it was taken or passed over."""

    variant: VariantInfo
    taken: bool
    reason: str


def settle_axes(contract: Contract, axes: dict[str, AxisValue]) -> None:
    """Give every axis that is still open its default, or its only value.

    Raises:
        VariantError: an axis has neither, or nothing was built at this point of the matrix.
    """
    for name, built in contract.info.axes:
        if name in axes:
            continue
        if name in contract.default:
            axes[name] = contract.default[name]
        elif len(built) == 1:
            axes[name] = built[0]
        else:
            what = f"{contract.name}: {name} has no default: choose one of {contract.built(name)}"
            raise VariantError(what, fix=f"pass {name}={built[0]!r} to the launcher", kernel=contract.name)
    if not contract.matching(axes):
        raise no_variant(contract, {name: axes[name] for name, _ in contract.info.axes})


def select_variant(call: Call) -> tuple[Considered, ...]:
    """Every variant that was considered for a checked call, in order; the last one is taken.

    Raises:
        VariantError: the arguments satisfy the assumptions of no variant at this point of the matrix.
    """
    contract = call.contract
    considered: list[Considered] = []
    for variant in contract.matching(call.axes):
        why = next((why for fact in variant.assume if (why := _unmet(fact, call.tensors[fact.param]))), "")
        if not why:
            reason = "the arguments satisfy all its assumptions" if variant.assume else "it assumes nothing"
            considered.append(Considered(variant=variant, taken=True, reason=reason))
            return tuple(considered)
        considered.append(Considered(variant=variant, taken=False, reason=why))
    lines = [f"{contract.name}: the arguments satisfy the assumptions of no variant"]
    lines += [f"  {entry.variant.id}: {entry.reason}" for entry in considered]
    raise VariantError("\n".join(lines), fix="add the empty set {} to assume.sets as a fallback, and build again", kernel=contract.name)


def no_variant(contract: Contract, axes: dict[str, AxisValue]) -> VariantError:
    """The error for a point of the matrix that was not built; names those that were."""
    point = ", ".join(f"{name}={value}" for name, value in axes.items())
    built = "; ".join(dict.fromkeys(", ".join(f"{n}={v}" for n, v in variant.axes) for variant in contract.info.variants))
    fix = f"choose one that was built, or add it to the matrix of kernel.{contract.name}"
    return VariantError(f"{contract.name}: no variant with {point} was built; built are: {built}", fix=fix, kernel=contract.name)


def _unmet(fact: Assumption, facts: TensorFacts) -> str:
    """Why a tensor does not satisfy an assumption, or an empty text where it does."""
    for dim, (divisor, extent) in enumerate(zip(fact.shape, facts.shape, strict=False)):
        if extent % divisor:
            return f"{fact.param}.shape[{dim}] is {extent}, not divisible by {divisor}"
    for dim, (divisor, stride) in enumerate(zip(fact.stride, facts.stride, strict=False)):
        if stride % divisor:
            return f"{fact.param}.stride[{dim}] is {stride}, not divisible by {divisor}"
    if facts.ptr % fact.align:
        return f"{fact.param} has address {facts.ptr:#x}, not divisible by {fact.align}"
    return ""
