"""Writer of a bundle: sorted members, fixed times, one image in memory at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

from tilec.model.atomic import Stage, atomic_write
from tilec.package.archive import ArchiveWriter
from tilec_runtime.bundle.format import (
    INDEX_NAME,
    from_members,
    image_name,
    images_of,
    index_members,
)
from tilec_runtime.bundle.parts import PROVIDERS_NAME, write_providers
from tilec_runtime.errors import OutputError
from tilec_runtime.model.arch import TargetKind, Version
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import BundleInfo


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Portion:
    """The portion of a bundle that a file holds.

    A file holds the whole bundle. A file of a bundle in parts holds the index and portable code, or
    the machine code of one compute capability.

    Attributes:
        modules: modules that hold the machine code, by compute capability. If there are any, this
            file has no machine code.
        machine_code: compute capability of the only machine code in this file, or None.
    """

    modules: Mapping[Version, str] = dataclasses.field(default_factory=dict)
    machine_code: Version | None = None

    def holds(self, image: ImageInfo) -> bool:
        """Return whether an image is in the file."""
        if self.machine_code is None:
            return image.target.kind is not TargetKind.CUBIN or not self.modules
        return image.target.kind is TargetKind.CUBIN and image.target.cc == self.machine_code


WHOLE = Portion()


def write_bundle(
    path: Path,
    info: BundleInfo,
    read_image: Callable[[str], bytes],
    *,
    max_size: int = 0,
    portion: Portion = WHOLE,
    stage: Stage | None = None,
) -> str:
    """Write a bundle; equal arguments give equal bytes (with one zlib).

    A file at `path` is replaced when the new one is complete.

    Args:
        path: path of the file, by convention `name-version.tilec`.
        info: index of the bundle.
        read_image: function that returns the verified bytes of an image by digest. It is called
            once for each digest, in sorted order.
        max_size: maximum size of the file in bytes, or 0 for no limit.
        portion: portion of the bundle that the file holds.
        stage: stage that renames the file into place later, with others.

    Returns:
        SHA-256 of the file (hex).

    Raises:
        OutputError: the file cannot be written, or exceeds `max_size`. In the second case the
            message lists the largest kernels.
        BundleError: the index breaks a rule.
    """
    index = index_members(info)
    from_members(index)  # raises for an index that the reader would reject
    if portion.machine_code is not None:
        index = {INDEX_NAME: index[INDEX_NAME]}
    digests = {image.digest for image in images_of(info) if portion.holds(image)}
    packed: dict[str, int] = {}
    with atomic_write(path, stage=stage) as file:
        archive = ArchiveWriter(file, path)
        archive.add(INDEX_NAME, index.pop(INDEX_NAME))
        for digest in sorted(digests):
            packed[digest] = archive.add(image_name(digest), read_image(digest))
        for name in sorted(index):
            archive.add(name, index[name])
        if portion.modules:
            archive.add(PROVIDERS_NAME, write_providers(portion.modules))
        archive.close()
        if max_size and archive.size > max_size:
            raise _too_large(path, archive.size, max_size, info, packed)
    return archive.digest


def _too_large(
    path: Path, size: int, most: int, info: BundleInfo, packed: dict[str, int]
) -> OutputError:
    shares = []
    for kernel in info.kernels:
        digests = {image.digest for variant in kernel.variants for image in variant.images}
        shares.append(
            (
                -sum(packed[digest] for digest in digests),
                kernel.name,
                len(kernel.variants),
                len(digests),
            )
        )
    lines = [
        f"{path.name} would have {mib(size)}, more than max-size = {mib(most)}; the largest kernels:"
    ]
    lines += [
        f"  {name}: {mib(-share)} ({variants} variants, {images} images)"
        for share, name, variants, images in sorted(shares)[:5]
    ]
    return OutputError(
        "\n".join(lines), fix="build fewer variants or targets, or raise [output] max-size"
    )


def mib(size: int) -> str:
    """Format a size as `90.0 MiB` or `90.0 KiB`."""
    if size < 1 << 20:
        return f"{size / 1024:.1f} KiB"
    return f"{size / (1 << 20):.1f} MiB"
