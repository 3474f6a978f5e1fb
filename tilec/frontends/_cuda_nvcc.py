"""Compiles through nvcc, for code that needs host headers: PTX comes out, with the name of the instance that was asked for."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from tilec.errors import ToolchainError
from tilec.frontends import _ptx
from tilec.frontends._cuda_diagnostics import MARK_FILE
from tilec.frontends._digests import DigestTable
from tilec.frontends._run import command_line, run_tool
from tilec.model.job import InputFile

_MARK = "tilec_entry"
_FILE = "tilec_entry.cu"
# nvcc puts a hash of the input's absolute path into the names of what is local to a file: in symbols, and as bytes in debug sections.
_TAIL = "_14_tilec_entry_cu_"
_LOCAL = re.compile(rf"(_(?:INTERNAL|GLOBAL__N)__?)([0-9a-f]{{8}})({_TAIL})")
_NEXT = r"(?:,|\s*\n\s*\.b8\s+)"
_LOCAL_BYTES = re.compile(rf"((?:\d+{_NEXT}){{8}}){_NEXT.join(str(b) for b in _TAIL.encode())}")


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


def host_parts(path: str, table: DigestTable) -> list[InputFile]:
    """The host compiler as inputs of a compile: the driver, and the compiler proper that it starts, which may be renewed alone.

    Raises:
        ToolchainError: there is none.
    """
    driver = Path(host_compiler(path))
    parts = [InputFile(name="<host>/gcc", digest=table.sha256(driver.resolve()))]

    def ask() -> str:
        return run_tool([str(driver), "-print-prog-name=cc1plus"], timeout=20, env={"PATH": path}).stdout.strip()

    proper = Path(table.fact("cc1plus", driver.resolve(), ask))
    if proper.is_absolute() and proper.is_file():  # else it is not installed, which nvcc says, or the driver does everything itself
        parts.append(InputFile(name="<host>/cc1plus", digest=table.sha256(proper.resolve())))
    return parts


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
        entry, out = Path(folder, _FILE), Path(folder, "entry.ptx")
        entry.write_bytes(f'#line 1 "{_escaped(name)}"\n'.encode() + source + mark.encode())
        done = run_tool([nvcc, *flags, "-o", str(out), str(entry)], timeout=timeout, cwd=root, env={"PATH": path, "TMPDIR": folder})
        text = out.read_text(encoding="utf-8", errors="surrogateescape") if done.rc == 0 and out.is_file() else ""
        log = (done.stderr + done.stdout).replace(str(entry), name)
    symbol, text = _ptx.take_mark(_without_path_hash(text, name), _MARK) if text else ("", "")
    return NvccResult(text=text, symbol=symbol, log=log, command=command_line(["nvcc", *flags, name]), timed_out=done.timed_out)


def _without_path_hash(text: str, name: str) -> str:
    """The PTX with the hash of the temporary file's path replaced by one of the source's name."""
    fixed = hashlib.sha256(name.encode()).hexdigest()[:8]

    def replace(match: re.Match[str]) -> str:
        codes = iter(fixed.encode())
        head = re.sub(r"\d+(?=,|\s)", lambda _: str(next(codes)), re.sub(r"\.b8", ".b:", match[1])).replace(".b:", ".b8")
        return head + match.group()[len(match[1]) :]

    return _LOCAL_BYTES.sub(replace, _LOCAL.sub(lambda m: f"{m[1]}{fixed}{m[3]}", text))


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')
