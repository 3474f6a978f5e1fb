"""Link several modules of LTO-IR into one, and map compiler flags to linker options."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from tilec.frontends.tools.nvjitlink import Linked, Piece, link_ptx
from tilec.frontends.tools.search import Tool
from tilec_runtime.errors import ToolchainError

# The linker generates the code, and LTO-IR does not record arithmetic flags: the linker needs them.
_ARITHMETIC = {"ftz": "-ftz", "prec-div": "-prec-div", "prec-sqrt": "-prec-sqrt", "fmad": "-fma"}
FAST = ("-ftz=1", "-prec-div=0", "-prec-sqrt=0", "-fma=1")


def level(opt: int) -> str:
    """Return nvJitLink's option for an optimisation level; it has only two."""
    return "-O3" if opt else "-O0"


def arithmetic(flags: Sequence[str]) -> list[str]:
    """Return nvJitLink's options for a compiler's flags for arithmetic."""
    options: list[str] = []
    for flag in flags:
        name, _, value = flag.lstrip("-").partition("=")
        if name == "use_fast_math":
            options += FAST
        elif name in _ARITHMETIC and value in ("true", "false"):
            options.append(f"{_ARITHMETIC[name]}={int(value == 'true')}")
    return options


def linking(*, opt: int, flags: Sequence[str] = (), registers: int = 0) -> tuple[str, ...]:
    """Return the linker options that an LTO-IR image records: all that are not defaults."""
    return (
        *([] if opt else [level(opt)]),
        *arithmetic(flags),
        *([f"-maxrregcount={registers}"] if registers else []),
    )


def registers_of(ptxas: Sequence[str]) -> tuple[int, str]:
    """Return the register bound (0 for none) in flags of ptxas, and the first other flag.

    A linker accepts no flag of ptxas but `maxrregcount`.
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
    """Link pieces to PTX for `arch` (`sm_80`), and with `whole` to one LTO-IR module.

    Raises:
        ToolchainError: nvJitLink cannot be used, or gives no linked LTO-IR.
    """
    several = whole and len(pieces) > 1
    done = link_ptx(linker.path, pieces, [f"-arch={arch}", *options], whole=several)
    if several and done.text and not done.ltoir:
        raise ToolchainError(
            f"nvJitLink {linker.version} makes no LTO-IR of several modules",
            cause="it is older than CUDA 13.4, or only a part of the toolkit was renewed",
            fix="pip install --upgrade 'tilec[build]'; or leave lto_NN to kernels that link nothing, in [[override]]",
        )
    if whole and done.text and not several:
        return dataclasses.replace(done, ltoir=pieces[0].data)
    return done
