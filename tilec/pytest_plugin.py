"""A pytest plugin: each case of a tilec.toml is a test.

Enable it with `pytest_plugins = ["tilec.pytest_plugin"]` in conftest.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from tilec.case.cases import BoundCase, unbuilt_cases
from tilec.case.chains import chain_cases
from tilec.case.device import ModuleDevice
from tilec.case.functions import Functions
from tilec.case.run import CaseResult, run_case
from tilec.cli.app import MANIFEST, App
from tilec.cli.cases import Opened, Wish, chosen_cases, open_bundle, open_project
from tilec.cli.devices import find_device, require_device_name
from tilec.cli.failures import render
from tilec.cli.run_show import difference_lines
from tilec.cli.settings import read_settings
from tilec.compile.project import Project
from tilec_runtime.bundle.choose import WITHOUT_TILE_IR
from tilec_runtime.errors import TilecError

MARKS = {
    "tilec": "a case of a tilec.toml",
    "tilec_gpu": "a case of a tilec.toml whose kernel needs a GPU",
    "tilec_kernel(name, language)": "a case of this kernel of a tilec.toml",
}


Built = tuple[tuple[BoundCase, ...], Opened, ModuleDevice | None]


class CaseFailedError(Exception):
    """A case failed; pytest shows the text."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tilec-device`, with the values of `tilec run --device`."""
    group = parser.getgroup("tilec", "kernels")
    group.addoption(
        "--tilec-device",
        default="auto",
        metavar="NAME",
        help="where cases run: cuda, cuda:N, cpu, or auto: a GPU if there is one",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks."""
    for name, text in MARKS.items():
        config.addinivalue_line("markers", f"{name}: {text}")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CaseFile | None:
    """Collect a manifest as a file of tests."""
    return CaseFile.from_parent(parent, path=file_path) if file_path.name == MANIFEST else None


class CaseFile(pytest.File):
    """A manifest: one test for each case of a kernel or chain; collecting builds nothing."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield the cases in the manifest's order."""
        run = Run(self.path, self.config.getoption("--tilec-device"))
        manifest = run.project.manifest
        languages = {kernel.name: kernel.language for kernel in manifest.kernels}
        cases = [case for kernel in manifest.kernels for case in unbuilt_cases(kernel)]
        cases += [case for chain in manifest.chains for case in chain_cases(chain, {})]
        known = frozenset(case.name for case in cases)
        for case in cases:
            used = {
                kernel: languages[kernel]
                for kernel in ([step.kernel for step in case.steps] or [case.kernel])
            }
            yield CaseItem.from_parent(
                self, name=case.name, run=run, case=case, known=known, kernels=used
            )

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> Any:  # type: ignore[override]
        """Return errors of the manifest as `tilec check` prints them."""
        return (
            _text(excinfo.value)
            if isinstance(excinfo.value, TilecError)
            else super().repr_failure(excinfo)
        )


class CaseItem(pytest.Item):
    """One case of a chain, or of a kernel with one choice of its dtypes.

    If only a build shows the dtypes, the item stands for all of them.
    """

    def __init__(
        self,
        *,
        run: Run,
        case: BoundCase,
        known: frozenset[str],
        kernels: Mapping[str, str],
        **more: Any,
    ) -> None:
        """Add marks for `-m` and keywords for `-k`; `kernels` maps its kernels to languages."""
        super().__init__(**more)
        self._run, self._case, self._known = run, case, known
        self.add_marker(pytest.mark.tilec)
        for name, language in kernels.items():
            self.add_marker(pytest.mark.tilec_kernel(name=name, language=language))
        if any(language in WITHOUT_TILE_IR for language in kernels.values()):
            self.add_marker(pytest.mark.tilec_gpu)
        self.extra_keyword_matches.update((case.kernel, case.case, *kernels, *kernels.values()))

    def runtest(self) -> None:
        """Build once for all cases, run, and compare."""
        results = self._run.results(self._case, self._known)
        bad = [result for result in results if result.status in ("failed", "error")]
        if bad:
            raise CaseFailedError("\n".join(line for result in bad for line in _lines(result)))
        skipped = [result for result in results if result.status == "skipped"]
        if len(skipped) == len(results):
            pytest.skip(
                skipped[0].reason
                if skipped
                else "no variant of the kernel that was built fits the case"
            )

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the differences, or why the case could not run, without a traceback of tilec."""
        if isinstance(excinfo.value, CaseFailedError):
            return str(excinfo.value)
        if isinstance(excinfo.value, TilecError):
            return self._run.text(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the location of the case in the manifest."""
        table = "chain" if self._case.steps else "kernel"
        location = self._run.project.manifest.locate(
            (table, self._case.kernel, "case", self._case.case)
        )
        return self.path, location.line - 1, self.name


class Run:
    """The cases of one manifest on one device, built when the first case runs."""

    def __init__(self, manifest: Path, device: str) -> None:
        """Read the manifest.

        Raises:
            ManifestError: it has problems.
        """
        self.path = manifest
        self._app = App(settings=read_settings(), directory=str(manifest.parent), quiet=True)
        self._device = device
        self.project: Project = open_project(self._app)
        self._functions = Functions(self.project.manifest.root)
        self._built: Built | TilecError | None = None
        self._reported = False

    def results(self, case: BoundCase, known: frozenset[str]) -> list[CaseResult]:
        """Return the results of a case.

        If no built case has one of the `known` names, the result is that of all dtypes.

        Raises:
            TilecError: the project cannot be built, or the device does not exist.
        """
        cases, opened, device = self._build()
        same = [one for one in cases if (one.kernel, one.case) == (case.kernel, case.case)]
        if known.intersection(one.name for one in same):
            same = [one for one in same if one.name == case.name]
        results = []
        for one in same:
            lacking = opened.absence(one)
            if device is None or lacking:
                reason = lacking or "it was not built"
                results.append(CaseResult(case=one, status="skipped", reason=reason))
            else:
                results.append(run_case(one, device, self._functions, clock=time.perf_counter))
        return results

    def text(self, error: TilecError) -> str:
        """Return an error's text; an error that all cases share is shown in full only once."""
        if error is self._built and self._reported:
            return f"{error.what} (see the first case of {self.path.name})"
        self._reported |= error is self._built
        return _text(error)

    def _build(self) -> Built:
        """Build and load at the first call; later ones return the same, or raise the same error."""
        if self._built is None:
            try:
                self._built = self._open()
            except TilecError as error:
                self._built = error
        if isinstance(self._built, TilecError):
            raise self._built
        return self._built

    def _open(self) -> Built:
        driver, device = find_device(self._app, require_device_name(self._device))
        cpu = device.interprets is not None
        opened = open_bundle(self._app, self.project, Wish(), cpu=cpu)
        cases = chosen_cases(opened, self.project.manifest, Wish())
        return cases, opened, opened.load(driver, device)


def _text(error: TilecError) -> str:
    """Return an error as the command prints it, without colours."""
    return click.unstyle(render(error))


def _lines(result: CaseResult) -> Iterator[str]:
    yield result.case.name
    for output in result.outputs:
        if not output.comparison.ok:
            yield f"  {output.difference}"
            yield from (
                f"  {click.unstyle(line)}".rstrip() for line in difference_lines(output, None)
            )
            yield from (f"  {output.name}: {note}" for note in output.notes)
    if result.error is not None:
        yield from (f"  {line}" for line in str(result.error).splitlines())
