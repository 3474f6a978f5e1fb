"""Wheels of a package that is split by architecture.

The small wheel contains launchers, index and portable code. Another wheel for each compute
capability contains the machine code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tilec.package.wheel import pinned
from tilec.package.write import Portion
from tilec_runtime.bundle.format import images_of
from tilec_runtime.bundle.parts import extra_of
from tilec_runtime.model.arch import ARCHS, TargetKind, Version, dotted
from tilec_runtime.model.kernel import BundleInfo, PackageInfo

Providers = Mapping[Version, PackageInfo]
"""Packages of machine code, by compute capability."""


def providers_of(info: BundleInfo) -> Providers:
    """Return the packages of a bundle's machine code, in order of capability."""
    images = (image for image in images_of(info) if image.target.kind is TargetKind.CUBIN)
    return {cc: _provider(info.package, cc) for cc in sorted({image.target.cc for image in images})}


def base_of(providers: Providers) -> Portion:
    """Return the portion of the bundle in the small wheel."""
    return Portion(modules={cc: package.module for cc, package in providers.items()})


def extras_of(providers: Providers) -> dict[str, tuple[str, ...]]:
    """Return the extras of the small wheel: one for each provider, and one for all."""
    extras = {extra_of(cc): (pinned(package),) for cc, package in providers.items()}
    return {**extras, "all": tuple(map(pinned, providers.values()))} if extras else {}


def shipped_of(info: BundleInfo, portion: Portion) -> BundleInfo:
    """Return an index with only the images of a portion, for the SBOM of a wheel."""
    kernels = []
    for kernel in info.kernels:
        variants = [
            dataclasses.replace(variant, images=tuple(filter(portion.holds, variant.images)))
            for variant in kernel.variants
        ]
        kernels.append(dataclasses.replace(kernel, variants=tuple(variants)))
    return dataclasses.replace(info, kernels=tuple(kernels))


def _provider(package: PackageInfo, cc: Version) -> PackageInfo:
    extra, gpus = extra_of(cc), ARCHS[cc].gpus
    return dataclasses.replace(
        package,
        name=f"{package.name}-{extra}",
        module=f"{package.module}_{extra}",
        description=f"Machine code of {package.name} for compute capability {dotted(cc)}{f' ({gpus})' if gpus else ''}",
    )
