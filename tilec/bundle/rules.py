"""The rules of an index that reach over several of its fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tilec.bundle.codec import unfit
from tilec.model.dtype import DTYPES
from tilec.model.kernel import BundleInfo, KernelInfo, VariantInfo

MAX_IMAGES = 200_000


def check_index(info: BundleInfo) -> None:
    """The rules that reach over several fields. Raises Misfit."""
    _unique("kernels", (kernel.name for kernel in info.kernels), "kernel name")
    _unique("sources", (name for name, _ in info.sources), "source")
    for index, (name, _) in enumerate(info.sources):
        _contained(f"sources[{index}]", name)
    sizes: dict[str, int] = {}
    rows = 0
    for number, kernel in enumerate(info.kernels):
        rows += check_row(f"kernels[{number}]", kernel, sizes)
    if rows > MAX_IMAGES:
        unfit("kernels", f"{rows} images, more than {MAX_IMAGES}")


def check_row(here: str, kernel: KernelInfo, sizes: dict[str, int]) -> int:
    """What is checked of one kernel, with the sizes of images seen so far; gives how many rows of images it has. Raises Misfit."""
    _contained(f"{here}.location.file", kernel.location.file)
    _check_kernel(here, kernel)
    images = [image for variant in kernel.variants for image in variant.images]
    for image in images:
        if sizes.setdefault(image.digest, image.size) != image.size:
            unfit(here, f"image {image.digest[:12]} has two sizes, {sizes[image.digest]} and {image.size}")
    return len(images)


def _check_kernel(here: str, kernel: KernelInfo) -> None:
    axes = dict(kernel.axes)
    params = {param.name for param in kernel.params}
    _unique(f"{here}.params", (param.name for param in kernel.params), "parameter")
    _unique(f"{here}.axes", (name for name, _ in kernel.axes), "axis")
    _unique(f"{here}.variants", (variant.id for variant in kernel.variants), "variant")
    for name in kernel.dtype_axes:
        unknown = [value for value in axes.get(name, ("",)) if value not in DTYPES]
        if unknown:
            unfit(f"{here}.dtype_axes", f"axis {name!r} holds {unknown[0]!r}, which is no dtype" if name in axes else f"no axis {name!r}")
    for index, param in enumerate(kernel.params):
        if param.dtype and param.dtype not in DTYPES and param.dtype not in kernel.dtype_axes:
            unfit(f"{here}.params[{index}].dtype", f"{param.dtype!r} is neither a dtype nor a dtype axis of the kernel")
    for name, _ in kernel.default:
        if name not in axes:
            unfit(f"{here}.default", f"no axis {name!r}")
    for region in kernel.safety.regions if kernel.safety else ():
        if region.param not in params:
            unfit(f"{here}.safety.regions", f"no parameter {region.param!r}")
    if kernel.table is not None:
        from tilec.bundle.tables import check_table

        check_table(f"{here}.table", kernel.table, axes, params)
    for index, variant in enumerate(kernel.variants):
        for name, _ in variant.axes:
            if name not in axes:
                unfit(f"{here}.variants[{index}].axes", f"no axis {name!r}")
        for assumption in variant.assume:
            if assumption.param not in params:
                unfit(f"{here}.variants[{index}].assume", f"no parameter {assumption.param!r}")
        if variant.hints:
            _check_hints(f"{here}.variants[{index}].hints", variant)
        for slot in variant.abi:
            if slot.type not in DTYPES and slot.type not in ("ptr", "struct"):
                unfit(f"{here}.variants[{index}].abi", f"{slot.type!r} is neither ptr, struct nor a dtype")


def _check_hints(here: str, variant: VariantInfo) -> None:
    """Hints are said once for each target that has an image and any, in the images' order."""
    targets = list(dict.fromkeys(str(image.target) for image in variant.images))
    hinted = dict(variant.hints)
    if [target for target, _ in variant.hints] != [target for target in targets if hinted.get(target)]:
        said = ", ".join(target for target, _ in variant.hints)
        unfit(here, f"are for the targets {said}, and its images for {', '.join(targets)}")
    for target, hints in variant.hints:
        _unique(f"{here}.{target}", (name for name, _ in hints), "hint")


def _contained(where: str, name: str) -> None:
    """Names of files are relative, with forward slashes, and stay where they are."""
    if not name or name.startswith("/") or "\\" in name or "\0" in name or name[1:3] == ":/" or ".." in name.split("/"):
        unfit(where, f"{name!r} is not a file name inside the project")


def _unique(where: str, names: Iterable[str], what: str) -> None:
    counts = Counter(names)
    if counts and max(counts.values()) > 1:
        unfit(where, f"{what} {counts.most_common(1)[0][0]!r} appears twice")
