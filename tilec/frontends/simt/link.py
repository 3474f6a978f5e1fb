"""Compile the CUDA C++ that SIMT kernels call: of numba, and of `link`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tilec.frontends.tools.cpp import includes
from tilec.frontends.tools.cpp.device import compile_file, compile_text
from tilec.frontends.tools.files import fault
from tilec.frontends.tools.nvjitlink import Piece
from tilec.frontends.tools.search import Tool
from tilec.model.job import InputFile, Job, Source
from tilec.model.link import LinkEntry, LinkKind

LINKER = "libnvJitLink"
_STD = "-std=c++17"
_SOURCE = "link the .cu file that it was made of, or write the kernel in CUDA C++"
# numba calls CUDA's device runtime for `cuda.cg.this_grid().sync()`. These definitions of the two
# functions use the barrier of cooperative_groups.h. The macro makes that header use type traits of
# its own: including libcu++ takes ten times as long, and nothing here needs it.
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
        CompileError: an entry is no CUDA C++ source.
    """
    texts = dict(source.options).get("link", ())
    named = texts if isinstance(texts, tuple) else ()
    linked_entries = tuple(LinkEntry.parse(str(text)) for text in named)
    for entry in linked_entries:
        if entry.kind is not LinkKind.CUDA:
            message = (
                f"it is {entry.kind.value}, and a SIMT kernel is linked with CUDA C++ sources alone"
            )
            raise fault(entry.path, message, fix=_SOURCE)
    return linked_entries


def linked_inputs(source: Source) -> list[InputFile]:
    """Return the linked files and the headers of the project that they can include.

    Raises:
        CompileError: a file cannot be read, lies outside of the project, or is no CUDA C++.
    """
    return [
        file for entry in linked(source) for file in includes.closure(source.root, entry.path, ())
    ]


def undefined(ptx: str) -> set[str]:
    """Return the functions that PTX declares and neither it nor the driver defines."""
    return set(_EXTERNAL.findall(ptx)) - _DRIVER_HAS


def misdeclared(ptx: str, called: set[str]) -> list[str]:
    """Return the `called` functions that linked PTX calls through their address.

    A linker makes such a call if Python declares other sizes of parameters or results than the
    function has; other calls are direct.
    """
    return sorted(called.intersection(_ADDRESS.findall(ptx)))


def pieces(
    job: Job,
    called: set[str],
    sources: Sequence[str],
    tools: Mapping[str, Tool],
    *,
    portable: bool,
) -> list[Piece]:
    """Return LTO-IR of the linked sources, of numba's sources, and of the barrier if called.

    Args:
        job: the job.
        called: functions that the kernel calls and does not define.
        sources: texts of numba's CUDA C++.
        tools: tools by name.
        portable: whether the LTO-IR is shipped; it then names no directories of this machine.

    Raises:
        CompileError: a linked source does not compile; with its own lines.
        ToolchainError: a source of numba does not compile.
    """
    keeps_lines = (job.spec.lineinfo or job.spec.debug) and not portable
    arguments = [_STD, *(["-lineinfo"] if keeps_lines else [])]
    linked_files = [
        compile_file(job, entry.path, tools, arguments, portable=portable)
        for entry in linked(job.spec.source)
    ]
    barrier = [_BARRIER] if any(name.startswith("cudaCG") for name in called) else []
    return linked_files + [
        compile_text(job, f"numba{number}.cu", text, tools, [_STD])
        for number, text in enumerate([*barrier, *sources])
    ]
