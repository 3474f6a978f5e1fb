"""Contents of a bundle as plain values, for `tilec inspect` and summaries."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from tilec_runtime.errors import UsageError
from tilec_runtime.model.driver import branch_of_cuda
from tilec_runtime.model.image import ImageInfo, Resources
from tilec_runtime.model.kernel import AxisValue, BundleInfo, KernelInfo, VariantInfo
from tilec_runtime.model.signature import Param, ParamKind
from tilec_runtime.model.suggest import did_you_mean
from tilec_runtime.model.table import DispatchRule, TuningTable

ImageRow: TypeAlias = tuple[str, KernelInfo, VariantInfo, ImageInfo]  # with the image's id


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """The maximum of each resource over a kernel's images, or None if unknown.

    The unit is bytes, except for registers. `spills` is the larger of spill stores and spill loads,
    per thread.
    """

    registers: int | None = None
    spills: int | None = None
    shared: int | None = None
    stack: int | None = None
    constant: int | None = None
    code: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class KernelSummary:
    """A kernel's row of the summary: counts, maximal resources, size of the images."""

    name: str
    language: str
    variants: int
    images: int
    usage: Usage
    size: int


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The contents of one file.

    Attributes:
        path: file or directory of the request.
        kind: `bundle`, `package` or `wheel`.
        size: size of the bundle in bytes.
        digest: SHA-256 of the bundle (hex).
        info: index of the bundle.
    """

    path: str
    kind: str
    size: int
    digest: str
    info: BundleInfo

    @property
    def kernels(self) -> tuple[KernelSummary, ...]:
        """Rows of the summary."""
        return tuple(summarize(kernel) for kernel in self.info.kernels)


def narrow(report: Report, select: str) -> Report:
    """Return the report of the images, variants or kernels whose id matches a glob.

    Raises:
        UsageError: no id matches.
    """
    kernels = []
    for kernel in report.info.kernels:
        variants = []
        for variant in kernel.variants:
            whole = fnmatchcase(kernel.name, select) or fnmatchcase(variant.id, select)
            images = tuple(
                image
                for image in variant.images
                if whole or fnmatchcase(image_id(variant, image), select)
            )
            if images:
                variants.append(dataclasses.replace(variant, images=images))
        if variants:
            kernels.append(dataclasses.replace(kernel, variants=tuple(variants)))
    if not kernels:
        names = [kernel.name for kernel in report.info.kernels]
        raise UsageError(
            f"--select: nothing matches {select!r}{did_you_mean(select, names)}",
            fix=f"kernels are {', '.join(names)}",
        )
    return dataclasses.replace(
        report, info=dataclasses.replace(report.info, kernels=tuple(kernels))
    )


def summarize(kernel: KernelInfo) -> KernelSummary:
    """Return a kernel's row of the summary."""
    images = [image for variant in kernel.variants for image in variant.images]
    return KernelSummary(
        name=kernel.name,
        language=kernel.language,
        variants=len(kernel.variants),
        images=len(images),
        usage=usage(image.resources for image in images),
        size=sum({image.digest: image.size for image in images}.values()),
    )


def usage(resources: Iterable[Resources]) -> Usage:
    """Return the maximum of each resource."""
    rows = list(resources)

    def most(values: Iterable[int | None]) -> int | None:
        return max((v for v in values if v is not None), default=None)

    return Usage(
        registers=most(r.registers for r in rows),
        spills=most(spills(r) for r in rows),
        shared=most(r.shared for r in rows),
        stack=most(r.stack for r in rows),
        constant=most(r.constant for r in rows),
        code=most(r.code for r in rows),
    )


def spills(resources: Resources) -> int | None:
    """Return the larger of spill stores and loads, in bytes per thread, or None."""
    known = [size for size in (resources.spill_stores, resources.spill_loads) if size is not None]
    return max(known, default=None)


def images_of(info: BundleInfo) -> Iterator[ImageRow]:
    """Yield every image of a bundle."""
    for kernel in info.kernels:
        for variant in kernel.variants:
            for image in variant.images:
                yield image_id(variant, image), kernel, variant, image


def image_id(variant: VariantInfo, image: ImageInfo) -> str:
    """Format the id of an image and of its job as `gemm-f16-BM128-sm_90`."""
    return f"{variant.id}-{image.target}"


def signature(kernel: KernelInfo) -> str:
    """Format as `gemm(a: T[2], b: T[2], out c: T[2], alpha: f32 = 1.0)`."""
    counts = kernel.list_counts
    texts = (param_text(param, counts.get(param.name, ())) for param in kernel.call_params)
    return f"{kernel.name}({', '.join(texts)})"


