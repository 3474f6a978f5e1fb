"""Read a PTX text as a prebuilt file: ISA, architecture and entry points."""

from __future__ import annotations

import dataclasses
import re

from tilec.frontends.tools import ptx
from tilec.frontends.tools.files import fault
from tilec_runtime.bundle.ptx import PtxEntry, line_of, read_entries, without_comments
from tilec_runtime.errors import BundleError
from tilec_runtime.model.arch import Target, Version

_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+[af]?)\b", re.MULTILINE)
_ADDRESS = re.compile(r"^\s*\.address_size\s+(\d+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PtxModule:
    """The declarations of a PTX text.

    Attributes:
        isa: PTX ISA of `.version`.
        target: architecture of `.target`, as a PTX target.
        entries: entry points.
    """

    isa: Version
    target: Target
    entries: tuple[PtxEntry, ...]


def read_ptx(text: str, path: str) -> PtxModule:
    """Read a PTX text.

    Raises:
        CompileError: `.version` or `.target` is missing or wrong, there is no entry point, or one
            is damaged.
    """
    plain = without_comments(text)
    try:
        isa = ptx.isa(plain)
    except ValueError as exc:
        raise fault(path, "this PTX has no .version", fix="see that the file is whole") from exc
    match = _TARGET.search(plain)
    if match is None:
        raise fault(path, "this PTX has no .target", fix="see that the file is whole")
    try:
        target = Target.parse(f"compute_{match[1]}")
    except ValueError as exc:
        raise fault(
            path, f".target sm_{match[1]}: {exc}", line=line_of(plain, match.start(1))
        ) from exc
    bits = _ADDRESS.search(plain)
    if bits is not None and bits[1] != "64":
        raise fault(
            path,
            f".address_size {bits[1]}: kernels have addresses of 64 bits",
            line=line_of(plain, bits.start(1)),
        )
    try:
        entries = read_entries(plain, path)
    except BundleError as exc:
        raise fault(path, exc.what, line=exc.location.line if exc.location else 1) from exc
    if not entries:
        loose = re.search(r"\.entry\b", plain)
        if loose:
            raise fault(
                path,
                "this entry point is cut short",
                line=line_of(plain, loose.start()),
                fix="see that the file is whole",
            )
        has = " (it has device functions alone)" if ".func" in plain else ""
        raise fault(
            path, f"this PTX declares no entry point{has}", fix="a kernel is a `.visible .entry`"
        )
    return PtxModule(isa=isa, target=target, entries=entries)
