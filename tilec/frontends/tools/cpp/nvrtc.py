"""A thin binding of NVRTC's stable C interface, which compiles in this process."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import errno
import functools
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from tilec.frontends.tools.environment import variables_hidden
from tilec.frontends.tools.search import Tool
from tilec_runtime.errors import ToolchainError

_CANCEL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_CWD = threading.Lock()
_CANCELLED = 14
# A name of the working directory that is the same in every process. With the real name, images
# would depend on the build machine.
HERE = "/proc/self/cwd"
# The first file descriptor of `_numbered`: below every limit, above those usually in use.
_FIRST = 240


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """Result of a compilation with NVRTC.

    Attributes:
        ok: whether it compiled.
        ptx: PTX text, unless LTO-IR was requested.
        ltoir: LTO-IR, if requested.
        lowered: mangled name by name expression.
        log: the compiler's log.
        result: NVRTC's error name after a failure, such as `NVRTC_ERROR_COMPILATION`.
        timed_out: whether it was cancelled at its time limit.
    """

    ok: bool
    ptx: str = ""
    ltoir: bytes = b""
    lowered: dict[str, str] = dataclasses.field(default_factory=dict)
    log: str = ""
    result: str = ""
    timed_out: bool = False


class Nvrtc:
    """NVRTC, loaded once per process."""

    def __init__(self, library: str, builtins: str) -> None:
        """Load the library.

        Raises:
            ToolchainError: it cannot be loaded.
        """
        try:
            # NVRTC opens its builtins by name: loaded before, they do not depend on a search path.
            self._builtins = ctypes.CDLL(builtins, mode=ctypes.RTLD_GLOBAL)
            self._lib = ctypes.CDLL(library)
            self._lib.nvrtcGetErrorString.restype = ctypes.c_char_p
            # All arguments are opaque handles or pointers.
            for name in (
                "GetPTX",
                "GetPTXSize",
                "GetLTOIR",
                "GetLTOIRSize",
                "GetProgramLog",
                "GetProgramLogSize",
            ):
                getattr(self._lib, f"nvrtc{name}").argtypes = [ctypes.c_void_p, ctypes.c_void_p]
            self._lib.nvrtcAddNameExpression.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
            self._lib.nvrtcCompileProgram.argtypes = [
                ctypes.c_void_p,
                ctypes.c_int,
                ctypes.c_void_p,
            ]
        except (OSError, AttributeError) as exc:
            raise ToolchainError(
                f"NVRTC cannot be loaded: {exc}",
                cause="the wheel is damaged or made for another system",
                fix="pip install --force-reinstall 'tilec[build]'",
            ) from exc

    def compile(
        self,
        source: bytes,
        name: str,
        options: Sequence[str],
        *,
        names: Sequence[str],
        timeout: float,
        lto: bool = False,
    ) -> Program:
        """Compile `source` under the file name `name`.

        Args:
            source: CUDA C++ text; must not hold a zero byte.
            name: file name for messages, `__FILE__` and line information.
            options: NVRTC's options, with a virtual architecture.
            names: name expressions to lower (`ns::k<float, 4>`).
            timeout: seconds after which to cancel the compilation.
            lto: whether the options request LTO-IR; NVRTC then makes no PTX.
        """
        lib = self._lib
        program = ctypes.c_void_p()
        self._check(
            lib.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), 0, None, None)
        )
        try:
            expressions = {n: n.encode() for n in names}
            for encoded in expressions.values():
                self._check(lib.nvrtcAddNameExpression(program, encoded))
            deadline = time.monotonic() + timeout
            guard = _CANCEL(lambda _payload, _reserved: int(time.monotonic() > deadline))
            self._check(lib.nvrtcSetFlowCallback(program, guard, None))
            argv = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
            rc = lib.nvrtcCompileProgram(program, len(options), argv)
            log = (
                self._read(program, "ProgramLog")
                .replace(b"\0", b"")
                .decode("utf-8", "replace")
                .strip("\n")
            )
            if rc:
                return Program(
                    ok=False,
                    log=log,
                    result=self._name(rc),
                    timed_out=rc == _CANCELLED or time.monotonic() > deadline,
                )
            if lto:
                return Program(
                    ok=True,
                    ltoir=self._read(program, "LTOIR"),
                    lowered=self._lowered(program, expressions),
                    log=log,
                )
            text = self._read(program, "PTX").rstrip(b"\0").decode("utf-8", "surrogateescape")
            return Program(ok=True, ptx=text, lowered=self._lowered(program, expressions), log=log)
        finally:
            lib.nvrtcDestroyProgram(ctypes.byref(program))

    def _lowered(self, program: ctypes.c_void_p, expressions: dict[str, bytes]) -> dict[str, str]:
        lowered = {}
        for name, encoded in expressions.items():
            text = ctypes.c_char_p()
            self._check(self._lib.nvrtcGetLoweredName(program, encoded, ctypes.byref(text)))
            lowered[name] = (text.value or b"").decode()
        return lowered

    def _read(self, program: ctypes.c_void_p, noun: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._lib, f"nvrtcGet{noun}Size")(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(max(1, size.value))
        self._check(getattr(self._lib, f"nvrtcGet{noun}")(program, buffer))
        return buffer.raw[: size.value]

    def _name(self, rc: int) -> str:
        return bytes(self._lib.nvrtcGetErrorString(rc) or b"").decode()

    def _check(self, rc: int) -> None:
        if rc:
            raise ToolchainError(
                f"NVRTC failed with {self._name(rc)}",
                fix="see that memory is not short; otherwise reinstall the toolkit wheels",
            )


@functools.lru_cache(maxsize=2)
def _load(library: str, builtins: str) -> Nvrtc:
    """Return NVRTC of these paths, loaded once: loading takes 20 ms.

    Raises:
        ToolchainError: it cannot be loaded.
    """
    return Nvrtc(library, builtins)


def compile_source(
    tools: Mapping[str, Tool],
    source: bytes,
    name: str,
    options: Sequence[str],
    *,
    root: str,
    include: Sequence[str] = (),
    names: Sequence[str] = (),
    timeout: float,
    lto: bool,
    portable: bool = False,
    unnamed: bool = False,
) -> Program:
    """Compile a project's source.

    Args:
        tools: NVRTC, its builtins and the toolkit's headers, by name.
        source: CUDA C++ text.
        name: its name, relative to `root`.
        options: NVRTC's options, without include directories.
        root: the project's directory.
        include: include directories, relative to `root`.
        names: name expressions to lower.
        timeout: seconds after which to cancel the compilation.
        lto: whether the options request LTO-IR.
        portable: whether the LTO-IR must not depend on the directories of this machine.
        unnamed: whether debug information names the debugger's working directory, not this one.

    Raises:
        ToolchainError: NVRTC cannot be used; for `portable`, a file descriptor is in use.
    """
    library = _load(tools["libnvrtc"].path, tools["libnvrtc-builtins"].path)
    headers = tools["headers"].path
    if portable:
        # LTO-IR names the working directory and the headers that it has code of.
        own = str(PurePosixPath(name).parent)
        with _inside("/"), _numbered((root, headers)) as (project, toolkit):
            folders = [*(f"{project}/{folder}" for folder in (own, *include)), toolkit]
            arguments = [*options, *_included(folders, toolkit)]
            program = library.compile(
                source, name, arguments, names=names, timeout=timeout, lto=lto
            )
        return dataclasses.replace(
            program, log=program.log.replace(f"{project}/", "").replace(toolkit, headers)
        )
    arguments = [*options, *_included((*include, headers), headers)]
    # Compilers of this process read the name of the working directory from PWD.
    hidden = variables_hidden(("PWD",), PWD=HERE) if unnamed else contextlib.nullcontext()
    with _inside(root), hidden:
        return library.compile(source, name, arguments, names=names, timeout=timeout, lto=lto)


def _included(folders: Sequence[str], toolkit: str) -> list[str]:
    return [f"-I{folder}" for folder in (*folders, f"{toolkit}/cccl")]


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    """Change to a directory in a `with`, to give compilers relative names."""
    with _CWD:
        try:
            before = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            before = -1
        os.chdir(folder)
        try:
            yield
        finally:
            if before >= 0:
                os.fchdir(before)
                os.close(before)


@contextlib.contextmanager
def _numbered(folders: Sequence[str]) -> Iterator[list[str]]:
    """Yield names of directories by fixed file descriptors, the same on every machine.

    The caller must hold the lock of `_inside`.
    """
    held: list[int] = []
    try:
        for number, folder in enumerate(folders, _FIRST):
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                if os.path.lexists(f"/proc/self/fd/{number}"):
                    raise OSError(errno.EMFILE, f"file {number} of this process is in use")
                held.append(os.dup2(opened, number, inheritable=False))
            finally:
                os.close(opened)
        yield [f"/proc/self/fd/{number}" for number in held]
    except OSError as exc:
        raise ToolchainError(
            f"LTO-IR cannot be compiled: {exc}",
            fix="build with fewer open files, or for other targets",
        ) from exc
    finally:
        for number in held:
            os.close(number)
