"""A worker process: compiles the jobs it is given, one after another, and keeps what compilers
print out of the protocol.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import hashlib
import importlib
import pickle
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilec.compile import wire
from tilec.compile.blob import Blob
from tilec.compile.cache import Cache, index_row
from tilec.compile.events import Done
from tilec.compile.keylock import KeyLock
from tilec.compile.keys import inputs_digest
from tilec.frontends.base import Frontend
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job
from tilec_runtime.errors import (
    CompileError,
    Diagnostic,
    Location,
    OutputError,
    TilecError,
    ToolchainError,
)
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import Image

_LOOK_AGAIN = 0.02  # seconds between two looks for what another process compiles
_BUG = "this is a bug in tilec or in the frontend: please report it with the log"


def main() -> None:
    """Serve requests from standard input until it ends; replies go to what standard output was."""
    inbox, replies = wire.serve()
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    faulthandler.enable()
    setup = pickle.loads(inbox.get())  # noqa: S301  (from the build that started this process)
    worker = _Worker(setup, waiting=lambda: wire.write_all(replies, wire.pack(wire.Waiting())))
    wire.write_all(replies, wire.pack(wire.Ready()))
    while True:
        request = pickle.loads(inbox.get())  # noqa: S301
        answer = worker.answer(request)
        sys.stdout.flush()
        sys.stderr.flush()
        wire.write_all(replies, _pack(answer, request))


class _Worker:
    """What lives from job to job: frontends with their compilers imported, and the cache."""

    def __init__(self, setup: wire.Setup, *, waiting: Callable[[], None]) -> None:
        self._setup = setup
        self._notes: list[str] = []
        root = Path(setup.cache_root) if setup.cache_root else None
        shared = Path(setup.shared_root) if setup.shared_root else None
        self._cache = Cache(root, note=self._notes.append, shared=shared)
        self._lock = KeyLock(self._cache.root)
        self._waiting = waiting
        self._frontends: dict[str, Frontend] = {}

    def answer(self, request: wire.Request) -> wire.Reply:
        """Do what is asked; whatever is raised on the way is the request's result."""
        self._notes.clear()
        result: wire.Result
        try:
            result = (
                self._compile(request)
                if isinstance(request, wire.Compile)
                else self._declare(request)
            )
        except TilecError as exc:
            result = exc
        except BaseException as exc:  # noqa: BLE001  (SystemExit and KeyboardInterrupt of user code too)
            result = _bug(request, f"{type(exc).__name__}: {exc}", traceback.format_exc())
        return wire.Reply(result=result, notes=tuple(self._notes))

    def _declare(self, request: wire.Declare) -> tuple[KernelDecl, ...]:
        found = tuple(self._frontend(request.language).declare(request.source))
        for decl in found:
            if not isinstance(decl, KernelDecl):
                raise TypeError(f"declare gave a {type(decl).__name__} where a KernelDecl was due")
        return found

    def _compile(self, request: wire.Compile) -> Done:
        # Another build may have compiled it since ours looked, or do so now.
        stored = not request.fresh and request.job.cacheable
        entry = (self._cache.get(request.key) or self._awaited(request)) if stored else None
        try:
            return self._made(request) if entry is None else entry
        finally:
            if not request.more:
                self._lock.release()

    def _awaited(self, request: wire.Compile) -> Done | None:
        """Wait for a process that compiles the same, and return what it gave; None where it gave
        nothing, or took too long.
        """
        if not request.lock:
            return None
        deadline = time.monotonic() + request.patience
        told = False
        while not self._lock.take(request.lock):
            if not told:
                self._waiting()
                told = True
            if time.monotonic() > deadline:
                return None
            time.sleep(_LOOK_AGAIN)
            entry = self._cache.get(request.key)
            if entry is not None:
                return entry
        return self._cache.get(request.key)

    def _made(self, request: wire.Compile) -> Done:
        frontend = self._frontend(request.job.spec.language)
        start = time.perf_counter()
        image = frontend.compile(
            dataclasses.replace(request.job, group=()) if request.apart else request.job
        )
        seconds = time.perf_counter() - start
        _check(image)
        if (
            request.inputs
            and inputs_digest(tuple(frontend.inputs(request.job.spec.source))) != request.inputs
        ):
            raise _changed(request.job)
        blob = (
            None
            if request.apart or request.spooled or not request.job.cacheable
            else self._cache.put(request.key, image)
        )
        return Done(
            row=_row(request.key, image),
            info=image.info,
            abi=image.abi,
            warnings=image.warnings,
            blob=blob or self._spool(request.key, image),
            cached=False,
            seconds=seconds,
        )

    def _frontend(self, language: str) -> Frontend:
        if language not in self._frontends:
            self._frontends[language] = load_frontend(
                self._setup.frontends.get(language, ""), language
            )(self._setup.search)
        return self._frontends[language]

    def _spool(self, key: str, image: Image) -> Blob:
        path = Path(self._setup.spool, f"{key}.image")
        try:
            path.write_bytes(image.data)
        except OSError as exc:
            raise OutputError(
                f"a compiled image could be written neither to the cache nor to {path.parent}: {exc.strerror}",
                cause="the disk is full, or the directory cannot be written",
                fix="make room, or set another cache and output directory",
            ) from exc
        return Blob(path=str(path), offset=0, size=len(image.data), digest=image.info.digest)


