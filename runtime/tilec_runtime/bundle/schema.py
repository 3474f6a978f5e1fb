"""The JSON schema of a bundle's index: one codec per dataclass.

`rules` checks rules between fields.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from tilec_runtime.bundle import limits
from tilec_runtime.bundle.codec import (
    Codec,
    Misfit,
    digest,
    enumeration,
    flag,
    identifier,
    integer,
    line,
    literal,
    module_name,
    optional,
    parsed,
    power_of_two,
    record,
    row,
    sequence,
    text,
    word,
)
from tilec_runtime.errors import Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.image import ImageInfo, Resources
from tilec_runtime.model.jit import JitFallback
from tilec_runtime.model.kernel import KernelInfo, LaunchInfo, PackageInfo, ToolInfo, VariantInfo
from tilec_runtime.model.operator import BackwardInfo, OperatorInfo, OutputInfo
from tilec_runtime.model.safety import Checks, Fact, Guarantee, Region, Safety
from tilec_runtime.model.signature import AbiSlot, Assumption, ListParam, Param, ParamKind
from tilec_runtime.model.table import DispatchRule, TableDevice, TableEntry, TuningTable

_TEXT = text()
_FILE = line(4096)
_LINE = line()
_COUNT = integer(0)
_BYTES = integer(0, limits.BYTES)
_SIZE = integer(0, limits.DIM)
_VERSION = row(integer(0, 999), integer(0, 999))
_DIMS = sequence(integer(1, limits.DIM), most=3)
_EXPRESSION = text(most=limits.EXPRESSION)
_DIVISORS = sequence(integer(1), most=limits.RANK)
_EXTENTS = sequence(optional(_COUNT), most=limits.RANK)
_ALIGN = power_of_two(limits.ALIGNMENT)
_LOCATION = record(Location, file=_FILE, line=_COUNT, column=_COUNT)
_POINT = sequence(row(identifier, literal), most=limits.AXES)
# Linker options that a bundle may set; they affect the generated code alone.
_OPTION = text(
    check=functools.partial(
        re.fullmatch, r"-O0|-(ftz|prec-div|prec-sqrt|fma)=[01]|-maxrregcount=[0-9]{1,3}"
    ),
    what="an option of a link",
    most=30,
)

_IMAGE = record(
    ImageInfo,
    target=parsed(Target.parse),
    digest=digest,
    size=integer(0, limits.IMAGE),
    symbol=_LINE,
    exact=flag,
    ptx_isa=optional(_VERSION),
    cuda=_VERSION,
    resources=record(
        Resources,
        registers=optional(_SIZE),
        spill_stores=optional(_BYTES),
        spill_loads=optional(_BYTES),
        stack=optional(_BYTES),
        shared=optional(_BYTES),
        constant=optional(_BYTES),
        code=optional(_BYTES),
    ),
    max_threads=_SIZE,
    required_block=_DIMS,
    cluster=_DIMS,
    block=_DIMS,
    dynamic_shared=_SIZE,
    linking=sequence(_OPTION, most=16),
    reproducible=flag,
)
_ABI = sequence(
    record(
        AbiSlot,
        type=line(100),
        expr=_EXPRESSION,
        size=integer(1, limits.ARGUMENTS),
        align=power_of_two(limits.SLOT_ALIGNMENT),
    ),
    most=limits.SLOTS,
)
_VARIANT = record(
    dict,  # of fields: a variant refers to its ABI by its index in `abis` of the kernel
    id=_LINE,
    axes=_POINT,
    assume=sequence(
        record(
            Assumption,
            param=identifier,
            shape=_DIVISORS,
            stride=_DIVISORS,
            align=_ALIGN,
            extent=_EXTENTS,
            contiguous=flag,
            absent=flag,
        ),
        most=limits.PARAMS,
    ),
    abi=Codec(lambda abi: abi, _COUNT.read),
    images=sequence(_IMAGE, most=limits.IMAGES),
    hints=sequence(
        row(line(100), sequence(row(identifier, integer()), most=limits.HINTS)), most=limits.IMAGES
    ),
)
_SAFETY = record(
    Safety,
    facts=sequence(
        record(
            Fact,
            guarantee=enumeration(Guarantee),
            what=text(most=10_000),
            location=optional(_LOCATION),
        ),
        most=100_000,
    ),
    regions=sequence(
        record(Region, param=identifier, tile=sequence(_EXPRESSION, most=3), mapped=flag), most=4096
    ),
    checks=enumeration(Checks),
)
_TABLE = record(
    TuningTable,
    source=_FILE,
    sizes=sequence(_EXPRESSION, most=64),
    devices=sequence(
        record(
            TableDevice,
            name=line(500),
            cc=_VERSION,
            multiprocessors=_SIZE,
            entries=sequence(
                record(TableEntry, ranges=sequence(row(_COUNT, _COUNT), most=64), point=_POINT),
                most=100_000,
            ),
        ),
        most=1000,
    ),
)
_OP = record(
    OperatorInfo,
    outputs=sequence(
        record(
            OutputInfo,
            param=identifier,
            like=line(500),
            shape=sequence(_EXPRESSION, most=limits.RANK),
            dtype=line(510),
        ),
        most=limits.PARAMS,
    ),
    backward=optional(
        record(
            BackwardInfo,
            kernel=identifier,
            args=sequence(row(identifier, identifier), most=limits.PARAMS),
        )
    ),
)
_LISTS = sequence(
    record(
        ListParam,
        name=identifier,
        first=integer(0, limits.PARAMS),
        most=integer(1, limits.PARAMS),
        axis=line(100),
    ),
    most=limits.PARAMS,
)
_FIELDS = record(
    dict,  # of fields
    name=identifier,
    language=line(100),
    location=_LOCATION,
    doc=_TEXT,
    params=sequence(
        record(
            Param,
            name=identifier,
            kind=enumeration(ParamKind),
            dtype=line(500),
            rank=integer(-1, limits.RANK),
            out=flag,
            stride=optional(_EXTENTS),
            shape_divisible=_DIVISORS,
            stride_divisible=_DIVISORS,
            align=_ALIGN,
            default=optional(literal),
            size=integer(0, limits.ARGUMENTS),
            optional=flag,
            doc=_TEXT,
        ),
        most=limits.PARAMS,
    ),
    axes=sequence(row(identifier, sequence(literal, most=limits.AXIS_VALUES)), most=limits.AXES),
    dtype_axes=sequence(identifier, most=limits.AXES),
    default=_POINT,
    launch=record(
        LaunchInfo,
        grid=sequence(_EXPRESSION, most=3),
        block=sequence(_EXPRESSION, most=3),
        shared=_EXPRESSION,
        cluster=_DIMS,
        cooperative=flag,
        programmatic=flag,
        requires=sequence(_EXPRESSION, most=limits.REQUIRES),
        open=sequence(identifier, most=3),
        preset=flag,
    ),
    variants=sequence(_VARIANT, most=limits.IMAGES),
    safety=optional(_SAFETY),
    table=optional(_TABLE),
    jit=optional(enumeration(JitFallback)),
    rules=sequence(record(DispatchRule, when=_EXPRESSION, take=_POINT), most=limits.RULES),
    op=optional(_OP),
    lists=_LISTS,
    abis=sequence(_ABI, most=limits.IMAGES),
)


def _write_kernel(kernel: KernelInfo) -> Any:
    """Encode a kernel, with one table of ABIs: thousands of variants share a few."""
    plain = _FIELDS.write(kernel)
    indices = {abi: index for index, abi in enumerate(kernel.abis)}
    for variant in plain["variants"]:
        variant["abi"] = indices[variant["abi"]]
    return plain


def _read_kernel(value: Any) -> Any:
    fields = _FIELDS.read(value)
    abis = fields.pop("abis")
    indices = dict.fromkeys(variant["abi"] for variant in fields["variants"])
    if list(indices) != list(range(len(abis))) or len(set(abis)) != len(abis):
        raise Misfit(
            "has ABIs that no variant names, that repeat, or that are not in the order of their first use"
        )
    fields["variants"] = tuple(
        VariantInfo(**{**variant, "abi": abis[variant["abi"]]}) for variant in fields["variants"]
    )
    return KernelInfo(**fields)


KERNEL = Codec(_write_kernel, _read_kernel)
# The kernels in `bundle.json`: name and SHA-256 of the row of each.
ROWS = sequence(row(identifier, digest), most=limits.KERNELS)
# The rest of `bundle.json`, as a dict of fields.
FRAME = record(
    dict,
    package=record(
        PackageInfo,
        name=word("._-", "a package name"),
        version=word("._+!-", "a version"),
        module=module_name,
        description=_TEXT,
        license=_TEXT,
    ),
    toolchain=sequence(
        record(ToolInfo, name=_LINE, version=_LINE, digest=line(200)), most=limits.TOOLS
    ),
    sources=sequence(row(_FILE, digest), most=limits.SOURCES),
    profile=line(500),
    min_driver=integer(0, 1_000_000),
    builder=line(500),
)
