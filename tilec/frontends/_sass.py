"""Counts local-memory traffic in machine code: the spills of compilers that do not report them."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from tilec.errors import CompileError
from tilec.frontends._run import run_tool

# `/*0120*/  @!P0 STL.64 [R1+0x8], R4 ;`
_LOCAL = re.compile(r"\*/\s+(?:@!?U?P[T\d]+\s+)?(STL|LDL)((?:\.[A-Z0-9_]+)*)\s")
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def spills(cubin: bytes, nvdisasm: str, *, timeout: float) -> tuple[int, int]:
    """Bytes that the code stores to and loads from local memory per thread, counted once per instruction: (stores, loads).

    Args:
        cubin: the image.
        nvdisasm: path of the disassembler.
        timeout: seconds it may take.

    Raises:
        CompileError: the disassembler fails on the image, or runs out of time.
        ToolchainError: it cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="tilec-") as folder:
        Path(folder, "image.cubin").write_bytes(cubin)
        done = run_tool([nvdisasm, "-c", "image.cubin"], timeout=timeout, cwd=folder, env={"TMPDIR": folder})
    if done.timed_out or done.rc:
        what = f"nvdisasm took more than {timeout:g} s" if done.timed_out else f"nvdisasm failed with exit status {done.rc}"
        raise CompileError(what, log=done.stderr, command="nvdisasm -c image.cubin", cause="it belongs to an older toolkit than the code")
    return count(done.stdout)


def count(listing: str) -> tuple[int, int]:
    """Bytes of local stores and loads in a listing of nvdisasm."""
    total = {"STL": 0, "LDL": 0}
    for match in _LOCAL.finditer(listing):
        parts = match[2].split(".")
        total[match[1]] += next((_WIDTHS[p] for p in parts if p in _WIDTHS), 4)
    return total["STL"], total["LDL"]
