"""Choose the file of a prebuilt kernel that fits a target best."""

from __future__ import annotations

import dataclasses

from tilec.frontends.prebuilt.ptx import PtxModule, read_ptx
from tilec.frontends.prebuilt.tools import Opener
from tilec.frontends.tools.compiled_files import FileKind, Prebuilt
from tilec.frontends.tools.files import fault
from tilec.frontends.tools.tile_bytecode import read_tile
from tilec.model.declaration import KernelDecl
from tilec_runtime.bundle.cubin import Cubin, read_cubin
from tilec_runtime.errors import BundleError
from tilec_runtime.model.arch import ARCHS, Target, TargetKind, Version

_GIVES = {
    FileKind.PTX: (TargetKind.CUBIN, TargetKind.PTX),
    FileKind.CUBIN: (TargetKind.CUBIN,),
    FileKind.LTOIR: (TargetKind.CUBIN, TargetKind.PTX, TargetKind.LTOIR),
    FileKind.NVVM: (TargetKind.CUBIN, TargetKind.PTX, TargetKind.LTOIR),
    FileKind.TILEIR: (TargetKind.CUBIN, TargetKind.TILEIR),
}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """A piece of code: a file of its own, or part of a fatbin.

    Attributes:
        file: its bytes; for LTO-IR in a fatbin, the whole fatbin.
        form: its kind.
        what: kind and architecture, for messages.
        number: its architecture as in targets (`90a`); empty if it has none.
        entries: names of its entry points; empty if only compiling it shows them.
        code: its declarations; those of Tile IR are its version and its entry points.
    """

    file: Prebuilt
    form: FileKind
    what: str
    number: str = ""
    entries: tuple[str, ...] = ()
    code: PtxModule | Cubin | tuple[Version, tuple[KernelDecl, ...]] | None = None

    @property
    def tile(self) -> bool:
        """Whether it was assembled from Tile IR; it then runs on exactly its architecture."""
        return isinstance(self.code, Cubin) and self.code.tile

    @property
    def kinds(self) -> tuple[TargetKind, ...]:
        """The kinds of targets that it can be used or compiled for."""
        return () if self.form is FileKind.TILEIR and _in_fatbin(self) else _GIVES[self.form]


def members(files: tuple[Prebuilt, ...], opener: Opener) -> list[Member]:
    """Return every piece of code in a kernel's files.

    Raises:
        CompileError: a file is damaged.
        ToolchainError: a tool is missing.
    """
    return [member for file in files for member in _of_file(file, opener)]


def choose(target: Target, symbol: str, pieces: list[Member]) -> Member:
    """Return the piece that fits a target best.

    Raises:
        CompileError: no piece fits, or two fit equally well; it lists all pieces.
    """
    ranked = [(rank, member) for member in pieces if (rank := _rank(member, target)) is not None]
    having = [
        (rank, member) for rank, member in ranked if not member.entries or symbol in member.entries
    ]
    path = pieces[0].file.path
    listing = "".join(f"\n    {member.file.path}: {member.what}" for member in pieces)
    if not having:
        if ranked:
            names = ", ".join(
                dict.fromkeys(name for _, member in ranked for name in member.entries)
            )
            raise fault(
                path,
                f"what serves {target} has no kernel {symbol!r}, but {names}",
                fix="name one of these in `symbol`",
            )
        message = f"no file of this kernel serves {target}; there is:{listing}"
        raise fault(path, message, fix=_advice(target))
    best = min(rank for rank, _ in having)
    equal = [member for rank, member in having if rank == best]
    if len(equal) > 1:
        shown = " and ".join(f"{member.file.path} ({member.what})" for member in equal)
        raise fault(
            path,
            f"two files serve {target} equally: {shown}",
            fix="leave one of them out of `files`",
        )
    return equal[0]


