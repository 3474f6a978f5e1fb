"""A worker process: declares sources and compiles jobs, one request at a time."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path

from tilec.compile import own
from tilec.compile.cache import Cache, index_row
from tilec.compile.events import Blob, Done
from tilec.compile.keys import inputs_digest
from tilec.compile.process import connect
from tilec.frontends.base import Frontend, ToolSearch, load_frontend
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, Source
from tilec_runtime.errors import (
    CompileError,
    Diagnostic,
    Location,
    OutputError,
    TilecError,
)
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import Image
from tilec_runtime.model.kernel import ToolInfo

_BUG = "this is a bug in tilec or in the frontend: please report it with the log"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """The first message to a worker; `frontends` has `module:Class` by language."""

    frontends: Mapping[str, str]
    search: ToolSearch
    cache_root: str
    spool: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """The first message of a worker."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Declare:
    """A request to read the kernels of a source."""

    language: str
    source: Source


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Compile:
    """A request to compile a job and store its image in the cache.

    Attributes:
        job: the job.
        key: its cache key.
        inputs: digest of the files that the key covers; an image of other files is refused.
        fresh: compile even if the cache has an image.
        apart: compile without the job's group, after the group crashed or exceeded its time limit.
            The result then depends on the machine, so it is not cached.
    """

    job: Job
    key: str
    inputs: str
    fresh: bool = False
    apart: bool = False

    @property
    def in_group(self) -> bool:
        """Whether the job's whole group is compiled."""
        return bool(self.job.group) and not self.apart

    @property
    def cacheable(self) -> bool:
        """Whether the image may be cached."""
        return self.job.cacheable and not self.apart


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Identify:
    """A request for the tools of a worker.

    Attributes:
        languages: languages of the tools.
        sources: (language, source) of sources that read files of tools.
    """

    languages: tuple[str, ...]
    sources: tuple[tuple[str, Source], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """The state of a worker that affects its outputs.

    Attributes:
        own: digest of tilec's own code.
        tools: tools by language.
        lacking: reasons of missing tools by language.
        parts: digests of tools' files that sources read, by name (`<toolkit>/…`).
        versions: versions of Python and packages by name, set by the owner of the worker process.
    """

    own: str
    tools: Mapping[str, tuple[ToolInfo, ...]]
    lacking: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)


Request = Declare | Compile | Identify
Result = Done | tuple[KernelDecl, ...] | Identity | TilecError


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """The answer to one request.

    Attributes:
        result: its result.
        notes: texts for the user.
        printed: the worker's output; empty after a success.
        lost: whether the worker died, or was killed at a time limit. The task's later requests
            then do not run.
    """

    result: Result
    notes: tuple[str, ...] = ()
    printed: str = ""
    lost: bool = False


def main() -> None:
    """Serve requests until the build that started this process ends."""
    channel, inbox = connect()
    setup = pickle.loads(inbox.get())  # noqa: S301 - from the build that started this process
    worker = Worker(setup)
    channel.send(Ready())
    while True:
        request = pickle.loads(inbox.get())  # noqa: S301
        reply = worker.answer(request)
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            channel.send(reply)
        except Exception as exc:  # noqa: BLE001 - pickling may run code of other packages
            channel.send(_unsendable(reply, request, exc))


