"""What a new build changes for callers: parameters, axes, conditions and GPUs; each with whether it
breaks a program that ran before.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from tilec.inspection.report import param_text
from tilec_runtime.model.arch import ARCHS, Version
from tilec_runtime.model.driver import required_driver
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import KernelInfo, LaunchInfo, VariantInfo
from tilec_runtime.model.signature import Param, ParamKind


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One change that callers notice; of the whole package where `kernel` is empty."""

    what: str
    breaking: bool
    kernel: str = ""


def launcher_changes(old: Sequence[KernelInfo], new: Sequence[KernelInfo]) -> Iterator[Change]:
    """Every change of the kernels of two builds, matched by name."""
    before, after = ({kernel.name: kernel for kernel in kernels} for kernels in (old, new))
    for name, kernel in before.items():
        if name not in after:
            yield Change(kernel=name, what="removed", breaking=True)
            continue
        for change in _kernel(kernel, after[name]):
            yield dataclasses.replace(change, kernel=name)
    for name in after:
        if name not in before:
            yield Change(kernel=name, what="added", breaking=False)


def _kernel(old: KernelInfo, new: KernelInfo) -> Iterator[Change]:
    if old.language != new.language:
        yield Change(what=f"written in {new.language}, was {old.language}", breaking=False)
    yield from _params(old, new)
    yield from _axes(old, new)
    yield from _launch(old, new)
    yield from _variants(old, new)


# --- parameters
# --------------------------------------------------------------------------------------------------------------------


def _params(old: KernelInfo, new: KernelInfo) -> Iterator[Change]:
    before, after = ({param.name: param for param in kernel.params} for kernel in (old, new))
    for name, param in before.items():
        if name not in after:
            yield Change(what=f"parameter {param_text(param)} removed", breaking=True)
    for name, param in after.items():
        if name not in before:
            last = list(after).index(name) >= len(before)
            spared = param.default is not None or param.optional
            fits = spared and last
            why = "" if fits else ", in front of others" if spared else ", without a default"
            yield Change(what=f"parameter {param_text(param)} added{why}", breaking=not fits)
    kept = [name for name in before if name in after]
    order = [name for name in after if name in before]
    if kept != order:
        yield Change(
            what=f"parameters in another order: {', '.join(order)}; was {', '.join(kept)}",
            breaking=True,
        )
    for name in kept:
        yield from _param(before[name], after[name], old, new)


def _param(
    old: Param, new: Param, old_kernel: KernelInfo, new_kernel: KernelInfo
) -> Iterator[Change]:
    if old.kind is not new.kind or (new.kind is ParamKind.STRUCT and old.size != new.size):
        yield Change(what=f"parameter {param_text(new)}, was {param_text(old)}", breaking=True)
        return
    lost = _dtypes(old, old_kernel) - _dtypes(new, new_kernel)
    if lost and "" not in _dtypes(new, new_kernel):
        taken = ", ".join(sorted(_dtypes(new, new_kernel)))
        yield Change(
            what=f"{new.name} takes {taken}; was {', '.join(sorted(_dtypes(old, old_kernel))) or 'any dtype'}",
            breaking=True,
        )
    if old.rank != new.rank:
        what = f"{new.name} takes {_rank(new.rank)}; was {_rank(old.rank)}"
        yield Change(what=what, breaking=new.rank >= 0)
    if old.out != new.out:
        now, was = ("written" if param.out else "only read" for param in (new, old))
        yield Change(what=f"{new.name} is {now}; was {was}", breaking=True)
    yield from _layout(old, new)
    if old.optional != new.optional:
        what = (
            f"{new.name} may be None; it was required"
            if new.optional
            else f"{new.name} may not be None any more"
        )
        yield Change(what=what, breaking=old.optional)
    if old.default != new.default:
        defaults = ["none" if param.default is None else param.default for param in (new, old)]
        yield Change(
            what=f"default of {new.name} is {defaults[0]}; was {defaults[1]}",
            breaking=new.default is None,
        )


