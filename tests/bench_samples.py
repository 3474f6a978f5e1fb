"""A device that measures by a plan: times are what a test says, and time passes by what is launched
alone.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.runtime_samples import ADD, bundle_of
from tilec.bench.libraries import Library, NumpyLibrary
from tilec.bench.measure import ClockReading
from tilec.bench.report import Setting
from tilec.bench.work import Ceilings
from tilec.case.cases import BoundCase, expand_cases
from tilec.cli.app import App
from tilec.cli.bench_run import Given
from tilec.cli.cases import Opened, Wish
from tilec.cli.settings import Settings
from tilec.manifest.load import load_text
from tilec.manifest.types import Manifest
from tilec_runtime.errors import MissingError

HEAD = """edition = 1
[package]
name = "sample"
version = "1.0"
[targets]
default = ["sm_90"]
min-driver = "580"
[kernel.add]
source = "add.cu"
params = { z = { rank = 1, out = true, dtype = "f32" }, x = { rank = 1, dtype = "f32" }, y = { rank = 1, dtype = "f32" } }
args = ["z.ptr"]
launch = { grid = ["1"], block = ["256"] }
"""
CASE = """
[kernel.add.case.{name}]
inputs.x = {{ shape = [{size}], dtype = "f32" }}
inputs.y = {{ shape = ["x.shape[0]"], dtype = "f32", seed = 1 }}
inputs.z = {{ shape = ["x.shape[0]"], dtype = "f32", dist = "empty" }}
bench = {{ {bench} }}
"""
BENCH = 'bytes = "nbytes(x) + nbytes(y) + nbytes(z)", flops = "z.size"'
H200 = Setting(kind="cuda", device="Fake H200", multiprocessors=132, driver="580.95.05", cold=True)
CEILINGS = Ceilings(copy=4e9, products={"bf16": 785e12, "f32": 400e12}, by="torch 2.13.0")


def manifest(*cases: tuple[str, int, str], root: Path) -> Manifest:
    """A project with cases of `add`: (name, elements, the `bench` table)."""
    text = HEAD + "".join(
        CASE.format(name=name, size=size, bench=bench) for name, size, bench in cases
    )
    return load_text(text, root / "tilec.toml", languages={"cuda": (".cu",)})


def bound(found: Manifest) -> tuple[BoundCase, ...]:
    return expand_cases(found.kernels[0], ADD, locate=found.locate)


def opened() -> Opened:
    return Opened(bundle=bundle_of(ADD))


@dataclasses.dataclass
class PlannedTimed:
    """Launches of a case."""

    device: PlannedDevice
    times: Iterator[float]
    variant: str = ADD.variants[0].id
    code: str = ADD.variants[0].images[0].digest
    cache: str = "rotated"

    def seconds(self, launches: int) -> float:
        taken = next(self.times) * launches
        self.device.now += taken
        return taken

    def clocks(self) -> ClockReading | None:
        return self.device.reading

    def host_seconds(self, launches: int, clock: Callable[[], float]) -> float | None:
        self.device.hosts.append(launches)
        return 3.4e-6

    def close(self) -> None: ...


@dataclasses.dataclass
class PlannedContender:
    """Calls of a rival."""

    device: PlannedDevice
    each: float
    call: Any
    given: Mapping[str, Any]
    note: str = ""

    def seconds(self, launches: int) -> float:
        self.call(self.given)
        self.device.now += self.each * launches
        return self.each * launches

    def clocks(self) -> ClockReading | None:
        return None

    def close(self) -> None: ...


@dataclasses.dataclass
class PlannedDevice:
    """A device on which a launch of the n-th measurement of a case takes `plan(case, n)` seconds,
    give or take a little.
    """

    plan: Callable[[str, int], float]
    rival: float = 300e-6
    setting: Setting = H200
    clocks_missing: str = ""
    best: Ceilings | None = CEILINGS
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    reading: ClockReading | None = None
    now: float = 0.0
    hosts: list[int] = dataclasses.field(default_factory=list)
    measured: list[str] = dataclasses.field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def ceilings(self, *, fresh: bool) -> Ceilings | None:
        return self.best

    def refusal(self, case: BoundCase) -> str:
        return self.refused.get(case.case, "")

    def timed(self, case: BoundCase, inputs: Mapping[str, Any]) -> PlannedTimed:
        each = self.plan(case.case, self.measured.count(case.case))
        self.measured.append(case.case)
        return PlannedTimed(self, (each * (1 + 1e-3 * (i % 5 - 2)) for i in itertools.count()))

    def library(self, name: str) -> Library:
        if name != "numpy":
            raise MissingError(f"{name} is not installed")
        return NumpyLibrary()

    def contender(
        self, library: Library, call: Any, case: BoundCase, inputs: Mapping[str, Any]
    ) -> PlannedContender:
        return PlannedContender(self, self.rival, call, inputs)


GIVEN = Given(
    wish=Wish(),
    settings=(),
    sweep=None,
    device="auto",
    samples=None,
    seconds=1.0,
    cold=None,
    against=True,
    save=None,
    against_saved=None,
    fail_slower=None,
    markdown=None,
    html=None,
    measure_ceilings=False,
    variants=False,
)


def app(folder: Path, **facts: Any) -> App:
    return App(settings=Settings(cwd=folder), **facts)
