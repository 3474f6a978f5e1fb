"""Doubles of the build half: a frontend that needs no compiler and misbehaves on demand, and an
observer that remembers.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilec.compile.events import Observer, Outcome
from tilec.frontends.base import ToolSearch
from tilec.frontends.tools.run import run_tool
from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.model.job import InputFile, Job, Source
from tilec_runtime.errors import CompileError, Diagnostic, Location
from tilec_runtime.model.arch import Target, TargetKind
from tilec_runtime.model.image import Image, ImageInfo, Resources
from tilec_runtime.model.kernel import ToolInfo
from tilec_runtime.model.signature import AbiSlot

_KERNEL = re.compile(r"kernel\s+(\w+)\s*(?:\(([^)]*)\))?")
_INCLUDE = re.compile(r'include\s+"([^"]+)"')


class FakeFrontend:
    """Compiles `.fake` sources: lines `kernel NAME(param: kind, …)`, `include "FILE"` and `error
    MESSAGE`; anything else is free text.

    Image bytes are a digest of the job and of every file it includes, repeated. Options of the
    source make it misbehave, when compiling or, with the option `in = "declare"`, when reading the
    source:

    * `sleep` seconds; `hang` until killed, with a child process that sleeps too
    * `overtime` a file: run a tool to its time limit whose child goes on, and write the child's
      process id there
    * `raise` the name of a built-in exception; `fail` a message, raised as a CompileError
    * `crash` the name of a signal that the process sends itself; `exit` a status for `os._exit`
    * `print` text for standard output, written by Python and by a child process
    * `pickle` raises an error that cannot be pickled
    * `size` bytes of the image; `count` a file that gets a line for each compile
    * `only` does all this only for jobs whose id contains it, `grouped` only for jobs that come
      with their group
    """

    name = "fake"
    suffixes = (".fake",)
    kinds = (TargetKind.CUBIN, TargetKind.PTX)
    simt = True
    hints = ("occupancy",)

    def __init__(self, search: ToolSearch) -> None:
        """Keeps nothing: it looks for no tools."""

    def refuse(self, target: Target) -> str:
        """Every target will do, except the oldest, so that refusals can be tested."""
        return "the fake compiler starts at sm_80" if target.cc < (8, 0) else ""

    def toolchain(self) -> Sequence[ToolInfo]:
        """One tool, always the same."""
        return (
            ToolInfo(name="fakec", version="1.0", digest=hashlib.sha256(b"fakec 1.0").hexdigest()),
        )

    def inputs(self, source: Source) -> Sequence[InputFile]:
        """Return the source and its includes, transitively."""
        return tuple(
            InputFile(name=name, digest=hashlib.sha256(data).hexdigest())
            for name, data in sorted(_closure(source).items())
        )

    def declare(self, source: Source) -> Sequence[KernelDecl]:
        """A kernel for each `kernel` line."""
        options: dict[str, Any] = dict(source.options)
        if options.get("in") == "declare":
            _misbehave(options, source.path)
        declared = []
        for number, line in enumerate(_read(source, source.path).decode().splitlines(), 1):
            if line.startswith("error "):
                raise _error(source, number, line, line.removeprefix("error "))
            if match := _KERNEL.match(line):
                location = Location(file=source.path, line=number, column=match.start(1) + 1)
                declared.append(
                    KernelDecl(
                        name=match[1],
                        qualified=match[1],
                        location=location,
                        params=_params(match[2] or "", location),
                    )
                )
        return tuple(declared)

    def compile(self, job: Job) -> Image:
        """Bytes that depend on nothing but the job and its files."""
        source = job.spec.source
        options: dict[str, Any] = dict(source.options)
        if "count" in options:
            with Path(options["count"]).open("a", encoding="utf-8") as file:
                file.write(f"{job.id}\n")
        meant = options.get("only", "") in job.id and (
            bool(job.group) or not options.get("grouped")
        )
        if options.get("in") != "declare" and meant:
            _misbehave(options, job.id)
        seed = hashlib.sha256(
            repr((job.variant, job.target, job.hints, sorted(_closure(source).items()))).encode()
        ).digest()
        size = int(options.get("size", 256))
        return _image(job, (seed * (size // len(seed) + 1))[:size])


class MemoryObserver(Observer):
    """Remembers every event as a tuple whose first item is the event's name."""

    def __init__(self) -> None:
        """Starts with no events."""
        self.events: list[tuple[Any, ...]] = []

    def started(self, total: int, cached: int) -> None:
        """Remembered as ("started", total, cached)."""
        self.events.append(("started", total, cached))

    def job_started(self, job_id: str) -> None:
        """Remembered as ("job_started", id)."""
        self.events.append(("job_started", job_id))

    def job_finished(self, job_id: str, outcome: Outcome) -> None:
        """Remembered as ("job_finished", id, outcome)."""
        self.events.append(("job_finished", job_id, outcome))

    def note(self, text: str) -> None:
        """Remembered as ("note", text)."""
        self.events.append(("note", text))

    def finished(self) -> None:
        """Remembered as ("finished",)."""
        self.events.append(("finished",))

    @property
    def notes(self) -> list[str]:
        """The texts of all notes."""
        return [event[1] for event in self.events if event[0] == "note"]