def _dtypes(param: Param, kernel: KernelInfo) -> set[str]:
    """Names of the dtypes that a parameter takes; the empty one stands for any."""
    if param.dtype in kernel.dtype_axes:
        return {str(value) for value in dict(kernel.axes)[param.dtype]}
    return {param.dtype}


def _rank(rank: int) -> str:
    return "any rank" if rank < 0 else f"rank {rank}"


def _layout(old: Param, new: Param) -> Iterator[Change]:
    """What a tensor's layout has to be, in the signature itself (assumptions choose among variants,
    and refuse nothing).
    """
    if old.stride != new.stride:
        looser = new.stride is not None and all(
            step is None or step == was
            for step, was in zip(
                new.stride, old.stride or (*[None] * (len(new.stride) - 1), 1), strict=False
            )
        )
        yield Change(
            what=f"{new.name} needs strides {_strides(new)}; was {_strides(old)}",
            breaking=not looser,
        )
    facts = (
        ("extents", old.shape_divisible, new.shape_divisible),
        ("strides", old.stride_divisible, new.stride_divisible),
        ("a base address", (old.align,), (new.align,)),
    )
    for what, was, now in facts:
        if was != now:
            known = (*was, *[1] * (len(now) - len(was)))
            looser = all(a % b == 0 for a, b in zip(known, now, strict=False))
            yield Change(
                what=f"{new.name} needs {what} divisible by {_divisors(now)}; was {_divisors(was)}",
                breaking=not looser,
            )


def _strides(param: Param) -> str:
    if param.stride is None:
        return "of a C-contiguous tensor"
    return f"({', '.join('any' if step is None else str(step) for step in param.stride)})"


def _divisors(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values)) or "1"


# --- axes, conditions, variants
# ----------------------------------------------------------------------------------------------------


def _axes(old: KernelInfo, new: KernelInfo) -> Iterator[Change]:
    before, after = dict(old.axes), dict(new.axes)
    bound = {param.dtype for param in old.params} & set(old.dtype_axes)
    for name, values in before.items():
        if name not in after:
            # Nobody names an axis that has one value, nor one that the arguments choose.
            yield Change(what=f"axis {name} removed", breaking=name in old.choices)
        elif name not in bound and (
            lost := [value for value in values if value not in after[name]]
        ):  # of a bound one the parameters tell
            yield Change(
                what=f"{name} = {', '.join(map(str, lost))} is not built any more", breaking=True
            )
        if gained := [value for value in after.get(name, ()) if value not in values]:
            yield Change(
                what=f"{name} = {', '.join(map(str, gained))} is built too", breaking=False
            )
    chosen, was = dict(new.default), dict(old.default)
    for name in after:
        if name not in before:
            needed = name in new.choices and name not in chosen
            yield Change(
                what=f"axis {name} added{', without a default' if needed else ''}", breaking=needed
            )
        elif name in was and name not in chosen and name in new.choices:
            yield Change(
                what=f"axis {name} has no default any more; was {was[name]}", breaking=True
            )
        elif name in was and name in chosen and was[name] != chosen[name]:
            yield Change(
                what=f"default of {name} is {chosen[name]}; was {was[name]}", breaking=False
            )


