"""The fake frontend keeps the contract, and the contract finds frontends that do not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, KernelSpec, Source, Variant
from tilec.testing import contract
from tilec.testing.contract import Sample
from tilec.testing.fakes import FakeFrontend
from tilec_runtime.model.arch import Target


def job_of(source: Source, decl: KernelDecl) -> Job:
    spec = KernelSpec(
        name=decl.name, language="fake", source=source, decl=decl, symbol=decl.name, params=()
    )
    return Job(
        spec=spec, variant=Variant(kernel=decl.name, id=decl.name), target=Target.parse("sm_90")
    )


SAMPLE = Sample(
    make=FakeFrontend,
    files={
        "k/add.fake": 'include "k/common.inc"\nkernel add(x: tensor, n: scalar)\n',
        "k/common.inc": "text\n",
    },
    path="k/add.fake",
    pulled_in="k/common.inc",
    kernel="add",
    job=job_of,
    broken=("kernel add(x: tensor)\nerror no\n", 2),
)


def test_the_fake_frontend_keeps_the_contract(tmp_path: Path) -> None:
    contract.check_all(SAMPLE, tmp_path)


class NoPullIn(FakeFrontend):
    def inputs(self, source):
        return [file for file in super().inputs(source) if file.name == source.path]


class KnowsItsPlace(FakeFrontend):
    def compile(self, job):
        image = super().compile(job)
        slot = dataclasses.replace(image.abi[0], expr=job.spec.source.root)
        return dataclasses.replace(image, abi=(slot,))


class Lies(FakeFrontend):
    def compile(self, job):
        return dataclasses.replace(super().compile(job), data=b"other")


class PlacesElsewhere(FakeFrontend):
    def declare(self, source):
        return [
            dataclasses.replace(decl, location=dataclasses.replace(decl.location, line=99))
            for decl in super().declare(source)
        ]


class SeesNoFault(FakeFrontend):
    def declare(self, source):
        path = Path(source.root, source.path)
        path.write_text(path.read_text().replace("error", "text"))
        return super().declare(source)


@pytest.mark.parametrize(
    ("make", "check", "words"),
    [
        (NoPullIn, contract.check_inputs, "k/common.inc has another digest"),
        (Lies, contract.check_compile, "the row says 256 bytes, the image has 5"),
        (KnowsItsPlace, contract.check_directories, "the image depends on the project's directory"),
        (PlacesElsewhere, contract.check_declare, "add is placed in line 99 of 3"),
        (SeesNoFault, contract.check_errors, "neither refused by declare nor by compile"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_broken_promise_is_found(
    make: Any, check: Callable[..., None], words: str, tmp_path: Path
) -> None:
    sample = dataclasses.replace(SAMPLE, make=make)
    with pytest.raises(AssertionError, match=words):
        check(sample, tmp_path)
