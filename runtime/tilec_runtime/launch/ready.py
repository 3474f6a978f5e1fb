"""Readiness before the first launch: machine code of each variant, loaded images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tilec_runtime.bundle.choose import Choice, DeviceFacts, advice, choose_image
from tilec_runtime.errors import NoImageError
from tilec_runtime.launch.select import for_device
from tilec_runtime.model.kernel import KernelInfo, VariantInfo

if TYPE_CHECKING:
    from tilec_runtime.launch.images import Site

_SHOWN = 8


def choices(kernel: KernelInfo, device: DeviceFacts) -> Iterator[tuple[VariantInfo, Choice]]:
    """Yield every variant that a device may run, with its choice of an image."""
    for variant in for_device(kernel, device).variants:
        yield variant, choose_image(variant.images, device)


def require_machine_code(site: Site) -> None:
    """Check that no launch of any variant compiles anything or lacks an image.

    Raises:
        NoImageError: some variants have no machine code for the device; the message names them.
    """
    count, lacking = 0, []
    for name in site.bundle.kernels:
        kernel = site.bundle.kernel(name)
        facts = site.facts(kernel)
        for variant, choice in choices(kernel, facts):
            count += 1
            if not choice.is_machine_code:
                lacking.append((variant, choice, facts))
    if not lacking:
        return
    _, first, facts = lacking[0]
    package = site.bundle.package
    code = "Tile IR" if facts.interprets else "machine code"
    lines = [
        f"{package.name} {package.version}: {len(lacking)} of {count} variants have no {code} for {facts}"
    ]
    for variant, choice, _ in lacking[:_SHOWN]:
        targets = sorted(candidate.image.target for candidate in choice.candidates)
        lines.append(f"  {variant.id}: built for {', '.join(map(str, targets))}")
    if len(lacking) > _SHOWN:
        lines.append(f"  and {len(lacking) - _SHOWN} more")
    raise NoImageError("\n".join(lines), fix=advice(first, facts, jit=False))


def preload(site: Site, kernels: Iterable[KernelInfo]) -> int:
    """Load the images of kernels that the device takes, and return their number.

    Variants without an image for the device are skipped. Errors are those of `Site.function`.
    """
    loaded = set()
    for kernel in kernels:
        for variant, choice in choices(kernel, site.facts(kernel)):
            if choice.taken is not None:
                site.function(choice.taken, kernel, variant.id)
                loaded.add(choice.taken.image.digest)
    return len(loaded)
