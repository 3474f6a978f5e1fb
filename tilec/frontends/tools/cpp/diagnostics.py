"""Read the logs of NVRTC, nvcc, gcc and ptxas into diagnostics with location and hint."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tilec.frontends.tools.cpp.host import device_header, is_host_header
from tilec.frontends.tools.cpp.includes import condition
from tilec.frontends.tools.cpp.symbol import symbol_advice
from tilec.model.declaration import KernelDecl
from tilec_runtime.errors import CompileError, Diagnostic, Location

_EDG = re.compile(
    r"^(?P<file>[^\n(]+)\((?P<line>\d+)\): (?P<severity>catastrophic error|error|warning|remark)(?: #\d+(?:-D)?)?: (?P<text>.*)$"
)
_GCC = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?P<severity>fatal error|error|warning): (?P<text>.*)$"
)
_PTXAS = re.compile(
    r"^\s*ptxas (?:(?P<where>[^\n]*?, line \d+); )?(?P<severity>fatal|error|warning)\s*: (?P<text>.*)$"
)
_NVRTC = re.compile(r"^(?:nvrtc|nvcc)(?: fatal)?\s*: (?:error: )?(?P<text>.*)$")
_CARET = re.compile(r"^[ \t]*\^\s*$")
_NOISE = re.compile(
    r"errors? detected in the compilation|^Remark: The warnings can be|^Compilation terminated|assembly aborted due to errors"
    # nvcc compiles a copy of the source, which may be a header.
    r"|: warning: #pragma once in main file"
)
# -default-device puts every function of the source into images, so drop NVRTC's advice to use it.
_ADVICE = re.compile(r" Consider using -default-device.*?(?: in JIT mode)?$", re.MULTILINE)
# File name of the line that tilec appends to a source for nvcc; NVRTC has its own for name
# expressions. Messages about these files are about the kernel's symbol.
MARK_FILE = "tilec-symbol"
_SYMBOL_FILES = ("__nv_name_map", MARK_FILE)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """The messages of a compiler's log.

    Attributes:
        diagnostics: messages about the user's files.
        symbol: messages about the symbol that the manifest names.
    """

    diagnostics: tuple[Diagnostic, ...]
    symbol: tuple[str, ...] = ()


def read_log(log: str, root: str, *, toolkit: str, fallback: Location) -> Words:
    """Read a compiler's log.

    Args:
        log: the compiler's output.
        root: the project's directory; relative file names start there.
        toolkit: the toolkit's include directory; warnings about its headers are left out.
        fallback: location of messages without one.
    """
    reader = _Reader(root, toolkit, fallback)
    lines = log.split("\n")
    index = 0
    while index < len(lines):
        index = reader.take(lines, index)
    return Words(
        diagnostics=tuple(dict.fromkeys(reader.collected)),
        symbol=tuple(dict.fromkeys(reader.symbol)),
    )


def refusal(
    log: str,
    command: str,
    *,
    root: str,
    source: str,
    toolkit: str,
    target: str,
    decl: KernelDecl,
    expression: str,
    candidates: Sequence[KernelDecl],
) -> CompileError:
    """Return the error for a source that a C++ compiler refuses."""
    words = read_log(log, root, toolkit=toolkit, fallback=decl.location)
    errors = [d for d in words.diagnostics if d.severity == "error"]
    if words.symbol and not errors:
        shown = "; ".join(w for w in words.symbol if "name expression" not in w)
        unseen = re.search(rf'"{re.escape(decl.name)}" is undefined|no member "{decl.name}"', shown)
        around = condition(root, decl.location) if unseen else ""
        if around:
            message = f"the preprocessor leaves {decl.name} out: it is under {around}"
            name = around.split()[1] if around.startswith("#ifdef") else "NAME"
            fix = f'define what that asks for: define = {{ {name} = "1" }} in [frontend.cuda] or the kernel'
            return CompileError(message, fix=fix, log=log, command=command)
        names = [other.qualified or other.name for other in candidates]
        advice = hint(shown) if "is undefined" in shown else ""
        advice = advice or symbol_advice(shown, expression, decl, names)
        message = f"the source has no instance {expression}: {shown}"
        return CompileError(message, fix=advice, log=log, command=command)
    count = "no message that could be read: see its log"
    if errors:
        count = f"{len(errors)} error{'s' if len(errors) != 1 else ''}"
    message = f"{source} does not compile for {target}: {count}"
    return CompileError(message, diagnostics=words.diagnostics, log=log, command=command)


class _Reader:
    def __init__(self, root: str, toolkit: str, fallback: Location) -> None:
        self._root = root
        self._toolkit = os.path.normpath(toolkit)
        self._fallback = fallback
        self.collected: list[Diagnostic] = []
        self.symbol: list[str] = []

    def take(self, lines: list[str], index: int) -> int:
        """Read the message that begins at `index`, and return the index after it."""
        line = lines[index]
        if _NOISE.search(line):
            return index + 1
        match = _EDG.match(line)
        if match:
            return self._edg(match, lines, index)
        match = _GCC.match(line)
        if match:
            name = self._name(match["file"])
            self._add(
                match["text"], name, int(match["line"]), int(match["column"]), match["severity"]
            )
            return index + 1
        match = _PTXAS.match(line)
        if match:
            where = f" ({match['where']})" if match["where"] else ""
            if "Unresolved extern" in line or match["severity"] != "warning":
                self._plain(f"ptxas: {match['text']}{where}")
            return index + 1
        match = _NVRTC.match(line)
        if match:
            self._plain(match["text"])
        return index + 1

    def _edg(self, match: re.Match[str], lines: list[str], index: int) -> int:
        """Read a message of the EDG C++ front end, and return the index after it.

        More lines of text may follow, then the source line, a caret, and notes on instantiation.
        """
        block = []
        index += 1
        while (
            index < len(lines)
            and lines[index].strip()
            and not _EDG.match(lines[index])
            and not _NOISE.search(lines[index])
        ):
            block.append(lines[index])
            index += 1
        caret = next((i for i, line in enumerate(block) if _CARET.match(line)), None)
        shown, column = "", 0
        text = [match["text"]]
        if caret is not None and caret > 0:
            shown, column = block[caret - 1], block[caret].index("^")
            text += [line.strip() for line in (*block[: caret - 1], *block[caret + 1 :])]
        else:
            text += [line.strip() for line in block]
        message = _ADVICE.sub("", "\n".join(t for t in text if t))
        if match["file"].removeprefix("./").endswith(_SYMBOL_FILES):
            self.symbol.append(match["text"])
            return index
        name = self._name(match["file"])
        if match["severity"] in ("warning", "remark") and self._is_toolkit(match["file"]):
            return index
        line = int(match["line"])
        place = self._column(name, line, shown, column)
        self._add(message, name, line, place, match["severity"])
        return index

    def _plain(self, message: str) -> None:
        at = self._fallback
        self._add(message, at.file, at.line, at.column, "error")

    def _add(self, message: str, name: str, line: int, column: int, severity: str) -> None:
        kind = "warning" if severity in ("warning", "remark") else "error"
        excerpt = _source_line(self._root, name, line)
        advice = _BYTE_ORDER_MARK if line == 1 and excerpt.startswith("\ufeff") else hint(message)
        self.collected.append(
            Diagnostic(
                message=message,
                location=Location(file=name, line=line, column=column),
                severity=kind,
                excerpt=excerpt,
                hint=advice,
            )
        )

    def _column(self, name: str, line: int, shown: str, caret: int) -> int:
        """Return the column in the file of a caret, or 0.

        The printed line above the caret is indented, with tabs replaced.
        """
        source = _source_line(self._root, name, line)
        words = shown.strip()
        start = source.find(words) if words else -1
        if start < 0:
            return 0
        inside = caret - (len(shown) - len(shown.lstrip()))
        return start + min(max(0, inside), max(0, len(words))) + 1

    def _is_toolkit(self, file: str) -> bool:
        return os.path.normpath(file).startswith(self._toolkit + "/")

    def _name(self, file: str) -> str:
        """Return a file's name relative to the project or the toolkit, if it lies in one."""
        plain = os.path.normpath(file)
        for base, instead in (
            (os.path.normpath(self._root), ""),
            (os.path.realpath(self._root), ""),
            (self._toolkit, "<cuda>/"),
        ):
            if plain.startswith(base + "/"):
                return instead + plain[len(base) + 1 :]
        return plain


