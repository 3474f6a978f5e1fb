"""A first look at one kernel of a source file, as `tilec run kernels.py:scale`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilec.cli.app import MANIFEST, App
from tilec_runtime.errors import ManifestError, NoDeviceError, UsageError

if TYPE_CHECKING:
    from tilec.case.cases import BoundCase
    from tilec.case.inputs import Array
    from tilec.compile.project import Project
    from tilec_runtime.device.seam import DeviceInfo

SHOWN = 6  # elements to show of an output
GPU_TARGET = "sm_90"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Sourced:
    """A kernel named by its file on the command line."""

    path: Path
    name: str


def sourced(app: App, words: Sequence[str]) -> Sourced | None:
    """Return the kernel of `kernels.py:scale`, or None if the words are kernel names.

    Raises:
        UsageError: the file does not exist, or the word does not name one of its kernels.
    """
    named = [word for word in words if ":" in word or "." in word]
    if not named:
        return None
    file, _, name = named[0].partition(":")
    path = app.path(file)
    if not path.is_file():
        raise UsageError(f"no such file: {app.show(path)}", fix="name a kernel, or FILE:KERNEL")
    if len(words) > 1 or not name.isidentifier():
        raise UsageError(
            f"{named[0]!r} does not name one kernel of a file",
            fix=f"name it: tilec run {file}:KERNEL",
        )
    return Sourced(path=path.resolve(), name=name)


def open_source(app: App, kernel: Sourced) -> Project:
    """Open the project of a file without a manifest, with guesses for open parameters.

    The manifest is never written to disk; later builds of this run read it from `app`.
    """
    from tilec import build
    from tilec.case.look import bare_manifest, guessed_manifest
    from tilec.cli.build import make_request
    from tilec.cli.cases import open_project
    from tilec.compile.declare import language_of
    from tilec.compile.events import Observer

    app.manifest = str(kernel.path.parent / MANIFEST)
    language = language_of(kernel.path, kernel.name)
    app.manifest_text = bare_manifest(kernel.name, kernel.path.name, language)
    try:
        declared = build.declarations(make_request(app), Observer())
    except ManifestError as exc:  # the user has not written this manifest
        message = exc.problems[0].message.partition(": ")[2]
        raise UsageError(message, fix=f"tilec run {kernel.path.name}:KERNEL") from exc
    decl = declared[kernel.name]
    if decl.template:
        raise UsageError(
            f"{kernel.name} is a template, whose arguments a file does not give",
            fix=f'write a {MANIFEST} with symbol = "{kernel.name}<…>": `tilec new` shows one',
        )
    app.manifest_text = guessed_manifest(kernel.name, kernel.path.name, language, decl)
    app.detail(f"assumed {MANIFEST} for {kernel.path.name}:\n{app.manifest_text}")
    return open_project(app)


def target_of(app: App, project: Project, device: DeviceInfo) -> str:
    """Return the target to build for, or an empty string for the cpu device.

    Raises:
        NoDeviceError: the kernel needs a GPU, and there is none; the kernel was built anyway.
    """
    from tilec.build import concerned
    from tilec.cli.build import print_kernels
    from tilec.cli.cases import open_bundle
    from tilec.inspection.report import summarize

    if device.interprets is None:
        return f"sm_{device.cc[0]}{device.cc[1]}"
    if concerned(project, ("tileir",)):
        return ""
    (kernel,) = project.manifest.kernels
    opened = open_bundle(
        app, project, (kernel.name,), bundle=None, targets=(GPU_TARGET,), cpu=False
    )
    print_kernels(app, map(summarize, opened.kernels.values()))
    raise NoDeviceError(
        f"{kernel.name} was built for {GPU_TARGET} but not run: a {kernel.language} kernel needs a GPU",
        fix="run it on a machine with an NVIDIA GPU",
    )


class Values:
    """Collects outputs, and prints their first elements after all cases."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._lines: list[str] = []

    def __call__(self, case: BoundCase, name: str, array: Array) -> None:
        """Record an output; a run calls this instead of saving it."""
        first = ", ".join(f"{value:.6g}" for value in array.reshape(-1)[:SHOWN].tolist())
        more = ", …" if array.size > SHOWN else ""
        shape = " x ".join(map(str, array.shape))
        self._lines.append(f"{name}: {case.dtype_of(name)} {shape}: {first}{more}")

    def print(self) -> None:
        """Print the recorded outputs."""
        for line in self._lines:
            self._app.say(line)
