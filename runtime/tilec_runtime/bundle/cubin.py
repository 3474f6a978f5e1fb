"""A reader for cubins (64-bit ELF files): kernels, parameters and resources.

It needs no tool of the CUDA toolkit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import struct
from collections.abc import Iterator

from tilec_runtime.errors import BundleError
from tilec_runtime.model.image import Resources

_MAX_SECTIONS = 1 << 16
_MAX_PARAMS = 4096
_MACHINE = 190
# From compute capability 9.0 on, the system reserves the first KiB of each block's shared memory.
# The size of the kernel's shared-memory section includes it.
_RESERVED_SHARED = 1024

# Attributes of .nv.info sections, found by comparing `cuobjdump -elf` with the raw bytes.
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

# ELF machines of hosts that CUDA supports; their executables may contain kernels.
_HOSTS = {62: "x86-64", 183: "aarch64"}

_SHT_SYMTAB = 2
_SHT_NOBITS = 8
# Sections without bytes in the file, including global and shared memory of relocatable code.
_NO_BITS = {_SHT_NOBITS, 0x70000007, 0x7000000A}
_STO_ENTRY = 0x10


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CubinParam:
    """One kernel parameter: index, and offset and size in bytes in the block."""

    ordinal: int
    offset: int
    size: int


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CubinKernel:
    """An entry point of a cubin.

    Attributes:
        name: symbol of the entry point.
        registers: registers per thread.
        shared: static shared memory in bytes, without the system's reservation.
        stack: stack in bytes per thread, calls included.
        constant: bytes of constant bank 0, parameters included.
        code: bytes of machine code.
        params: parameters in order.
        max_threads: limit of threads per block (`__launch_bounds__`), or 0 for no limit.
        required_block: block dimensions that it requires; empty for any.
        cluster: cluster dimensions that it was compiled for; empty for none.
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

        `spills` are the bytes of spill stores and loads, which a cubin does not record; None if
        unknown.
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
    """A cubin: compute capability, whether its target has the suffix `a`, and kernels.

    Kernels are sorted by symbol. `tile` is True for cubins assembled from Tile IR. `toolkit` is the
    CUDA release of the assembler, (0, 0) if the cubin does not record it.
    """

    cc: tuple[int, int]
    accelerated: bool
    kernels: tuple[CubinKernel, ...]
    tile: bool = False
    toolkit: tuple[int, int] = (0, 0)

    def kernel(self, name: str) -> CubinKernel:
        """Return the kernel with this symbol.

        Raises:
            BundleError: no kernel has it; the message lists the symbols.
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


@dataclasses.dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    entry: bool
    size: int


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    """Turn errors of reading beyond the end, or of no text, into a BundleError."""
    try:
        yield
    except (struct.error, IndexError, UnicodeDecodeError) as exc:
        raise BundleError(f"the cubin is damaged: {exc}") from exc


@_damage()
def read_cubin(data: bytes) -> Cubin:
    """Read a cubin.

    Raises:
        BundleError: the bytes are not a cubin, or are damaged.
    """
    if len(data) < 64 or data[:6] != b"\x7fELF\x02\x01":
        raise BundleError("these bytes are no cubin (no 64-bit little-endian ELF)")
    (machine,) = struct.unpack_from("<H", data, 18)
    if machine != _MACHINE:
        if machine in _HOSTS:
            message = f"this is a program or library for {_HOSTS[machine]} hosts, no cubin"
            raise BundleError(
                message,
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
        # tileiras alone writes a section for the host, .nv.host; no other compiler does.
        tile=".nv.host" in by_name,
        toolkit=(int(release[1]), int(release[2])) if release else (0, 0),
    )


def entry_index(data: bytes, name: str) -> int:
    """Return the index of an entry point in the symbol table, or 0 if it is alone.

    Disassemblers take this index.

    Raises:
        BundleError: the bytes are not a cubin, are damaged, or have no such entry point.
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


@_damage()
def section(data: bytes, name: str) -> bytes:
    """Return the bytes of a section of a cubin; empty if it has no such section.

    Raises:
        BundleError: the bytes are not a cubin, or are damaged.
    """
    if data[:4] != b"\x7fELF":
        raise BundleError("it is no cubin: it does not begin as an ELF file")
    return _body(data, next((one for one in _sections(data) if one.name == name), None))


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
            # The size is in the upper 14 bits of the last word in the older form, and in the lower
            # 16 bits, below flags, in the newer form.
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
    """Return the per-function attributes of .nv.info: symbol to attribute to number."""
    facts: dict[int, dict[int, int]] = {}
    for _, attribute, _, payload in _attributes(_body(data, section)):
        if attribute in (_REGCOUNT, _FRAME_SIZE, _MIN_STACK):
            index, value = struct.unpack_from("<II", payload)
            facts.setdefault(index, {})[attribute] = value
    return facts


def _attributes(body: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield (format, attribute, value, payload) of each entry."""
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
        _Section(_string(strings, name), kind, offset, size, link)
        for name, kind, _, _, offset, size, link, *_ in raw
    ]


def _symbols(data: bytes, sections: list[_Section]) -> list[_Symbol]:
    symbols = []
    for section in sections:
        if section.kind != _SHT_SYMTAB:
            continue
        if section.link >= len(sections):
            raise BundleError("the cubin is damaged: its symbols have no names")
        strings = _body(data, sections[section.link])
        body = _body(data, section)
        for offset in range(0, len(body) - len(body) % 24, 24):
            name, _, other, _, _, size = struct.unpack_from("<IBBHQQ", body, offset)
            symbols.append(_Symbol(_string(strings, name), bool(other & _STO_ENTRY), size))
        break
    return symbols


def _body(data: bytes, section: _Section | None) -> bytes:
    if section is None or section.kind in _NO_BITS:
        return b""
    return data[section.offset : section.offset + section.size]


def _string(table: bytes, offset: int) -> str:
    end = table.find(b"\0", offset)
    if offset >= len(table) or end < 0:
        raise BundleError("the cubin is damaged: a name is out of bounds")
    return table[offset:end].decode("utf-8")
