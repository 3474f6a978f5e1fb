"""The projects of tests/samples that hold what users bring: where they are, what they need, and
their cases against a module.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from tilec.case.cases import BoundCase, expand_cases
from tilec.case.device import ModuleDevice
from tilec.case.functions import Functions
from tilec.case.run import CaseResult, run_case
from tilec.compile.project import open_project
from tilec.frontends.base import ToolSearch
from tilec.manifest.types import Manifest
from tilec_runtime import Module
from tilec_runtime.device.seam import DeviceDriver

SAMPLES = Path(__file__).resolve().parent / "samples"
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """One project.

    Attributes:
        name: of its folder, behind `corpus_`.
        needs: the package without which it cannot be built; empty where the toolkit does.
        without_case: kernels whose arguments no case can give.
    """

    name: str
    needs: str = ""
    without_case: tuple[str, ...] = ()

    @property
    def root(self) -> Path:
        return SAMPLES / f"corpus_{self.name}"

    @property
    def bundle(self) -> str:
        """Where a build leaves the bundle, below the project."""
        return f"dist/corpus-{self.name}-1.0.0.tilec"

    def manifest(self) -> Manifest:
        return open_project(self.root / "tilec.toml", ToolSearch()).manifest

    def cases(self, module: Module) -> tuple[BoundCase, ...]:
        """The cases of every kernel, for each dtype that they stand for."""
        manifest = self.manifest()
        found = [
            expand_cases(kernel, module.kernels[kernel.name].info, locate=manifest.locate)
            for kernel in manifest.kernels
        ]
        return tuple(case for cases in found for case in cases)


CORPORA = (
    Corpus(name="cuda"),
    Corpus(name="triton", needs="triton", without_case=("grouped_by_address",)),
    Corpus(name="simt", needs="numba_cuda"),
)


def results(
    corpus: Corpus, cases: tuple[BoundCase, ...], module: Module, driver: DeviceDriver
) -> tuple[CaseResult, ...]:
    """What comes of these cases where the module is loaded."""
    device, functions = ModuleDevice(module, driver), Functions(str(corpus.root))
    return tuple(run_case(case, device, functions, clock=time.perf_counter) for case in cases)