def _launch(old: KernelInfo, new: KernelInfo) -> Iterator[Change]:
    before, after = old.launch, new.launch
    for condition in after.requires:
        if condition not in before.requires:
            yield Change(what=f"requires {condition}", breaking=True)
    for condition in before.requires:
        if condition not in after.requires:
            yield Change(what=f"does not require {condition} any more", breaking=False)
    was, now = _config(before), _config(after)
    if was != now:
        yield Change(what=f"config is {now}; was {was}", breaking=now != "optional")
    rows = (
        ("grid", " x ".join(before.grid), " x ".join(after.grid)),
        ("block", " x ".join(before.block), " x ".join(after.block)),
        ("dynamic shared memory", before.shared, after.shared),
        (
            "cluster",
            " x ".join(map(str, before.cluster)) or "none",
            " x ".join(map(str, after.cluster)) or "none",
        ),
        (
            "launch",
            "cooperative" if before.cooperative else "plain",
            "cooperative" if after.cooperative else "plain",
        ),
        (
            "launch",
            "programmatic" if before.programmatic else "in order",
            "programmatic" if after.programmatic else "in order",
        ),
    )
    for what, was, now in rows:
        if was != now:
            yield Change(what=f"{what} {now}; was {was}", breaking=False)
    if old.jit is not new.jit:
        was, now = (kernel.jit.value if kernel.jit else "not said" for kernel in (old, new))
        yield Change(
            what=f"jit-fallback {now}; was {was}", breaking=_compiles(old) and not _compiles(new)
        )


def _config(launch: LaunchInfo) -> str:
    """Return whether callers pass a configuration."""
    if not launch.open:
        return "refused"
    return "optional" if launch.preset else "required"


def _compiles(kernel: KernelInfo) -> bool:
    """Whether code that is no machine code may be compiled at load: to warn takes nothing away."""
    return kernel.jit in (JitFallback.WARN, JitFallback.ALLOW)


def _variants(old: KernelInfo, new: KernelInfo) -> Iterator[Change]:
    after = {variant.id: variant for variant in new.variants}
    fallbacks = {_fallback(variant) for variant in new.variants}
    gone = [
        variant
        for variant in old.variants
        if (found := _fallback(variant)) is not None and found not in fallbacks
    ]
    if lost_kinds := old.optionals - new.optionals:  # that they may not be None is told
        gone = [
            variant for variant in gone if not lost_kinds & {fact.param for fact in variant.assume}
        ]
    # A point that is not built at all is told with its axis.
    narrower = [
        variant.id for variant in gone if any(other.axes == variant.axes for other in new.variants)
    ]
    if narrower:
        yield Change(
            what=f"arguments without the assumed facts are refused: no {', '.join(narrower)}",
            breaking=True,
        )
    lost: dict[str, set[Version]] = {}
    later: dict[tuple[Version, Version], set[Version]] = {}
    for variant in old.variants:
        if variant.id in after:
            was, now = _drivers(variant), _drivers(after[variant.id])
            if gone_from := set(was) - set(now):
                lost[variant.id] = gone_from
            for cc in set(was) & set(now):
                if now[cc] > was[cc]:
                    later.setdefault((was[cc], now[cc]), set()).add(cc)
    for missing in dict.fromkeys(map(frozenset, lost.values())):
        ids = [name for name, capabilities in lost.items() if capabilities == missing]
        which = "" if len(ids) == len(old.variants) else f" ({', '.join(ids)})"
        yield Change(what=f"runs no more on {_capabilities(missing)}{which}", breaking=True)
    for (was_cuda, cuda), capabilities in later.items():
        what = f"on {_capabilities(capabilities)} needs a driver of {required_driver(cuda)}; was {required_driver(was_cuda)}"
        yield Change(what=what, breaking=True)


def _fallback(variant: VariantInfo) -> tuple[Any, frozenset[str]] | None:
    """The calls that a variant takes whatever is known of them: its point, and which tensors are
    None. None where it assumes more.
    """
    if not all(fact.absent for fact in variant.assume):
        return None
    return variant.axes, frozenset(fact.param for fact in variant.assume)


def _drivers(variant: VariantInfo) -> dict[Version, Version]:
    """Known capabilities that some image of a variant runs on, each with the oldest CUDA release
    whose driver will do.
    """
    found = {}
    for cc in ARCHS:
        fitting = [
            image.cuda for image in variant.images if image.target.runs_on(cc, exact=image.exact)
        ]
        if fitting:
            found[cc] = min(fitting)
    return found


def _capabilities(found: Collection[Version]) -> str:
    return f"compute capability {', '.join(f'{major}.{minor}' for major, minor in sorted(found))}"