def _source_line(root: str, name: str, line: int) -> str:
    try:
        lines = Path(root, name).read_text(encoding="utf-8", errors="replace").split("\n")
    except (OSError, ValueError):
        return ""
    return lines[line - 1].rstrip("\r") if 0 < line <= len(lines) else ""


# --- hints
# ------------------------------------------------------------------------------------------------------------------------

_HEADERS = {
    "__half": "cuda_fp16.h",
    "half": "cuda_fp16.h",
    "__half2": "cuda_fp16.h",
    "half2": "cuda_fp16.h",
    "__nv_bfloat16": "cuda_bf16.h",
    "nv_bfloat16": "cuda_bf16.h",
    "__nv_bfloat162": "cuda_bf16.h",
    "__nv_fp8_e4m3": "cuda_fp8.h",
    "__nv_fp8_e5m2": "cuda_fp8.h",
    "__nv_fp8_e8m0": "cuda_fp8.h",
    "__nv_fp4x2_e2m1": "cuda_fp4.h",
    "cooperative_groups": "cooperative_groups.h",
    "cg": "cooperative_groups.h",
    "cub": "cub/cub.cuh",
    "nvcuda": "mma.h",
    "assert": "cassert",
    "FLT_MAX": "cuda/std/cfloat",
    "INT_MAX": "cuda/std/climits",
    "INFINITY": "cuda/std/cmath",
    "M_PI": "cuda/std/cmath",
    **{f"{u}int{n}_t": "cuda/std/cstdint" for u in ("", "u") for n in (8, 16, 32, 64)},
}
# Wheels of libraries beside the toolkit's compilers, by the first letters of their headers.
_WHEELS = (
    ("curand", "nvidia-curand"),
    ("cufft", "nvidia-cufft"),
    ("cublas", "nvidia-cublas"),
    ("cusparse", "nvidia-cusparse"),
)
_BYTE_ORDER_MARK = (
    "the file begins with a byte order mark, which no CUDA compiler reads: save it as plain UTF-8"
)
_Advice = Callable[[re.Match[str]], str]
_HINTS: tuple[tuple[re.Pattern[str], _Advice], ...] = (
    (
        re.compile(
            r'(?:identifier|name) "(\w+)" is undefined|name must be a namespace name: "?(\w+)|name followed by "::" must be'
        ),
        lambda m: f"#include <{_HEADERS[m[1] or m[2]]}>" if (m[1] or m[2]) in _HEADERS else "",
    ),
    (re.compile(r'cannot open source file "([^"]+)"'), lambda m: missing_header(m[1])),
    (
        re.compile(r"fatal error: ([^:]+): No such file|^([^:]+): No such file or directory"),
        lambda m: missing_header(m[1] or m[2]),
    ),
    (
        re.compile(r'calling a (?:constexpr )?__host__ function(?:\("?([^")]*))?'),
        lambda _: "device code calls device functions: mark it __device__ (or __host__ __device__)",
    ),
    (
        re.compile(r"Unresolved extern (?:function|variable) '([^']+)'"),
        lambda _: (
            "it is declared but not defined here: include the file that defines it, or name that in `link`"
        ),
    ),
    (
        re.compile(r"not allowed in JIT mode"),
        lambda _: (
            'mark it __device__, put host code under #ifndef __CUDACC_RTC__, or set compiler = "nvcc"'
        ),
    ),
    (
        re.compile(r"floating-point template parameter is nonstandard"),
        lambda _: 'C++20 has them: std = "c++20" in [frontend.cuda] or the kernel',
    ),
    (
        re.compile(r"device-side kernel launch|kernel launch from __device__ or __global__"),
        lambda _: (
            "a kernel cannot launch kernels: launch it from the host behind this one, or call what it does as a __device__ function"
        ),
    ),
    (re.compile(r'expected a ";"'), lambda _: "look at the end of the line before, too"),
    (
        re.compile(r"uses too much shared data"),
        lambda _: (
            "static shared memory ends at 48 KiB: use `extern __shared__` and `shared` of the launch table"
        ),
    ),
    (
        re.compile(r"namespace \"std\" has no member|has no member \"(\w+)\""),
        lambda _: "device code has the standard library as cuda::std (<cuda/std/…>)",
    ),
    (
        re.compile(r"unrecognized option|Unknown option|unknown option"),
        lambda _: "see `flags` of [frontend.cuda] and of the kernel",
    ),
    (
        re.compile(r"Not a name of any known instruction|Unknown modifier|Feature '|Instruction '"),
        lambda _: "this is about inline PTX (asm) or an intrinsic that the target lacks",
    ),
)


def hint(message: str) -> str:
    """Return a hint at the fix for a compiler's message, or an empty string."""
    for pattern, advice in _HINTS:
        match = pattern.search(message)
        if match:
            text = advice(match)
            if text:
                return text
    return ""


def missing_header(name: str) -> str:
    """Return a hint at the fix for a missing header."""
    if is_host_header(name):
        own = device_header(name)
        instead = f"#include <{own}>" if own else "leave it out of device code"
        return f'NVRTC has no host headers: {instead}, or set compiler = "nvcc" in [frontend.cuda] or the kernel'
    wheel = next((wheel for head, wheel in _WHEELS if name.startswith(head)), "")
    if wheel:
        return f"it is of a library beside the toolkit: pip install {wheel}, which puts it where the toolkit's headers are"
    return "add its directory to `include` in [frontend.cuda] (relative to tilec.toml)"
