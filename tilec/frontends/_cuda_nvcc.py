"""Compiles through nvcc, for code that needs host headers: PTX comes out, with the name of the instance that was asked for."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from tilec.errors import ToolchainError
from tilec.frontends import _ptx
from tilec.frontends._cuda_diagnostics import MARK_FILE
from tilec.frontends._run import command_line, run_tool

_MARK = "tilec_entry"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class NvccResult:
    """What nvcc made: PTX (empty where it failed), the entry's symbol, its words, and the command."""

    text: str
    symbol: str
    log: str
    command: str
    timed_out: bool = False


def host_compiler(path: str) -> str:
    """The host compiler that nvcc uses, from PATH.

    Raises:
        ToolchainError: there is none.
    """
    found = shutil.which("gcc", path=path)
    if found is None:
        raise ToolchainError(
            "nvcc needs a host compiler: gcc not found on PATH",
            cause=f"PATH is {path or 'empty'}",
            fix='install gcc and g++, or use compiler = "nvrtc", which needs none',
        )
    return found


def compile_ptx(
    nvcc: str, source: bytes, name: str, expression: str, *, root: str, arch: str, arguments: Sequence[str], path: str, timeout: float
) -> NvccResult:
    """Compile a source to PTX.

    Args:
        nvcc: the compiler.
        source: the source's bytes.
        name: its name relative to `root`, for messages and `__FILE__`.
        expression: C++ name of the kernel's instance.
        root: the project's directory; the compiler runs there.
        arch: virtual architecture (`compute_90`).
        arguments: dialect, include directories, defines and flags.
        path: PATH for the host compiler.
        timeout: seconds.

    Raises:
        ToolchainError: there is no host compiler, or nvcc cannot be started.
    """
    host_compiler(path)
    # NVRTC looks for headers beside the source as well; here the source lies in another directory.
    beside = str(PurePosixPath(name).parent)
    flags = ["-ptx", f"-arch={arch}", "-frandom-seed=tilec", *arguments, f"-I{beside}"]
    # A variable that holds the kernel's address makes the compiler instantiate it, and says its mangled name.
    mark = f'\n#line 1 "{MARK_FILE}"\nextern "C" __device__ void* {_MARK} = (void*)&{expression};\n'
    with tempfile.TemporaryDirectory(prefix="tilec-nvcc-") as folder:
        entry, out = Path(folder, "entry.cu"), Path(folder, "entry.ptx")
        entry.write_bytes(f'#line 1 "{_escaped(name)}"\n'.encode() + source + mark.encode())
        done = run_tool([nvcc, *flags, "-o", str(out), str(entry)], timeout=timeout, cwd=root, env={"PATH": path, "TMPDIR": folder})
        text = out.read_text(encoding="utf-8", errors="surrogateescape") if done.rc == 0 and out.is_file() else ""
        log = (done.stderr + done.stdout).replace(str(entry), name)
    symbol, text = _ptx.take_mark(text, _MARK) if text else ("", "")
    return NvccResult(text=text, symbol=symbol, log=log, command=command_line(["nvcc", *flags, name]), timed_out=done.timed_out)


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')
