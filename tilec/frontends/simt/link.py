"""Functions of CUDA C++ that SIMT kernels call: those that numba brings, the barrier of a grid, and
the sources of `link`.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

from tilec.frontends.tools.cpp import includes
from tilec.frontends.tools.cpp.device import compile_device
from tilec.frontends.tools.cpp.diagnostics import read_log
from tilec.frontends.tools.nvjitlink import Piece
from tilec.frontends.tools.run import command_line
from tilec.frontends.tools.search import Tool
from tilec.model.job import InputFile, Job, Source
from tilec.model.link import LinkEntry, LinkKind, entries
from tilec_runtime.errors import CompileError, Diagnostic, Location, ToolchainError

_STD = "-std=c++17"
_MOST_KEPT = 64
_SOURCE = "link the .cu file that it was made of, or write the kernel in CUDA C++"
# numba calls CUDA's device runtime for `cuda.cg.this_grid().sync()`: its functions with the code of
# the headers' own barrier. Cooperative groups with type traits of their own: nothing here needs
# libcu++, reading which takes ten times as long.
_BARRIER = """#define _CG_LIMIT_INCLUDED_DEPENDENCIES
#include <cooperative_groups.h>
extern "C" __device__ unsigned long long cudaCGGetIntrinsicHandle(cudaCGScope group) { return group; }
extern "C" __device__ cudaError_t cudaCGSynchronize(unsigned long long, unsigned int) {
    cooperative_groups::this_grid().sync();
    return cudaSuccess;
}
"""
_EXTERNAL = re.compile(r"^\.extern \.func\s+(?:\([^)]*\)\s*)?([\w$]+)", re.MULTILINE)
_ADDRESS = re.compile(r"\bmov\.u64\s+%rd\d+,\s*([A-Za-z_$][\w$]*);")
_DRIVER_HAS = frozenset({"vprintf", "malloc", "free", "__assertfail"})


def linked(source: Source) -> tuple[LinkEntry, ...]:
    """Return the entries of a source's `link`.

    Raises:
        CompileError: one is no CUDA C++ source.
    """
    texts = dict(source.options).get("link", ())
    found = entries(tuple(map(str, texts)) if isinstance(texts, tuple) else ())
    for entry in found:
        if entry.kind is not LinkKind.CUDA:
            what = f"{entry.path} is {entry.kind.value}, and a SIMT kernel is linked with CUDA C++ sources alone"
            place = Diagnostic(
                message=what, location=Location(file=entry.path, line=1), hint=_SOURCE
            )
            raise CompileError(what, diagnostics=(place,), fix=_SOURCE)
    return found


def linked_inputs(source: Source) -> list[InputFile]:
    """Return every file that the linked ones are made of, headers of the project included.

    Raises:
        CompileError: one cannot be read, leaves the project, or is no CUDA C++.
    """
    return [
        file for entry in linked(source) for file in includes.closure(source.root, entry.path, ())
    ]


def undefined(ptx: str) -> set[str]:
    """Return the functions that PTX declares and neither defines nor finds in the driver."""
    return set(_EXTERNAL.findall(ptx)) - _DRIVER_HAS


def misdeclared(ptx: str, called: set[str]) -> list[str]:
    """Return the `called` functions that linked PTX calls through their address.

    A linker makes such a call where Python declares other sizes of parameters or results than the
    function has; otherwise it is direct.
    """
    return sorted(called.intersection(_ADDRESS.findall(ptx)))


class Library:
    """Compiles what kernels are linked with, and keeps what their variants share."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, bytes] = {}

    def pieces(
        self,
        job: Job,
        called: set[str],
        sources: Sequence[str],
        tools: Mapping[str, Tool],
        *,
        portable: bool,
    ) -> list[Piece]:
        """Return LTO-IR of the linked sources, of numba's own, and of the barrier, for the job's
        architecture.

        Args:
            job: the job.
            called: functions that the kernel calls and does not define.
            sources: texts of CUDA C++ that numba brings.
            tools: by name.
            portable: the LTO-IR is shipped, and must not name directories of this machine.

        Raises:
            CompileError: a linked source does not compile; with its own lines.
            ToolchainError: numba's own does not.
        """
        found = [
            self._linked(job, entry.path, tools, portable=portable)
            for entry in linked(job.spec.source)
        ]
        barrier = [_BARRIER] if any(name.startswith("cudaCG") for name in called) else []
        return found + [
            self._numbas(job, number, text, tools)
            for number, text in enumerate([*barrier, *sources])
        ]

    def _linked(self, job: Job, path: str, tools: Mapping[str, Tool], *, portable: bool) -> Piece:
        root, lineinfo = (
            job.spec.source.root,
            (job.spec.lineinfo or job.spec.debug) and not portable,
        )
        key = (root, path, job.target.number, lineinfo, portable, *includes.closure(root, path, ()))
        if key not in self._kept:
            self._keep(key, _compiled(job, path, tools, lineinfo=lineinfo, portable=portable))
        return Piece(name=path, kind="LTOIR", data=self._kept[key])

    def _numbas(self, job: Job, number: int, text: str, tools: Mapping[str, Tool]) -> Piece:
        name, arch, headers = (
            f"numba{number}.cu",
            f"compute_{job.target.number}",
            tools["headers"].path,
        )
        if (text, arch) not in self._kept:
            made = compile_device(
                tools,
                text.encode(),
                name,
                root=headers,
                arch=arch,
                arguments=[_STD],
                timeout=job.spec.timeout,
                portable=True,
            )
            if not made.ok:
                raise ToolchainError(
                    f"what numba takes of CUDA C++ does not compile for {arch}: {made.log or made.result}",
                    cause="kernels with f16, bf16 or a grid's barrier need CUDA's own headers, of the release that NVRTC is of",
                    fix="pip install --force-reinstall 'tilec[build]'",
                )
            self._keep((text, arch), made.ltoir)
        return Piece(name=name, kind="LTOIR", data=self._kept[text, arch])

    def _keep(self, key: Hashable, data: bytes) -> None:
        while len(self._kept) >= _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = data


def _compiled(
    job: Job, path: str, tools: Mapping[str, Tool], *, lineinfo: bool, portable: bool
) -> bytes:
    spec, arch = job.spec, f"compute_{job.target.number}"
    source = Path(spec.source.root, path).read_bytes()
    if b"\0" in source:
        what = f"{path} holds a zero byte: it is no C++ text"
        raise CompileError(
            what, diagnostics=(Diagnostic(message=what, location=Location(file=path, line=1)),)
        )
    arguments = [_STD, *(["-lineinfo"] if lineinfo else [])]
    made = compile_device(
        tools,
        source,
        path,
        root=spec.source.root,
        arch=arch,
        arguments=arguments,
        timeout=spec.timeout,
        portable=portable,
    )
    if made.ok:
        return made.ltoir
    log = made.log or made.result
    words = read_log(
        log, spec.source.root, toolkit=tools["headers"].path, fallback=Location(file=path, line=1)
    )
    raise CompileError(
        f"{path}, which {spec.source.path} is linked with, does not compile for {job.target}",
        diagnostics=words.diagnostics,
        log=log,
        command=command_line(["nvcc", "-dc", "-dlto", f"-arch={arch}", *arguments, path]),
        kernel=job.variant.id,
        target=str(job.target),
        overtime=made.timed_out,
    )
