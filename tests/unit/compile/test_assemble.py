"""Images of one variant brought together: they share an argument list, or the build fails."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runtime_samples import ADD, ADD_ABI, bundle_of, image, slot
from tilec.compile.assemble import _with_images, never_compiled
from tilec.model.job import Variant
from tilec_runtime.errors import CompileError
from tilec_runtime.model.arch import Target
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import KernelInfo, VariantInfo
from tilec_runtime.model.signature import AbiSlot, Param, ParamKind

SCRATCH = AbiSlot(type="scratch:96", expr="0", size=8, align=8)


def together(*abis: tuple[AbiSlot, ...], info: KernelInfo = ADD) -> Any:
    targets = ("sm_80", "sm_90", "sm_100")[: len(abis)]
    variant = Variant(kernel="add", id="add", axes=())
    jobs = [
        SimpleNamespace(variant=variant, target=Target.parse(target), hints=())
        for target in targets
    ]
    rows = iter(
        [
            SimpleNamespace(abi=abi, info=image("add", target))
            for abi, target in zip(abis, targets, strict=True)
        ]
    )
    return _with_images(SimpleNamespace(jobs=jobs, info=info), rows)  # type: ignore[arg-type]


def test_scratch_memory_that_one_of_them_needs_is_given_to_all() -> None:
    null = slot("u64", "0")
    (variant,) = together((*ADD_ABI, null), (*ADD_ABI, SCRATCH), (*ADD_ABI, null)).variants
    assert variant.abi == (*ADD_ABI, SCRATCH)


def test_a_struct_has_the_size_that_its_image_takes() -> None:
    structs = tuple(Param(name=name, kind=ParamKind.STRUCT) for name in ("box", "pair"))
    abi = (*ADD_ABI, slot("struct", "box", 24), slot("struct", "pair", 8))
    made = together(abi, abi, info=dataclasses.replace(ADD, params=(*ADD.params, *structs)))
    assert [param.size for param in made.params[-2:]] == [24, 8]


def test_an_image_that_takes_other_arguments_is_refused() -> None:
    with pytest.raises(
        CompileError,
        match="add: the image for sm_90 takes other arguments than those for other targets",
    ) as caught:
        together(ADD_ABI, (*ADD_ABI, slot("i32", "z.size")))
    assert (caught.value.kernel, caught.value.target) == ("add", "sm_90")


def test_notes_code_that_is_compiled_on_no_gpu() -> None:
    images = tuple(image("k", target) for target in ("sm_90", "compute_80", "lto_80", "tileir"))
    kernel = dataclasses.replace(ADD, variants=(VariantInfo(id="add", abi=ADD_ABI, images=images),))
    (note,) = never_compiled(bundle_of(kernel).info)
    what = 'compiled on no GPU at load, for jit-fallback is deny by default: say "allow" in [targets], or "deny" if that is meant'
    assert note == f"compute_80, lto_80: {what}"
    for said in JitFallback:
        assert list(never_compiled(bundle_of(dataclasses.replace(kernel, jit=said)).info)) == []
    cubins = dataclasses.replace(
        kernel, variants=(dataclasses.replace(kernel.variants[0], images=images[:1]),)
    )
    assert list(never_compiled(bundle_of(cubins).info)) == []