def _of_file(file: Prebuilt, opener: Opener) -> list[Member]:
    if file.kind is FileKind.CUBIN:
        return [_cubin(file)]
    if file.kind is FileKind.PTX:
        module = read_ptx(file.text, file.path)
        names = tuple(entry.name for entry in module.entries)
        number = module.target.number
        message = f"PTX {module.isa[0]}.{module.isa[1]} for {_later(number)}"
        return [
            Member(
                file=file,
                form=file.kind,
                what=message,
                number=number,
                entries=names,
                code=module,
            )
        ]
    if file.kind is FileKind.FATBIN:
        inside = opener.members(file)
        pieces = [member for part in inside.files for member in _of_file(part, opener)]
        for kind, number in inside.others:
            message = (
                f"{kind.value}, in a fatbin"
                if kind is FileKind.TILEIR
                else f"{kind.value} for sm_{number} and later, in a fatbin"
            )
            pieces.append(Member(file=file, form=kind, what=message, number=number))
        return pieces
    if file.kind is FileKind.TILEIR:
        version, entries = read_tile(file)
        names = tuple(entry.name for entry in entries)
        message = f"Tile IR {version[0]}.{version[1]}"
        code = (version, entries)
        return [Member(file=file, form=file.kind, what=message, entries=names, code=code)]
    return [Member(file=file, form=file.kind, what=file.kind.value)]


def _cubin(file: Prebuilt) -> Member:
    try:
        cubin = read_cubin(file.data)
    except BundleError as exc:
        cause, fix = (
            exc.cause or "the file is cut short or damaged",
            exc.fix or "see that the file is whole",
        )
        raise fault(file.path, exc.what, cause=cause, fix=fix) from exc
    if not cubin.kernels:
        raise fault(
            file.path,
            "this cubin has no kernel",
            cause="it holds device functions alone, or was made for linking",
        )
    number = f"{cubin.cc[0]}{cubin.cc[1]}" + ("a" if cubin.accelerated else "")
    if cubin.cc not in ARCHS:
        raise fault(
            file.path,
            f"this cubin is for sm_{number}, which this tilec does not know",
            fix="take a newer tilec",
        )
    origin = " of a tile kernel" if cubin.tile else ""
    names = tuple(kernel.name for kernel in cubin.kernels)
    return Member(
        file=file,
        form=file.kind,
        what=f"a cubin{origin} for sm_{number}",
        number=number,
        entries=names,
        code=cubin,
    )


def _rank(member: Member, target: Target) -> int | None:
    """Return the rank of a piece for a target: 0 is best, None if it does not fit."""
    if target.kind is TargetKind.TILEIR:
        return 0 if member.form is FileKind.TILEIR and not _in_fatbin(member) else None
    match member.form:
        case FileKind.CUBIN:
            return _rank_of_cubin(member, target) if target.kind is TargetKind.CUBIN else None
        case FileKind.PTX:
            fits = target.kind is not TargetKind.LTOIR and _compiles(member.number, target)
            return 2 if fits else None
        case FileKind.LTOIR:
            return 3 if not member.number or _compiles(member.number, target) else None
        case FileKind.TILEIR:
            assembles = target.kind is TargetKind.CUBIN and not target.suffix and target.arch.tile
            return 5 if assembles and not _in_fatbin(member) else None
    return 4


def _rank_of_cubin(member: Member, target: Target) -> int | None:
    plain = f"{target.cc[0]}{target.cc[1]}"
    if member.tile:
        return 0 if target.number == plain and member.number.rstrip("a") == plain else None
    if member.number == target.number:
        return 0
    return 1 if member.number == plain else None


def _compiles(number: str, target: Target) -> bool:
    """Return whether PTX for one architecture can be compiled for another."""
    own = Target.parse(f"compute_{number}")
    if own.suffix == "a":
        return number == target.number
    if own.suffix == "f":
        return bool(target.suffix) and own.runs_on(target.cc)
    return own.cc <= target.cc


def _in_fatbin(member: Member) -> bool:
    return member.file.kind is FileKind.FATBIN


def _later(number: str) -> str:
    return (
        f"sm_{number} alone"
        if number.endswith("a")
        else f"the family of sm_{number}"
        if number.endswith("f")
        else f"sm_{number} and later"
    )


def _advice(target: Target) -> str:
    have = {
        TargetKind.CUBIN: "a cubin for it, or PTX for an older architecture,",
        TargetKind.PTX: "PTX for it",
        TargetKind.LTOIR: "LTO-IR for it or for an older architecture, or NVVM IR,",
        TargetKind.TILEIR: "Tile IR",
    }
    return f"add {have[target.kind]} to `files`, or limit the kernel to other targets with [[override]]"