class Worker:
    """Frontends with their compilers imported, and the cache."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._notes: list[str] = []
        root = Path(setup.cache_root) if setup.cache_root else None
        self._cache = Cache(root, note=self._notes.append)
        self._frontends: dict[str, Frontend] = {}

    def answer(self, request: Request) -> Reply:
        """Run a request; any exception becomes its result."""
        self._notes.clear()
        result: Result
        try:
            if isinstance(request, Compile):
                result = self._find_or_compile(request)
            elif isinstance(request, Identify):
                result = self._identify(request)
            else:
                result = self._declare(request)
        except TilecError as exc:
            result = exc
        except BaseException as exc:  # noqa: BLE001 - SystemExit and KeyboardInterrupt of user code
            result = _bug(request, f"{type(exc).__name__}: {exc}", traceback.format_exc())
        return Reply(result=result, notes=tuple(self._notes))

    def _declare(self, request: Declare) -> tuple[KernelDecl, ...]:
        declared = tuple(self._frontend(request.language).declare(request.source))
        for decl in declared:
            if not isinstance(decl, KernelDecl):
                raise TypeError(f"declare gave a {type(decl).__name__} where a KernelDecl was due")
        return declared

    def _identify(self, request: Identify) -> Identity:
        tools: dict[str, tuple[ToolInfo, ...]] = {}
        lacking: dict[str, str] = {}
        for language in request.languages:
            try:
                tools[language] = tuple(self._frontend(language).toolchain())
            except TilecError as exc:
                lacking[language] = exc.what
        parts = {
            file.name: file.digest
            for language, source in request.sources
            if language in tools
            for file in self._frontend(language).inputs(source)
            if file.name.startswith("<")
        }
        return Identity(
            own=own.digest(),
            tools=tools,
            lacking=lacking,
            parts=parts,
        )

    def _find_or_compile(self, request: Compile) -> Done:
        if not request.fresh and request.job.cacheable:
            # Another build may have compiled the job since this build's look-up.
            entry = self._cache.get(request.key)
            if entry is not None:
                return entry
        return self._compile(request)

    def _compile(self, request: Compile) -> Done:
        job = request.job
        frontend = self._frontend(job.spec.language)
        start = time.perf_counter()
        image = frontend.compile(dataclasses.replace(job, group=()) if request.apart else job)
        seconds = time.perf_counter() - start
        check_image(image)
        if inputs_digest(frontend.inputs(job.spec.source)) != request.inputs:
            raise changed(job)
        row = index_row(request.key, image)
        spool = Path(self._setup.spool)
        return Done(
            row=sha256(row),
            info=image.info,
            abi=image.abi,
            warnings=image.warnings,
            blob=stored_image(request, image, row, cache=self._cache, spool=spool),
            cached=False,
            seconds=seconds,
        )

    def _frontend(self, language: str) -> Frontend:
        if language not in self._frontends:
            where = self._setup.frontends.get(language, "")
            self._frontends[language] = load_frontend(where, language)(self._setup.search)
        return self._frontends[language]


def stored_image(request: Compile, image: Image, row: bytes, *, cache: Cache, spool: Path) -> Blob:
    """Write an image with its index row to the cache, or else to the spool directory.

    Raises:
        OutputError: the image can be written to neither.
    """
    blob = cache.put(request.key, image, row) if request.cacheable else None
    if blob is not None:
        return blob
    path = spool / f"{request.key}.image"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image.data)
    except OSError as exc:
        raise OutputError(
            "a compiled image could be written neither to the cache nor to "
            f"{path.parent}: {exc.strerror}",
            cause="the disk is full, or the directory cannot be written",
            fix="make room, or set another cache and output directory",
        ) from exc
    return Blob(path=str(path), offset=0, size=len(image.data), digest=image.info.digest)


def check_image(image: object) -> None:
    """Refuse a frontend's image whose bytes differ from its declared size or digest."""
    if not isinstance(image, Image):
        raise TypeError(f"compile gave a {type(image).__name__} where an Image was due")
    digest = hashlib.sha256(image.data).hexdigest()
    if (len(image.data), digest) != (image.info.size, image.info.digest):
        raise ValueError("size or digest in ImageInfo are not those of the image's bytes")


def changed(job: Job) -> CompileError:
    """Return the error for files that changed during compilation."""
    path = job.spec.source.path
    message = (
        f"{path}, or a file that it includes, imports or reads, was changed while it was compiled"
    )
    problem = Diagnostic(message=message, location=Location(file=path))
    return CompileError(
        message,
        diagnostics=(problem,),
        fix="build again",
        kernel=job.variant.id,
        target=str(job.target),
    )


def _bug(request: Request, event: str, log: str) -> CompileError:
    if isinstance(request, Compile):
        job = request.job
        return CompileError(
            f"{job.id}: the {job.spec.language} frontend failed: {event}",
            log=log,
            fix=_BUG,
            kernel=job.variant.id,
            target=str(job.target),
        )
    if isinstance(request, Identify):
        return CompileError(f"tools cannot be looked at: {event}", log=log, fix=_BUG)
    return CompileError(
        f"{request.source.path}: the {request.language} frontend failed to read it: {event}",
        log=log,
        fix=_BUG,
    )


def _unsendable(reply: Reply, request: Request, exc: Exception) -> Reply:
    """Return the replacement for a reply that cannot be pickled.

    It keeps the text of an error.
    """
    is_error = isinstance(reply.result, TilecError)
    message = str(reply.result) if is_error else f"its result cannot be sent: {exc}"
    log = "".join(traceback.format_exception(exc))
    return Reply(result=_bug(request, message, log), notes=reply.notes)


if __name__ == "__main__":
    main()
