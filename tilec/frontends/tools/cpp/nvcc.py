"""Compiles through nvcc, for code that needs host headers: PTX comes out, with the name of the
instance that was asked for.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from tilec.frontends.tools import ptx as ptx_text
from tilec.frontends.tools.cpp.diagnostics import MARK_FILE
from tilec.frontends.tools.cpp.nvrtc import HERE
from tilec.frontends.tools.cpp.options import unspeakable
from tilec.frontends.tools.digests import DigestTable
from tilec.frontends.tools.run import command_line, run_tool
from tilec.model.job import InputFile
from tilec_runtime.errors import ToolchainError, UsageError

_MARK = "tilec_entry"
_PATH_LENGTH = 200
_STEM = "tilec_entry"
_NEXT = r"(?:,|\s*\n\s*\.b8\s+)"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class NvccResult:
    """What nvcc made: PTX or LTO-IR (both empty where it failed), the entry's symbol where there is
    PTX, its words, and the command.
    """

    text: str = ""
    ltoir: bytes = b""
    symbol: str = ""
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
            fix='install gcc and g++; CUDA C++ that is not of tiles can use compiler = "nvrtc", which needs none',
        )
    return found


def host_parts(path: str, table: DigestTable) -> list[InputFile]:
    """The host compiler as inputs of a compile: the driver, and the compiler proper that it starts,
    which may be renewed alone.

    Raises:
        ToolchainError: there is none.
    """
    driver = Path(host_compiler(path))
    parts = [InputFile(name="<host>/gcc", digest=table.sha256(driver.resolve()))]

    def ask() -> str:
        return run_tool(
            [str(driver), "-print-prog-name=cc1plus"], timeout=20, env={"PATH": path}
        ).stdout.strip()

    proper = Path(table.fact("cc1plus", driver.resolve(), ask))
    if (
        proper.is_absolute() and proper.is_file()
    ):  # else it is not installed, which nvcc says, or the driver does everything itself
        parts.append(InputFile(name="<host>/cc1plus", digest=table.sha256(proper.resolve())))
    return parts


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
    flags = ["-ptx", f"-arch={arch}", *arguments]
    data, done = _run(
        nvcc,
        _marked(source, name, expression),
        name,
        _STEM,
        flags,
        root=root,
        path=path,
        timeout=timeout,
    )
    symbol, text = (
        settle(data.decode("utf-8", "surrogateescape"), {_STEM: name}) if data else ("", "")
    )
    return dataclasses.replace(done, text=text, symbol=symbol)


def compile_ltoir(
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
) -> NvccResult:
    """Compile a source to LTO-IR; an empty `expression` for one of device functions. The PTX that
    is linked of it is for `settle`.

    Raises:
        ToolchainError: there is no host compiler, or nvcc cannot be started.
    """
    flags = [
        "-ltoir",
        "-rdc=true",
        "-gencode",
        f"arch={arch},code={arch.replace('compute', 'lto')}",
        *arguments,
    ]
    data, done = _run(
        nvcc,
        _marked(source, name, expression),
        name,
        _stem(name, expression),
        flags,
        root=root,
        path=path,
        timeout=timeout,
    )
    return dataclasses.replace(done, ltoir=data)


def beside(name: str) -> str:
    """Return the flag by which nvcc finds headers beside a source.

    Raises:
        UsageError: the directory's name has a character that nvcc cannot be given.
    """
    folder = str(PurePosixPath(name).parent)
    if character := unspeakable(folder):
        what = f"{name}: its directory has {character!r} in its name, which nvcc hands to a shell or takes for two names"
        raise UsageError(what, fix="rename the directory")
    return f"-I{folder}"


def temporary_folder() -> str:
    """Return the directory of temporary files, which lies in the project while it is built.

    Raises:
        UsageError: its name has a character that nvcc cannot be given.
    """
    folder = tempfile.gettempdir()
    if character := unspeakable(folder):
        what = f"{folder} has {character!r} in its name, which nvcc hands to a shell or takes for two names"
        raise UsageError(what, fix="rename the project's directory")
    return folder


def stems(name: str, linked: Sequence[str]) -> dict[str, str]:
    """The names that temporary files had in nvcc's hands, with those of the files that they stand
    for: a kernel's and its linked ones.
    """
    return {_STEM: name, **{_stem(other, ""): other for other in linked}}


def settle(text: str, files: Mapping[str, str]) -> tuple[str, str]:
    """(symbol of the marked entry, text without the mark and without hashes of temporary files'
    paths).
    """
    for stem, name in files.items():
        text = _without_path_hash(text, stem, name)
    return ptx_text.take_mark(text, _MARK)


def _stem(name: str, expression: str) -> str:
    # Linked files need names of their own: what is local to each is told apart by them.
    return _STEM if expression else f"tilec_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _marked(source: bytes, name: str, expression: str) -> bytes:
    # A variable that holds the kernel's address makes the compiler instantiate it, and says its
    # mangled name.
    mark = (
        f'\n#line 1 "{MARK_FILE}"\nextern "C" __device__ void* {_MARK} = (void*)&{expression};\n'
        if expression
        else ""
    )
    return f'#line 1 "{_escaped(name)}"\n'.encode() + source + mark.encode()


def _run(
    nvcc: str,
    text: bytes,
    name: str,
    stem: str,
    flags: Sequence[str],
    *,
    root: str,
    path: str,
    timeout: float,
) -> tuple[bytes, NvccResult]:
    host_compiler(path)
    # NVRTC looks for headers beside the source as well; here the source lies in another directory.
    flags = [*flags[:2], "-frandom-seed=tilec", *flags[2:], beside(name)]
    debug = "-G" in flags
    # At the time limit, parts of nvcc may write there until their worker ends.
    prefix = _prefix(name) if debug else "tilec-nvcc-"
    with tempfile.TemporaryDirectory(
        prefix=prefix, dir=temporary_folder(), ignore_cleanup_errors=True
    ) as folder:
        entry, out = Path(folder, f"{stem}.cu"), Path(folder, "entry.out")
        entry.write_bytes(text)
        env = {"PATH": path, "TMPDIR": folder, **({"PWD": HERE} if debug else {})}
        done = run_tool(
            [nvcc, *flags, "-o", str(out), str(entry)], timeout=timeout, cwd=root, env=env
        )
        data = out.read_bytes() if done.rc == 0 and out.is_file() else b""
        if debug:
            data = _renamed(data, str(entry), f"{HERE}{name:/>{len(str(entry)) - len(HERE)}}")
        log = (done.stderr + done.stdout).replace(str(entry), name)
    return data, NvccResult(
        log=log, command=command_line(["nvcc", *flags, name]), timed_out=done.timed_out
    )


def _prefix(name: str) -> str:
    """Begin a temporary directory's name so that paths in it are of one length, wherever it lies,
    and longer than a source's.

    Debug information names the file that was compiled, and places in it are counted: another name
    has to have that length.
    """
    wanted = max(_PATH_LENGTH, len(HERE) + len(name) + 1)
    return "tilec-nvcc-".ljust(
        wanted - len(tempfile.gettempdir()) - len(f"/12345678/{_STEM}.cu"), "-"
    )


def _renamed(ptx: bytes, old: str, new: str) -> bytes:
    """The PTX with another name, of the same length, in its debug sections, which hold texts as
    numbers.
    """
    found = re.compile(_NEXT.join(str(code) for code in old.encode()).encode())
    return found.sub(",".join(str(code) for code in new.encode()).encode(), ptx)


def _without_path_hash(text: str, stem: str, name: str) -> str:
    """The PTX with the hash of a temporary file's path replaced by one of the source's name.

    nvcc puts a hash of the input's absolute path into the names of what is local to a file: in
    symbols, and as bytes in debug sections.
    """
    fixed = hashlib.sha256(name.encode()).hexdigest()[:8]
    tail = f"_{len(stem) + 3}_{stem}_cu_"
    local = re.compile(rf"(_(?:INTERNAL|GLOBAL__N)__?)([0-9a-f]{{8}})({tail})")
    in_bytes = re.compile(rf"((?:\d+{_NEXT}){{8}}){_NEXT.join(str(b) for b in tail.encode())}")

    def replace(match: re.Match[str]) -> str:
        codes = iter(fixed.encode())
        head = re.sub(
            r"\d+(?=,|\s)", lambda _: str(next(codes)), re.sub(r"\.b8", ".b:", match[1])
        ).replace(".b:", ".b8")
        return head + match.group()[len(match[1]) :]

    return in_bytes.sub(replace, local.sub(lambda m: f"{m[1]}{fixed}{m[3]}", text))


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')
