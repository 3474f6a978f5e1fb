"""Reads a cubin (a 64-bit ELF of NVIDIA's) without any tool: kernels, their parameters, and what
they use.
"""

from __future__ import annotations

import dataclasses
import re
import struct
from collections.abc import Iterator

from tilec_runtime.errors import BundleError
from tilec_runtime.model.image import Resources

_MAX_SECTIONS = 1 << 16
_MAX_PARAMS = 4096
_MACHINE = 190
# Every block's first KiB of shared memory belongs to the system from compute capability 9.0 on, and
# is counted in its section.
_RESERVED_SHARED = 1024

# Attributes of .nv.info sections: numbers read off cuobjdump -elf next to the raw bytes.
_KPARAM = 0x17
_KPARAM_V2 = 0x45
_MAX_THREADS = 0x05
_REQNTID = 0x10
_FRAME_SIZE = 0x11
_MIN_STACK = 0x12
_REGCOUNT = 0x2F
_CTA_PER_CLUSTER = 0x3D
_SIZED = 4  # the only attribute format with a payload behind its header
_COMPAT_ACCELERATED = 9
_RELEASE = re.compile(rb"release (\d{1,3})\.(\d{1,3})")

# ELF machines of hosts that CUDA supports: their programs may contain kernels.
_HOSTS = {62: "x86-64", 183: "aarch64"}

