"""Kits: what is written is read; what is damaged or cut off is refused before anything is measured."""

from __future__ import annotations

import dataclasses
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.bundle_samples import write_kernels
from tests.runtime_samples import ADD
from tilec.case.cases import expand_cases
from tilec.manifest.types import Input
from tilec.model.tuning import size_expressions
from tilec.tune import worker
from tilec.tune.candidates import CompiledPoint, KernelFacts
from tilec.tune.cases import Prepared
from tilec.tune.kit import read_kit, require_kit, require_portable, write_kit
from tilec.tune.session import Work
from tilec.tune.space import space_of
from tilec_runtime.errors import UsageError

MANIFEST = """edition = 1
[package]
name = "acme"
version = "1.0.0"
[targets]
default = ["sm_90"]
[kernel.add]
source = "add.cu"
language = "cuda"
[kernel.add.case.some]
inputs.x = { shape = [64], dtype = "f32" }
inputs.y = { shape = [64], dtype = "f32" }
inputs.z = { shape = [64], dtype = "f32", dist = "empty" }
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    from tilec.manifest.load import load

    (tmp_path / "tilec.toml").write_text(MANIFEST)
    bundle = tmp_path / "c.tilec"
    target = ADD.variants[0].images[0].target
    info = dataclasses.replace(
        ADD,
        variants=tuple(
            dataclasses.replace(v, images=tuple(i for i in v.images if i.target == target))
            for v in ADD.variants
        ),
    )
    write_kernels(bundle, info)
    (kernel,) = load(tmp_path / "tilec.toml", languages={"cuda": (".cu",)}).kernels
    (case,) = expand_cases(kernel, info)
    worker.write_expected(tmp_path / "add.some.npz", case, {"z": np.zeros(64)})
    space = space_of(info, case)
    at = tuple(64 for _ in size_expressions(info))
    facts = KernelFacts(
        info=info,
        kernel_digest="a" * 64,
        space_digest="b" * 64,
        toolchain=(),
        target=str(target),
        sizes=size_expressions(info),
    )
    made = {
        point: CompiledPoint(variants=info.variants, bundle=str(bundle)) for point in space.points
    }
    prepared = Prepared(space=space, at=at, expected=str(tmp_path / "add.some.npz"))
    write_kit(tmp_path / "a.tune", facts, tmp_path / "tilec.toml", (prepared,), made)
    return tmp_path / "a.tune"


def read(path: Path) -> Work:
    return read_kit(path, path.parent / "unpacked")


def test_what_was_written_is_read(path: Path) -> None:
    kit = read(path)
    (one,) = kit.prepared
    assert kit.facts.kernel_digest == "a" * 64
    assert one.space.case.name == "add/some"
    assert kit.make(one.space.points)[one.space.points[0]].bundle.endswith("candidates.tilec")
    assert Path(one.expected).is_file()


@pytest.mark.parametrize("source", [{"file": "x.npy"}, {"make": "inputs.py:x"}])
def test_refuses_inputs_that_only_the_project_has(path: Path, source: dict[str, str]) -> None:
    (prepared,) = read(path).prepared
    inputs = (Input(name="x", dtype="f32", **source), *prepared.space.case.inputs[1:])
    case = dataclasses.replace(prepared.space.case, inputs=inputs)
    (name,) = source.values()
    with pytest.raises(UsageError, match=f"add/some: x comes from {name}, which a kit does not"):
        require_portable([dataclasses.replace(prepared.space, case=case)])


def test_a_kit_that_is_cut_off_or_has_a_flipped_bit_is_refused(path: Path) -> None:
    """At places all over the file, and at each of its directory: there bits say how members are
    packed, and where they are.
    """
    data = path.read_bytes()
    directory, words = data.index(b"PK\x01\x02"), []
    for place in [*range(0, directory, max(directory // 8, 1)), *range(directory, len(data), 9)]:
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        for damaged in (data[:place], bytes(flipped)) if place % 4 == 0 else (bytes(flipped),):
            path.write_bytes(damaged)
            try:
                require_kit(path)
                assert read(path).facts.kernel_digest == "a" * 64  # the bit was one of a date, say
            except UsageError as refused:
                words.append(refused.what)
    assert words
    assert all(re.search("is no kit: |is damaged, or no kit|cannot be unpacked", w) for w in words)


def test_refuses_another_version(path: Path) -> None:
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w") as new:
        for name, data in members.items():
            new.writestr(name, data.replace(b'"version": 3', b'"version": 9'))
    with pytest.raises(UsageError, match=r"version 9: this tilec reads version 3"):
        read(path)