def _row(key: str, image: Image) -> str:
    try:
        return sha256(index_row(key, image))
    except (TypeError, ValueError):
        return ""  # sending it says what is wrong with it


def load_frontend(place: str, language: str) -> Any:
    """The frontend class at `module:Class`.

    Raises:
        ToolchainError: it cannot be imported.
    """
    module, _, name = place.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as exc:
        raise ToolchainError(
            f"the frontend for language {language!r} cannot be loaded from {place}: {type(exc).__name__}: {exc}",
            cause="the package that provides it is half installed or of another version",
            fix="install it again; `tilec doctor` shows what is found",
        ) from exc


def _check(image: object) -> None:
    if not isinstance(image, Image):
        raise TypeError(f"compile gave a {type(image).__name__} where an Image was due")
    if (
        len(image.data) != image.info.size
        or hashlib.sha256(image.data).hexdigest() != image.info.digest
    ):
        raise ValueError("size or digest in ImageInfo are not those of the image's bytes")


def _changed(job: Job) -> CompileError:
    """Which of the two states of the files was compiled cannot be told, so the image is of neither."""
    what = f"{job.spec.source.path}, or a file that it includes, imports or reads, was changed while it was compiled"
    place = Diagnostic(message=what, location=Location(file=job.spec.source.path))
    return CompileError(
        what, diagnostics=(place,), fix="build again", kernel=job.variant.id, target=str(job.target)
    )


def _bug(request: wire.Request, what: str, log: str) -> CompileError:
    if isinstance(request, wire.Compile):
        job = request.job
        return CompileError(
            f"{job.id}: the {job.spec.language} frontend failed: {what}",
            log=log,
            fix=_BUG,
            kernel=job.variant.id,
            target=str(job.target),
        )
    return CompileError(
        f"{request.source.path}: the {request.language} frontend failed to read it: {what}",
        log=log,
        fix=_BUG,
    )


def _pack(reply: wire.Reply, request: wire.Request) -> bytes:
    """The reply as bytes; one that cannot be pickled becomes an error that can."""
    try:
        return wire.pack(reply)
    except Exception as exc:  # noqa: BLE001  (pickling runs foreign code)
        log = "".join(traceback.format_exception(exc))
        if isinstance(reply.result, TilecError):  # its words still help
            return wire.pack(
                wire.Reply(result=_bug(request, str(reply.result), log), notes=reply.notes)
            )
        return wire.pack(
            wire.Reply(
                result=_bug(request, f"its result cannot be sent: {exc}", log), notes=reply.notes
            )
        )


if __name__ == "__main__":
    main()
