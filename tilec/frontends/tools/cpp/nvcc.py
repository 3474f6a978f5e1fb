"""Run nvcc, for code that needs host headers and for CUDA Tile C++."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from tilec.frontends.tools import ptx as ptx_text
from tilec.frontends.tools.cpp.diagnostics import MARK_FILE
from tilec.frontends.tools.cpp.nvrtc import HERE, Program
from tilec.frontends.tools.cpp.options import unspeakable
from tilec.frontends.tools.digests import file_sha256
from tilec.frontends.tools.run import run_tool
from tilec.model.job import InputFile
from tilec_runtime.errors import ToolchainError, UsageError

_MARK = "tilec_entry"
_STEM = "tilec_entry"
_NEXT = r"(?:,|\s*\n\s*\.b8\s+)"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class NvccResult:
    """Output of nvcc; `data` is empty if it failed.

    Attributes:
        data: the output file.
        log: output of nvcc.
        command: command line of nvcc.
        folder: directory of the temporary source; the output may contain its name.
        timed_out: whether nvcc exceeded its time limit.
    """

    data: bytes
    log: str
    command: str
    folder: str
    timed_out: bool = False


def host_parts(path: str, state_dir: str) -> list[InputFile]:
    """Return the host compiler as inputs: the gcc driver, and the cc1plus that it starts.

    Raises:
        ToolchainError: no gcc is on PATH.
    """
    driver = _host_compiler(path)
    parts = [InputFile(name="<host>/gcc", digest=file_sha256(Path(driver).resolve(), state_dir))]
    proper = Path(_proper_compiler(driver, path))
    if proper.is_absolute() and proper.is_file():
        parts.append(
            InputFile(name="<host>/cc1plus", digest=file_sha256(proper.resolve(), state_dir))
        )
    return parts


@functools.lru_cache(maxsize=4)
def _proper_compiler(driver: str, path: str) -> str:
    command = [driver, "-print-prog-name=cc1plus"]
    return run_tool(command, timeout=20, env={"PATH": path}).stdout.strip()


def compile_ptx(
    nvcc: str,
    source: bytes,
    name: str,
    expression: str,
    *,
    root: str,
    arch: str,
    arguments: Sequence[str],
    path: str,
    timeout: float,
) -> tuple[Program, str]:
    """Compile a source to PTX; return the result and the command.

    Args:
        nvcc: the compiler.
        source: the source's bytes.
        name: its name relative to `root`, for messages and `__FILE__`.
        expression: C++ name of the kernel's instance; empty to instantiate nothing.
        root: the project's directory; nvcc runs there.
        arch: virtual architecture (`compute_90`).
        arguments: dialect, include directories, defines and flags.
        path: PATH for the host compiler.
        timeout: seconds.

    Raises:
        ToolchainError: there is no host compiler, or nvcc cannot be started.
    """
    flags = ["-ptx", f"-arch={arch}", "-frandom-seed=tilec", *arguments]
    # The variable makes nvcc instantiate the kernel, and its value is the mangled name.
    anchor = f'extern "C" __device__ void* {_MARK} = (void*)&{expression};' if expression else ""
    done = run_nvcc(nvcc, source, name, anchor, flags, root=root, path=path, timeout=timeout)
    text = _without_path_hash(done.data.decode("utf-8", "surrogateescape"), name)
    symbol, text = ptx_text.take_mark(text, _MARK)
    program = Program(
        ok=bool(text),
        ptx=text,
        lowered={expression: symbol} if expression else {},
        log=done.log,
        timed_out=done.timed_out,
    )
    return program, done.command


def run_nvcc(
    nvcc: str,
    source: bytes,
    name: str,
    anchor: str,
    flags: Sequence[str],
    *,
    root: str,
    path: str,
    timeout: float,
) -> NvccResult:
    """Compile a copy of a source with the line `anchor` appended.

    Raises:
        ToolchainError: there is no host compiler, or nvcc cannot be started.
        UsageError: a directory's name has a character that is special to nvcc.
    """
    _host_compiler(path)
    head = name.replace("\\", "\\\\").replace('"', '\\"')
    text = f'#line 1 "{head}"\n'.encode() + source + f'\n#line 1 "{MARK_FILE}"\n{anchor}\n'.encode()
    # NVRTC searches the source's directory for headers; nvcc would search the copy's.
    flags = [*flags, f"-I{_nameable(str(PurePosixPath(name).parent))}"]
    # After a timeout, parts of nvcc may write to the directory until their worker ends.
    with tempfile.TemporaryDirectory(
        prefix="tilec-nvcc-", dir=_nameable(tempfile.gettempdir()), ignore_cleanup_errors=True
    ) as folder:
        entry, out = Path(folder, f"{_STEM}.cu"), Path(folder, "entry.out")
        entry.write_bytes(text)
        env = {"PATH": path, "TMPDIR": folder, **({"PWD": HERE} if "-G" in flags else {})}
        argv = [nvcc, *flags, "-o", str(out), str(entry)]
        done = run_tool(argv, timeout=timeout, cwd=root, env=env)
        data = out.read_bytes() if done.rc == 0 and out.is_file() else b""
        log = (done.stderr + done.stdout).replace(str(entry), name)
    command = shlex.join(["nvcc", *flags, name])
    return NvccResult(data=data, log=log, command=command, folder=folder, timed_out=done.timed_out)


def _host_compiler(path: str) -> str:
    compiler = shutil.which("gcc", path=path)
    if compiler is None:
        raise ToolchainError(
            "nvcc needs a host compiler: gcc not found on PATH",
            cause=f"PATH is {path or 'empty'}",
            fix='install gcc and g++; CUDA C++ that is not of tiles can use compiler = "nvrtc", which needs none',
        )
    return compiler


def _nameable(folder: str) -> str:
    if character := unspeakable(folder):
        message = f"{folder} has {character!r} in its name, which nvcc hands to a shell or takes for two names"
        raise UsageError(message, fix="rename the directory")
    return folder


def _without_path_hash(text: str, name: str) -> str:
    """Replace the hash of the temporary file's path in PTX by a hash of the source's name.

    nvcc puts it into file-local names, both in symbols and as bytes in debug sections.
    """
    fixed = hashlib.sha256(name.encode()).hexdigest()[:8]
    tail = f"_{len(_STEM) + 3}_{_STEM}_cu_"
    local = re.compile(rf"(_(?:INTERNAL|GLOBAL__N)__?)([0-9a-f]{{8}})({tail})")
    in_bytes = re.compile(rf"((?:\d+{_NEXT}){{8}}){_NEXT.join(str(b) for b in tail.encode())}")

    def replace(match: re.Match[str]) -> str:
        codes = iter(fixed.encode())
        head = re.sub(
            r"\d+(?=,|\s)", lambda _: str(next(codes)), re.sub(r"\.b8", ".b:", match[1])
        ).replace(".b:", ".b8")
        return head + match.group()[len(match[1]) :]

    return in_bytes.sub(replace, local.sub(lambda m: f"{m[1]}{fixed}{m[3]}", text))
