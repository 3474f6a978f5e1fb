"""GPU architectures: a table of properties, and targets with their compatibility."""

from __future__ import annotations

import enum
import functools

from tilec_runtime.values import value_class

Version = tuple[int, int]


def dotted(version: Version) -> str:
    """Format a version, such as `13.4`."""
    return f"{version[0]}.{version[1]}"


_KIB = 1024


@value_class(frozen=True, kw_only=True)
class Arch:
    """Properties of one compute capability.

    Attributes:
        cc: compute capability, such as (9, 0).
        ptx: oldest PTX ISA with this target.
        ptx_a, ptx_f: the same for its architecture- and family-specific targets, None if it has
            no such target.
        toolkit: oldest CUDA toolkit that compiles for it. Drivers of that release and later load
            its cubins.
        tile: whether Tile IR can be assembled for it.
        soc: whether it is the GPU of a system on a chip (Jetson). Such a GPU runs no cubins of
            other capabilities, and its cubins run on no other.
        threads, warps, blocks, registers: limits per multiprocessor.
        shared: shared memory per multiprocessor in bytes.
        shared_block: most shared memory that one block can opt in to, in bytes.
        shared_reserved: shared memory in bytes that the system reserves per resident block.
        gpus: examples of GPUs with this capability, for messages.
    """

    cc: Version
    ptx: Version
    ptx_a: Version | None = None
    ptx_f: Version | None = None
    toolkit: Version
    tile: bool
    soc: bool = False
    threads: int
    blocks: int
    shared: int
    shared_block: int
    shared_reserved: int = _KIB
    registers: int = 65536
    gpus: str = ""

    @property
    def warps(self) -> int:
        """Most resident warps per multiprocessor."""
        return self.threads // 32