def param_text(param: Param, counts: Sequence[AxisValue] = ()) -> str:
    """Format a parameter as `out c: f16[2]`, with `[*]` for any rank.

    `counts` holds the lengths of a list of arrays.
    """
    match param.kind:
        case ParamKind.TENSOR:
            kind = f"{param.dtype or 'any'}[{'*' if param.rank < 0 else param.rank}]"
        case ParamKind.PTR:
            kind = "pointer"
        case ParamKind.STRUCT:
            kind = f"struct of {param.size} bytes"
        case ParamKind.SCALAR:
            kind = param.dtype
    default = "" if param.default is None else f" = {param.default}"
    default = " = None" if param.optional else default
    kind = f"list of {'|'.join(map(str, counts))} {kind}" if counts else kind
    return f"{'out ' if param.out else ''}{param.name}: {kind}{default}"


def table_text(table: TuningTable) -> str:
    """Format as `tuning/gemm.json: NVIDIA H200 (12 entries), NVIDIA H100 (3 entries)`."""
    devices = [
        f"{device.name} ({len(device.entries)} {'entry' if len(device.entries) == 1 else 'entries'})"
        for device in table.devices
    ]
    return f"{table.source}: {', '.join(devices) or 'no device whose target is in the bundle'}"


def rule_text(rule: DispatchRule) -> str:
    """Format as `ROWS = 2, COLS = 1024 where x.shape[1] <= 1024`."""
    take = ", ".join(f"{name} = {value}" for name, value in rule.take)
    return f"{take} where {rule.when}" if rule.when else take


def hints_text(variant: VariantInfo) -> str:
    """Format as `occupancy=2`, or by target: `sm_90: occupancy=2; sm_100: num_ctas=2`."""
    shown = {
        target: ", ".join(f"{name}={value}" for name, value in hints)
        for target, hints in variant.hints
    }
    if len(shown) == len(variant.images) and len(set(shown.values())) == 1:
        return next(iter(shown.values()))
    return "; ".join(f"{target}: {text}" for target, text in shown.items())


def to_json(report: Report) -> dict[str, Any]:
    """Return the report, with everything in the index, as JSON values."""
    info = report.info
    return {
        "path": report.path,
        "container": report.kind,
        "size": report.size,
        "sha256": report.digest,
        "package": dataclasses.asdict(info.package),
        "profile": info.profile,
        "min_driver": info.min_driver or None,
        "builder": info.builder,
        "toolchain": [dataclasses.asdict(tool) for tool in info.toolchain],
        "sources": dict(info.sources),
        "kernels": [kernel_json(kernel) for kernel in info.kernels],
    }


def kernel_json(kernel: KernelInfo) -> dict[str, Any]:
    """Return one kernel as JSON values, with its summary."""
    row = summarize(kernel)
    return {
        "name": kernel.name,
        "language": kernel.language,
        "source": str(kernel.location),
        "doc": kernel.doc,
        "signature": signature(kernel),
        "params": [_param_json(param) for param in kernel.params],
        "axes": {name: list(values) for name, values in kernel.axes},
        "dtype_axes": list(kernel.dtype_axes),
        "default": dict(kernel.default),
        "launch": dataclasses.asdict(kernel.launch),
        "jit_fallback": kernel.jit.value if kernel.jit else None,
        "table": None if kernel.table is None else dataclasses.asdict(kernel.table),
        "rules": [{"when": rule.when, "take": dict(rule.take)} for rule in kernel.rules],
        "usage": dataclasses.asdict(row.usage),
        "size": row.size,
        "variants": [_variant_json(variant) for variant in kernel.variants],
        **({"lists": kernel.list_counts} if kernel.lists else {}),
    }


def _param_json(param: Param) -> dict[str, Any]:
    return dataclasses.asdict(param) | {"kind": param.kind.value}


def _variant_json(variant: VariantInfo) -> dict[str, Any]:
    return {
        "id": variant.id,
        "axes": dict(variant.axes),
        "assume": [dataclasses.asdict(one) for one in variant.assume],
        "abi": [dataclasses.asdict(slot) for slot in variant.abi],
        "images": [_image_json(variant, image) for image in variant.images],
        "hints": {target: dict(hints) for target, hints in variant.hints},
    }


def _image_json(variant: VariantInfo, image: ImageInfo) -> dict[str, Any]:
    return {
        "id": image_id(variant, image),
        "target": str(image.target),
        "kind": image.target.kind.value,
        "sha256": image.digest,
        "size": image.size,
        "symbol": image.symbol,
        "exact": image.exact,
        "ptx_isa": list(image.ptx_isa) if image.ptx_isa else None,
        "cuda": list(image.cuda),
        "driver": branch_of_cuda(image.cuda),
        "resources": dataclasses.asdict(image.resources),
        "max_threads": image.max_threads or None,
        "required_block": list(image.required_block) or None,
        "cluster": list(image.cluster) or None,
        "block": list(image.block) or None,
        "dynamic_shared": image.dynamic_shared,
        "reproducible": image.reproducible,
    }
