"""LTO-IR as what a build ships: one module of several, and what a linker has to be told about it
that the code does not say.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from tilec.frontends.tools.nvjitlink import Piece, link_ptx
from tilec.frontends.tools.search import Tool
from tilec_runtime.errors import ToolchainError

# What flags for arithmetic mean to the linker, which generates the code: it does not find them in
# LTO-IR.
_ARITHMETIC = {"ftz": "-ftz", "prec-div": "-prec-div", "prec-sqrt": "-prec-sqrt", "fmad": "-fma"}
FAST = ("-ftz=1", "-prec-div=0", "-prec-sqrt=0", "-fma=1")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Linked:
    """What came of a link: one module of LTO-IR, the PTX that this linker makes of it (both empty
    where it failed), and its words.
    """

    ltoir: bytes = b""
    text: str = ""
    log: str = ""


def level(opt: int) -> str:
    """nvJitLink's option for an optimisation level: it knows none and all."""
    return "-O3" if opt else "-O0"


def arithmetic(flags: Sequence[str]) -> list[str]:
    """nvJitLink's options for a compiler's flags of arithmetic."""
    found: list[str] = []
    for flag in flags:
        name, _, value = flag.lstrip("-").partition("=")
        if name == "use_fast_math":
            found += FAST
        elif name in _ARITHMETIC and value in ("true", "false"):
            found.append(f"{_ARITHMETIC[name]}={int(value == 'true')}")
    return found


def linking(*, opt: int, flags: Sequence[str] = (), registers: int = 0) -> tuple[str, ...]:
    """What an image of LTO-IR has to say for its link, beside the architecture: whatever is not a
    linker's own default.
    """
    return (
        *([] if opt else [level(opt)]),
        *arithmetic(flags),
        *([f"-maxrregcount={registers}"] if registers else []),
    )


def registers_of(ptxas: Sequence[str]) -> tuple[int, str]:
    """(the bound on registers among flags of ptxas, the first flag that no link takes; 0 and an
    empty text where there is none).
    """
    words, most = list(ptxas), 0
    while words:
        word = words.pop(0)
        name, _, value = word.partition("=")
        if name.lstrip("-") != "maxrregcount":
            return most, word
        value = value or (words.pop(0) if words else "")
        if not re.fullmatch(r"[0-9]{1,3}", value):
            return most, f"{name} {value}".strip()
        most = int(value)
    return most, ""


def as_one(
    linker: Tool, pieces: Sequence[Piece], arch: str, options: Sequence[str], *, whole: bool = True
) -> Linked:
    """Link pieces: the PTX for an architecture such as `sm_80`, and where it is wanted `whole` one
    module, which is a lone piece itself.

    Raises:
        ToolchainError: nvJitLink cannot be used, or gives no linked LTO-IR.
    """
    several = whole and len(pieces) > 1
    done = link_ptx(linker.path, pieces, [f"-arch={arch}", *options], whole=several)
    if several and done.data and not done.ltoir:
        raise ToolchainError(
            f"nvJitLink {linker.version} makes no LTO-IR of several modules",
            cause="it is older than CUDA 13.4, or only a part of the toolkit was renewed",
            fix="pip install --upgrade 'tilec[build]'; or leave lto_NN to kernels that link nothing, in [[override]]",
        )
    own = (done.ltoir if several else pieces[0].data) if done.data and whole else b""
    return Linked(ltoir=own, text=done.data.decode("utf-8", "surrogateescape"), log=done.log)
