"""Wheels of a package that is split by architecture: a small one with launchers, index and portable
code, and one for each compute capability with its machine code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from tilec.package.wheel import normalise_version
from tilec.package.write import Part
from tilec_runtime.bundle.format import images_of
from tilec_runtime.bundle.parts import extra_of
from tilec_runtime.model.arch import ARCHS, TargetKind, Version, dotted
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import BundleInfo, PackageInfo


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Provider:
    """The wheel of one compute capability; `extra` is what the small wheel calls it, `sm90`."""

    cc: Version
    extra: str
    package: PackageInfo
    part: Part

    @property
    def requirement(self) -> str:
        """What installs exactly this wheel."""
        return f"{self.package.name}=={normalise_version(self.package.version)}"


def providers_of(info: BundleInfo) -> tuple[Provider, ...]:
    """Return the wheels of machine code, by compute capability."""
    images = (image for image in images_of(info) if image.target.kind is TargetKind.CUBIN)
    return tuple(
        _provider(info.package, cc) for cc in sorted({image.target.cc for image in images})
    )


def base_of(providers: tuple[Provider, ...]) -> Part:
    """Return what the small wheel holds of the bundle."""
    return Part(modules={each.cc: each.package.module for each in providers})


def extras_of(providers: tuple[Provider, ...]) -> dict[str, tuple[str, ...]]:
    """Return the extras of the small wheel: one for each provider, and one for all."""
    extras = {each.extra: (each.requirement,) for each in providers}
    return {**extras, "all": tuple(each.requirement for each in providers)} if extras else {}


def held_of(info: BundleInfo, holds: Callable[[ImageInfo], bool]) -> BundleInfo:
    """Return an index with some of its images alone, to tell what a wheel has."""
    kernels = []
    for kernel in info.kernels:
        variants = [
            dataclasses.replace(variant, images=tuple(filter(holds, variant.images)))
            for variant in kernel.variants
        ]
        kernels.append(dataclasses.replace(kernel, variants=tuple(variants)))
    return dataclasses.replace(info, kernels=tuple(kernels))


def _provider(package: PackageInfo, cc: Version) -> Provider:
    extra, gpus = extra_of(cc), ARCHS[cc].gpus
    named = dataclasses.replace(
        package,
        name=f"{package.name}-{extra}",
        module=f"{package.module}_{extra}",
        description=f"Machine code of {package.name} for compute capability {dotted(cc)}{f' ({gpus})' if gpus else ''}",
    )
    return Provider(cc=cc, extra=extra, package=named, part=Part(machine_code=cc))