def _misbehave(options: dict[str, Any], subject: str) -> None:
    if "print" in options:
        sys.stdout.write(options["print"])
        subprocess.run(["/bin/echo", options["print"]], check=True)
    if "sleep" in options:
        time.sleep(options["sleep"])
    if "hang" in options:
        child = subprocess.Popen(["/bin/sleep", "600"])
        if isinstance(options["hang"], str):
            Path(options["hang"]).write_text(f"{os.getpid()} {child.pid}\n", encoding="utf-8")
        time.sleep(600)
    if "overtime" in options:
        command = f"sleep 600 & echo $! > {shlex.quote(options['overtime'])}; wait"
        run_tool(["/bin/sh", "-c", command], timeout=1.0)
        raise CompileError(
            "fakec took more than 1 s, and was stopped", command=command, overtime=True
        )
    if "crash" in options:
        os.kill(os.getpid(), signal.Signals[options["crash"]])
        time.sleep(600)
    if "exit" in options:
        os._exit(options["exit"])
    if "raise" in options:
        raise getattr(__import__("builtins"), options["raise"])(f"raised on demand for {subject}")
    if "pickle" in options:
        error = CompileError("raised on demand")
        vars(error)["extra"] = lambda: None
        raise error
    if "fail" in options:
        raise CompileError(
            options["fail"], command=f"fakec {subject}", log=f"fakec: {options['fail']}"
        )


def _image(job: Job, data: bytes) -> Image:
    info = ImageInfo(
        target=job.target,
        digest=hashlib.sha256(data).hexdigest(),
        size=len(data),
        symbol=job.spec.symbol or job.spec.decl.name,
        ptx_isa=(8, 0) if job.target.kind is TargetKind.PTX else None,
        cuda=job.target.arch.toolkit,
        resources=Resources(
            registers=16,
            spill_stores=0,
            spill_loads=0,
            stack=0,
            shared=0,
            constant=352,
            code=len(data),
        ),
    )
    abi = job.spec.abi or tuple(
        _slot(param) for param in job.spec.decl.params if param.kind != "constant"
    )
    return Image(info=info, data=data, abi=abi)


def _slot(param: ParamDecl) -> AbiSlot:
    if param.kind == "tensor":
        return AbiSlot(type="ptr", expr=f"{param.name}.ptr", size=8, align=8)
    return AbiSlot(type="i32", expr=param.name, size=4, align=4)


def _params(text: str, location: Location) -> tuple[ParamDecl, ...]:
    pairs = [part.split(":") for part in text.split(",") if part.strip()]
    return tuple(
        ParamDecl(
            name=name.strip(),
            kind=kind.strip(),
            dtype="f32" if kind.strip() == "tensor" else "i32",
            location=location,
        )
        for name, kind in pairs
    )


def _closure(source: Source) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    waiting = [source.path]
    while waiting:
        name = waiting.pop()
        if name not in contents:
            contents[name] = _read(source, name)
            waiting.extend(_INCLUDE.findall(contents[name].decode("utf-8", "replace")))
    return contents


def _read(source: Source, name: str) -> bytes:
    try:
        return Path(source.root, name).read_bytes()
    except OSError as exc:
        raise CompileError(f"{name}: cannot be read: {exc.strerror}") from exc


def _error(source: Source, line: int, text: str, message: str) -> CompileError:
    location = Location(file=source.path, line=line, column=1)
    return CompileError(
        f"{location}: {message}",
        diagnostics=(Diagnostic(message=message, location=location, excerpt=text),),
        command=f"fakec {source.path}",
    )
