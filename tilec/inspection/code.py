"""The machine code of a bundle's images: what each consists of, and how one differs from that of
another build.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator
from typing import Any

from tilec.frontends.base import ToolSearch
from tilec.inspection.dump import Form, machine_code, pick
from tilec.inspection.mix import PADDING, Mix, mix
from tilec.inspection.occupancy import residency
from tilec.inspection.report import Images, image_id
from tilec.inspection.sass import instructions
from tilec.model.occupancy import Occupancy
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, VariantInfo
from tilec_runtime.model.signature import ParamKind


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ImageCode:
    """What one cubin image consists of; `held` is None where its block depends on the launch."""

    id: str
    image: ImageInfo
    mix: Mix
    held: Occupancy | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CodeDifference:
    """How the machine code of one image changed.

    Attributes:
        id: of the image, in the new bundle.
        equal: the bytes are the same.
        removed, added: instructions, labels and names of registers left out.
        text: a unified diff of them; empty where only addresses or registers differ.
    """

    id: str
    equal: bool
    removed: int
    added: int
    text: str


def image_codes(bundle: Images, info: BundleInfo, search: ToolSearch) -> Iterator[ImageCode]:
    """The code of every cubin image of `info` (the bundle's index, or a part of it), in its order.

    Raises:
        ToolchainError: no disassembler is there, or it cannot read an image.
        BundleError: an image is damaged.
    """
    for kernel in info.kernels:
        for variant in kernel.variants:
            for image in variant.images:
                if image.target.kind is TargetKind.CUBIN:
                    _, text = machine_code(bundle.image(image.digest), image.symbol, search)
                    found = cubin_mix(kernel, variant, image, text)
                    yield ImageCode(
                        id=image_id(variant, image),
                        image=image,
                        mix=found,
                        held=residency(kernel, variant, image),
                    )


def cubin_mix(kernel: KernelInfo, variant: VariantInfo, image: ImageInfo, text: str) -> Mix:
    """What the disassembly of an image consists of."""
    return mix(instructions(text), image.target.cc, double=may_be_double(kernel, variant))


def code_difference(old: Images, new: Images, select: str, search: ToolSearch) -> CodeDifference:
    """How the machine code of one image changed.

    Args:
        old: the earlier build.
        new: the later one.
        select: id of a cubin image that both have, or a glob that only it matches in the new one.
        search: where the disassembler is looked for.

    Raises:
        UsageError: it names no image, or several, or one that the old bundle has not.
        ToolchainError: no disassembler is there, or it cannot read an image.
    """
    name, after = pick(new, Form.SASS, select)
    _, before = pick(old, Form.SASS, name)
    if before.digest == after.digest and before.symbol == after.symbol:
        return CodeDifference(id=name, equal=True, removed=0, added=0, text="")
    one, other = (_normal(bundle, image, search) for bundle, image in ((old, before), (new, after)))
    lines = list(difflib.unified_diff(one, other, "old", "new", lineterm="", n=3))
    body = lines[2:]
    return CodeDifference(
        id=name,
        equal=False,
        removed=sum(line.startswith("-") for line in body),
        added=sum(line.startswith("+") for line in body),
        text="\n".join(lines),
    )


def _normal(bundle: Images, image: ImageInfo, search: ToolSearch) -> list[str]:
    _, text = machine_code(bundle.image(image.digest), image.symbol, search)
    return [one.normal for one in instructions(text) if one.opcode not in PADDING]


def to_json(found: ImageCode) -> dict[str, Any]:
    """One image's code as JSON values."""
    return {
        "id": found.id,
        "target": str(found.image.target),
        "sha256": found.image.digest,
        "instructions": found.mix.total,
        "classes": dict(found.mix.classes),
        "opcodes": dict(found.mix.opcodes),
        "global_loads": {str(width): count for width, count in found.mix.loads},
        "global_stores": {str(width): count for width, count in found.mix.stores},
        "warnings": list(found.mix.warnings),
        "occupancy": dataclasses.asdict(found.held) if found.held else None,
    }


def may_be_double(kernel: KernelInfo, variant: VariantInfo) -> bool:
    """Whether f64 is among a variant's dtypes; of a struct nobody knows."""
    axes = dict(variant.axes)
    if any(param.kind is ParamKind.STRUCT for param in kernel.params) or "f64" in axes.values():
        return True
    return any(
        axes.get(param.dtype, param.dtype) in ("f64", "") and param.kind is not ParamKind.PTR
        for param in kernel.params
    )