def _arch(
    cc: int,
    ptx: Version,
    toolkit: Version,
    threads: int,
    blocks: int,
    shared_kib: int,
    gpus: str = "",
    *,
    a: Version | None = None,
    f: Version | None = None,
    tile: bool = True,
    soc: bool = False,
) -> Arch:
    # From compute capability 8.0 on, the system reserves 1 KiB of each block's shared memory.
    reserved_kib = 1 if cc >= 80 else 0
    return Arch(
        cc=(cc // 10, cc % 10),
        ptx=ptx,
        ptx_a=a,
        ptx_f=f,
        toolkit=toolkit,
        tile=tile,
        soc=soc,
        threads=threads,
        blocks=blocks,
        shared=shared_kib * _KIB,
        shared_block=(shared_kib - reserved_kib) * _KIB,
        shared_reserved=reserved_kib * _KIB,
        gpus=gpus,
    )


ARCHS: dict[Version, Arch] = {
    arch.cc: arch
    for arch in (
        _arch(75, (6, 3), (10, 0), 1024, 16, 64, "T4, RTX 20", tile=False),
        _arch(80, (7, 0), (11, 0), 2048, 32, 164, "A100, A30"),
        _arch(86, (7, 1), (11, 1), 1536, 16, 100, "A10, A40, RTX 30"),
        _arch(87, (7, 4), (11, 4), 1536, 16, 164, "Jetson Orin", soc=True),
        _arch(88, (9, 0), (13, 0), 1536, 16, 100, soc=True),
        _arch(89, (7, 8), (11, 8), 1536, 24, 100, "L4, L40S, RTX 40"),
        _arch(90, (7, 8), (11, 8), 2048, 32, 228, "H100, H200, GH200", a=(8, 0)),
        _arch(100, (8, 6), (12, 8), 2048, 32, 228, "B200, GB200", a=(8, 6), f=(8, 8)),
        _arch(103, (8, 8), (12, 9), 2048, 32, 228, "B300, GB300", a=(8, 8), f=(8, 8)),
        _arch(107, (9, 4), (13, 4), 1024, 16, 328, a=(9, 4), f=(9, 4)),
        _arch(110, (9, 0), (13, 0), 1536, 24, 228, "Jetson Thor", a=(9, 0), f=(9, 0)),
        _arch(120, (8, 7), (12, 8), 1536, 24, 100, "RTX 50, RTX PRO 6000", a=(8, 7), f=(8, 8)),
        _arch(121, (8, 8), (12, 9), 1536, 24, 100, "DGX Spark", a=(8, 8), f=(8, 8)),
    )
}


class TargetKind(enum.Enum):
    """The kind of code for a target."""

    CUBIN = "cubin"
    PTX = "ptx"
    LTOIR = "ltoir"
    TILEIR = "tileir"


# Prefixes of target names; Tile IR has no architecture.
_PREFIXES = {TargetKind.CUBIN: "sm", TargetKind.PTX: "compute", TargetKind.LTOIR: "lto"}
_KINDS = {prefix: kind for kind, prefix in _PREFIXES.items()}


@functools.total_ordering
@value_class(frozen=True)
class Target:
    """A compilation target.

    Examples: `sm_90a` (cubin), `compute_80` (PTX), `lto_80` (LTO-IR), `tileir` (portable Tile IR
    bytecode).
    """

    kind: TargetKind
    cc: Version = (0, 0)
    suffix: str = ""

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read a target's name.

        Raises:
            ValueError: no target has this name; the message gives the reason and valid names.
        """
        return _parse(text)

    @property
    def arch(self) -> Arch:
        """Properties of its compute capability; invalid for `tileir`."""
        return ARCHS[self.cc]

    @property
    def number(self) -> str:
        """Number and suffix, such as `90a` of `sm_90a`."""
        return f"{self.cc[0]}{self.cc[1]}{self.suffix}"

    @property
    def ptx_isa(self) -> Version:
        """Oldest PTX ISA with this target."""
        arch = self.arch
        isa = {"": arch.ptx, "a": arch.ptx_a, "f": arch.ptx_f}[self.suffix]
        if isa is None:
            raise ValueError(f"{self} has no such form")
        return isa

    def __str__(self) -> str:
        """The target's name."""
        if self.kind is TargetKind.TILEIR:
            return "tileir"
        return f"{_PREFIXES[self.kind]}_{self.number}"

    def __lt__(self, other: object) -> bool:
        """Order by kind, capability, and suffix.

        The kinds are in the order cubin, PTX, LTO-IR, Tile IR; the suffixes in the order none, `f`,
        `a`.
        """
        if not isinstance(other, Target):
            return NotImplemented
        return self._rank < other._rank

    @property
    def _rank(self) -> tuple[int, Version, int]:
        return (list(TargetKind).index(self.kind), self.cc, ("", "f", "a").index(self.suffix))

    def runs_on(self, cc: Version, *, exact: bool = False) -> bool:
        """Whether a device of capability `cc` can run code for this target.

        For PTX and LTO-IR, the driver or nvJitLink must also support the version of the code.

        Args:
            cc: compute capability of the device.
            exact: require an equal capability, as `ImageInfo.exact`.
        """
        if self.kind is TargetKind.TILEIR:
            return cc in ARCHS and ARCHS[cc].tile
        if self.suffix == "a" or exact:
            return cc == self.cc
        if self.suffix == "f":
            return cc[0] == self.cc[0] and cc[1] >= self.cc[1]
        if self.kind is TargetKind.CUBIN:
            return cc == self.cc or (
                cc[0] == self.cc[0] and cc[1] > self.cc[1] and not (self.arch.soc or is_soc(cc))
            )
        return cc >= self.cc


def is_soc(cc: Version) -> bool:
    """Whether `cc` is of a system on a chip, which shares no cubins with other GPUs."""
    return cc in ARCHS and ARCHS[cc].soc


@functools.lru_cache(maxsize=512)
def _parse(text: str) -> Target:
    if text == "tileir":
        return Target(TargetKind.TILEIR)
    # No regular expression: compiling one takes longer than parsing all targets of a bundle.
    prefix, _, number = text.partition("_")
    suffix = number[-1:] if number.endswith(("a", "f")) else ""
    digits = number.removesuffix(suffix)
    if prefix not in _KINDS or not digits.isdecimal() or len(digits) not in (2, 3):
        there_are = "sm_NN (cubin), compute_NN (PTX), lto_NN (LTO-IR) and tileir"
        raise ValueError(
            f"unknown target {text!r}: targets are {there_are}; for example sm_90, compute_80"
        )
    cc = (int(digits[:-1]), int(digits[-1]))
    if cc not in ARCHS:
        known = ", ".join(f"{prefix}_{major}{minor}" for major, minor in ARCHS)
        raise ValueError(f"unknown architecture in target {text!r}: known are {known}")
    arch = ARCHS[cc]
    if suffix and {"a": arch.ptx_a, "f": arch.ptx_f}[suffix] is None:
        forms = [
            f"{prefix}_{digits}{s}"
            for s, isa in (("", arch.ptx), ("a", arch.ptx_a), ("f", arch.ptx_f))
            if isa
        ]
        raise ValueError(
            f"target {text!r} does not exist: compute capability {cc[0]}.{cc[1]} has {', '.join(forms)}"
        )
    return Target(_KINDS[prefix], cc, suffix)