_SHT_SYMTAB = 2
_SHT_NOBITS = 8
# Sections that take no room in the file: also those for global and shared memory of code that is
# still to be linked.
_NO_BITS = {_SHT_NOBITS, 0x70000007, 0x7000000A}
_STO_ENTRY = 0x10


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CubinParam:
    """One kernel parameter: its place in order, its offset in the parameter block and its size,
    both in bytes.
    """

    ordinal: int
    offset: int
    size: int


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CubinKernel:
    """An entry point of a cubin.

    Attributes:
        name: symbol.
        registers: registers per thread.
        shared: static shared memory in bytes, without what the system reserves.
        stack: stack in bytes per thread, calls included.
        constant: bytes of constant bank 0, parameters included.
        code: bytes of machine code.
        params: in order.
        max_threads: threads per block it was bounded to (`__launch_bounds__`), 0 for none.
        required_block: block it was compiled for, empty for any.
        cluster: cluster it was compiled for, empty for none.
    """

    name: str
    registers: int
    shared: int
    stack: int
    constant: int
    code: int
    params: tuple[CubinParam, ...] = ()
    max_threads: int = 0
    required_block: tuple[int, ...] = ()
    cluster: tuple[int, ...] = ()

    def resources(self, spills: tuple[int, int] | None) -> Resources:
        """Return the kernel's resources.

        `spills` are the bytes stored and loaded, which a cubin does not record; None if unknown.
        """
        stores, loads = spills or (None, None)
        return Resources(
            registers=self.registers,
            spill_stores=stores,
            spill_loads=loads,
            stack=self.stack,
            shared=self.shared,
            constant=self.constant,
            code=self.code,
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Cubin:
    """A cubin: compute capability, whether its target is an `a` target, kernels.

    Kernels are sorted by symbol. `tile` is True for cubins assembled from Tile IR. `toolkit` is the
    CUDA release of the assembler, (0, 0) if the cubin does not record it.
    """

    cc: tuple[int, int]
    accelerated: bool
    kernels: tuple[CubinKernel, ...]
    tile: bool = False
    toolkit: tuple[int, int] = (0, 0)

    def kernel(self, name: str) -> CubinKernel:
        """Return the kernel with a symbol.

        Raises:
            BundleError: there is none; names those that are there.
        """
        for kernel in self.kernels:
            if kernel.name == name:
                return kernel
        have = ", ".join(k.name for k in self.kernels) or "none"
        raise BundleError(f"the cubin has no kernel {name!r}; it has: {have}")


@dataclasses.dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int
    entry: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    entry: bool
    size: int


def read_cubin(data: bytes) -> Cubin:
    """Read a cubin.

    Raises:
        BundleError: the bytes are no cubin, or are damaged.
    """
    try:
        return _read(data)
    except (struct.error, IndexError, UnicodeDecodeError) as exc:
        raise BundleError(f"the cubin is damaged: {exc}") from exc


def entry_index(data: bytes, name: str) -> int:
    """Return the index of an entry point in a cubin's symbol table.

    Disassemblers count in this way. It is 0 if the cubin has one entry point.

    Raises:
        BundleError: the bytes are no cubin, are damaged, or have no such entry point.
    """
    cubin = read_cubin(data)
    cubin.kernel(name)
    if len(cubin.kernels) == 1:
        return 0
    return next(
        index
        for index, symbol in enumerate(_symbols(data, _sections(data)))
        if symbol.entry and symbol.name == name
    )


def section(data: bytes, name: str) -> bytes:
    """Return the bytes of a section of a cubin; empty if there is no such section.

    Raises:
        BundleError: the bytes are no cubin, or are damaged.
    """
    try:
        if data[:4] != b"\x7fELF":
            raise BundleError("it is no cubin: it does not begin as an ELF file")
        found = next((one for one in _sections(data) if one.name == name), None)
    except (struct.error, IndexError, UnicodeDecodeError) as exc:
        raise BundleError(f"the cubin is damaged: {exc}") from exc
    return _body(data, found)


def _read(data: bytes) -> Cubin:
    if len(data) < 64 or data[:6] != b"\x7fELF\x02\x01":
        raise BundleError("these bytes are no cubin (no 64-bit little-endian ELF)")
    (machine,) = struct.unpack_from("<H", data, 18)
    if machine != _MACHINE:
        if machine in _HOSTS:
            what = f"this is a program or library for {_HOSTS[machine]} hosts, no cubin"
            raise BundleError(
                what,
                cause="its kernels are inside",
                fix="take them out: cuobjdump --extract-elf all --extract-ptx all FILE",
            )
        raise BundleError(f"this ELF file is no cubin: it is made for machine {machine}")
    (flags,) = struct.unpack_from("<I", data, 48)
    # ABI 8 moved the architecture from the lowest byte to the next one.
    sm = (flags >> 8) & 0xFF if data[8] >= 8 else flags & 0xFF
    sections = _sections(data)
    by_name = {s.name: s for s in sections}
    symbols = _symbols(data, sections)
    facts = _function_facts(data, by_name.get(".nv.info"))
    reserved = _RESERVED_SHARED if ".nv.shared.reserved.0" in by_name else 0
    kernels = tuple(
        _kernel(data, symbol, by_name, facts.get(index, {}), reserved)
        for index, symbol in enumerate(symbols)
        if symbol.entry and f".nv.info.{symbol.name}" in by_name
    )
    compat = by_name.get(".nv.compat")
    accelerated = any(
        a == _COMPAT_ACCELERATED and v == 1 for _, a, v, _ in _attributes(_body(data, compat))
    )
    release = _RELEASE.search(_body(data, by_name.get(".note.nv.tkinfo")))
    return Cubin(
        cc=(sm // 10, sm % 10),
        accelerated=accelerated,
        kernels=kernels,
        # tileiras packs what a host needs into a section of its own; no other compiler makes one.
        tile=".nv.host" in by_name,
        toolkit=(int(release[1]), int(release[2])) if release else (0, 0),
    )


def _kernel(
    data: bytes, symbol: _Symbol, by_name: dict[str, _Section], facts: dict[int, int], reserved: int
) -> CubinKernel:
    params: dict[int, CubinParam] = {}
    block: tuple[int, ...] = ()
    cluster: tuple[int, ...] = ()
    max_threads = 0
    for _, attribute, _, payload in _attributes(_body(data, by_name[f".nv.info.{symbol.name}"])):
        if attribute in (_KPARAM, _KPARAM_V2):
            _, ordinal, offset, last = struct.unpack_from("<IHHI", payload)
            # The older form keeps the size in the upper 14 bits of its last word, the newer in the
            # lower 16, below flags.
            size = last & 0xFFFF if attribute == _KPARAM_V2 else last >> 18
            params[ordinal] = CubinParam(ordinal=ordinal, offset=offset, size=size)
        elif attribute == _MAX_THREADS:
            x, y, z = struct.unpack_from("<III", payload)
            max_threads = x * y * z
        elif attribute == _REQNTID:
            block = struct.unpack_from("<III", payload)
        elif attribute == _CTA_PER_CLUSTER:
            cluster = struct.unpack_from("<III", payload)
    if len(params) > _MAX_PARAMS or sorted(params) != list(range(len(params))):
        raise BundleError(
            f"the cubin is damaged: the parameters of {symbol.name} are not numbered in order"
        )
    shared = by_name.get(f".nv.shared.{symbol.name}")
    constant = by_name.get(f".nv.constant0.{symbol.name}")
    return CubinKernel(
        name=symbol.name,
        registers=facts.get(_REGCOUNT, 0),
        shared=max(0, shared.size - reserved) if shared else 0,
        stack=max(facts.get(_FRAME_SIZE, 0), facts.get(_MIN_STACK, 0)),
        constant=constant.size if constant else 0,
        code=symbol.size,
        params=tuple(params[i] for i in sorted(params)),
        max_threads=max_threads,
        required_block=block,
        cluster=cluster,
    )


def _function_facts(data: bytes, section: _Section | None) -> dict[int, dict[int, int]]:
    """Attributes of .nv.info that are (symbol index, number) pairs, by symbol index."""
    facts: dict[int, dict[int, int]] = {}
    for _, attribute, _, payload in _attributes(_body(data, section)):
        if attribute in (_REGCOUNT, _FRAME_SIZE, _MIN_STACK):
            index, value = struct.unpack_from("<II", payload)
            facts.setdefault(index, {})[attribute] = value
    return facts


def _attributes(body: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(format, attribute, value, payload) of each entry."""
    offset = 0
    while offset < len(body):
        form, attribute, value = struct.unpack_from("<BBH", body, offset)
        offset += 4
        payload = b""
        if form == _SIZED:
            payload = body[offset : offset + value]
            if len(payload) != value:
                raise BundleError("the cubin is damaged: an attribute is cut short")
            offset += value
        elif form == 2:
            value &= 0xFF
        yield form, attribute, value, payload


def _sections(data: bytes) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", data, 40)
    entry, count, names = struct.unpack_from("<HHH", data, 58)
    if entry != 64 or count > _MAX_SECTIONS or names >= count or table + entry * count > len(data):
        raise BundleError("the cubin is damaged: its section table is out of bounds")
    raw = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * entry) for i in range(count)]
    for _, kind, _, _, offset, size, *_ in raw:
        if kind not in _NO_BITS and offset + size > len(data) and size:
            raise BundleError("the cubin is damaged: a section is out of bounds")
    strings = data[raw[names][4] : raw[names][4] + raw[names][5]]
    return [
        _Section(_string(strings, name), kind, offset, size, link, info, each)
        for name, kind, _, _, offset, size, link, info, _, each in raw
    ]


def _symbols(data: bytes, sections: list[_Section]) -> list[_Symbol]:
    found = []
    for section in sections:
        if section.kind != _SHT_SYMTAB:
            continue
        if section.link >= len(sections):
            raise BundleError("the cubin is damaged: its symbols have no names")
        strings = _body(data, sections[section.link])
        body = _body(data, section)
        for offset in range(0, len(body) - len(body) % 24, 24):
            name, _, other, _, _, size = struct.unpack_from("<IBBHQQ", body, offset)
            found.append(_Symbol(_string(strings, name), bool(other & _STO_ENTRY), size))
        break
    return found


def _body(data: bytes, section: _Section | None) -> bytes:
    if section is None or section.kind in _NO_BITS:
        return b""
    return data[section.offset : section.offset + section.size]


def _string(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset)
    if offset >= len(table) or end < 0:
        raise BundleError("the cubin is damaged: a name is out of bounds")
    return table[offset:end].decode("utf-8")
