"""The bundle's index, `bundle.json`: its schema as one table per dataclass, and the checks that any index passes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn

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
    optional,
    power_of_two,
    record,
    row,
    sequence,
    text,
)
from tilec_runtime.bundle.images import COUNT, DIMS, IMAGE
from tilec_runtime.bundle.rules import check_expressions, check_index, check_kernel
from tilec_runtime.errors import BundleError, Location
from tilec_runtime.model.digest import canonical_json, sha256
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, LaunchInfo, PackageInfo, ToolInfo, VariantInfo
from tilec_runtime.model.signature import AbiSlot, Assumption, Param, ParamKind

SCHEMA_VERSION = 5
_PLAIN, _OLDEST = 4, 1  # an index is of version 5 where a row has what version 4 does not know, else of version 4
INDEX_NAME = "bundle.json"

_TEXT = text()
_FILE = line(4096)
_LINE = line()
EXPRESSION = text(most=limits.EXPRESSION)
_DIVISORS = sequence(integer(1), most=limits.RANK)
_EXTENTS = sequence(optional(COUNT), most=limits.RANK)
_ALIGN = power_of_two(limits.ALIGNMENT)
LOCATION = record(Location, file=_FILE, line=COUNT, column=COUNT)
_AXES = sequence(row(identifier, literal), most=limits.AXES)

_ASSUMPTION = record(Assumption, param=identifier, shape=_DIVISORS, stride=_DIVISORS, align=_ALIGN, extent=_EXTENTS, contiguous=flag)
_SLOT = record(AbiSlot, type=line(100), expr=EXPRESSION, size=integer(1, limits.ARGUMENTS), align=power_of_two(limits.SLOT_ALIGNMENT))
_ABI = sequence(_SLOT, most=limits.SLOTS)
_VARIANT = record(
    dict,  # of fields: the ABI is looked up in the kernel's table, see _read_kernel
    id=_LINE,
    axes=_AXES,
    assume=sequence(_ASSUMPTION, most=limits.PARAMS),
    abi=Codec(lambda abi: abi, COUNT.read),
    images=sequence(IMAGE, most=limits.IMAGES),
    hints=sequence(row(line(100), sequence(row(identifier, integer()), most=limits.HINTS)), most=limits.IMAGES),
)
_PARAM = record(
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
    doc=_TEXT,
)
_LAUNCH = record(
    LaunchInfo,
    grid=sequence(EXPRESSION, most=3),
    block=sequence(EXPRESSION, most=3),
    shared=EXPRESSION,
    cluster=DIMS,
    cooperative=flag,
    requires=sequence(EXPRESSION, most=limits.REQUIRES),
)
_KERNEL_FIELDS = record(
    dict,
    name=identifier,
    language=line(100),
    location=LOCATION,
    doc=_TEXT,
    params=sequence(_PARAM, most=limits.PARAMS),
    axes=sequence(row(identifier, sequence(literal, most=limits.AXIS_VALUES)), most=limits.AXES),
    dtype_axes=sequence(identifier, most=limits.AXES),
    default=_AXES,
    launch=_LAUNCH,
    variants=sequence(_VARIANT, most=limits.IMAGES),
)


def _write_kernel(kernel: KernelInfo) -> Any:
    """A kernel whose variants name their ABI by its place in one table: thousands of variants share a few."""
    plain = _KERNEL_FIELDS.write(kernel)
    places: dict[tuple[AbiSlot, ...], int] = {}
    for variant in plain["variants"]:
        variant["abi"] = places.setdefault(variant["abi"], len(places))
    plain["abis"] = [_ABI.write(abi) for abi in places]
    if kernel.safety is not None or kernel.table is not None or kernel.beyond_schema_4:
        from tilec_runtime.bundle.extras import write_extras

        plain.update(write_extras(kernel))
    return plain


_ABIS = sequence(_ABI, most=limits.IMAGES)


def _read_kernel(value: Any) -> Any:
    if type(value) is not dict or "abis" not in value:
        raise Misfit("must be an object with a key 'abis'")
    try:
        abis = _ABIS.read(value["abis"])
    except Misfit as misfit:
        misfit.path.append(".abis")
        raise
    given = _KERNEL_FIELDS.read({name: entry for name, entry in value.items() if name not in _APART})
    variants, used = [], 0
    for fields in given["variants"]:
        place = fields["abi"]
        if place >= len(abis):
            raise Misfit(f"variant {fields['id']!r} names ABI {place} of {len(abis)}")
        used = max(used, place + 1) if place <= used else len(abis) + 1
        variants.append(VariantInfo(**{**fields, "abi": abis[place]}))
    if used != len(abis) or len(set(abis)) != len(abis):
        raise Misfit("has ABIs that no variant names, that repeat, or that are not in the order of their first use")
    fields = {**given, "variants": tuple(variants)}
    if not _EXTRAS.isdisjoint(value):  # most kernels have none, and a first launch has little use for them
        from tilec_runtime.bundle.extras import read_extras

        read_extras(value, fields)
    return KernelInfo(**fields)


_EXTRAS = frozenset(("safety", "table", "jit", "rules", "programmatic", "optional"))
_APART = _EXTRAS | {"abis"}  # keys of a kernel that are no fields of its record
_KERNEL = Codec(_write_kernel, _read_kernel)
_BUNDLE = record(
    BundleInfo,
    package=record(
        PackageInfo,
        name=text(pattern=r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", what="a package name", most=200),
        version=text(pattern=r"[A-Za-z0-9][A-Za-z0-9._+!-]*", what="a version", most=200),
        module=text(pattern=r"[^\W\d]\w*(\.[^\W\d]\w*)*", what="a module name", most=500),
        description=_TEXT,
        license=_TEXT,
    ),
    kernels=sequence(_KERNEL, most=limits.KERNELS),
    toolchain=sequence(record(ToolInfo, name=_LINE, version=_LINE, digest=line(200)), most=limits.TOOLS),
    sources=sequence(row(_FILE, digest), most=limits.SOURCES),
    profile=line(500),
    min_driver=integer(0, 1_000_000),
    builder=line(500),
)


def to_index(info: BundleInfo) -> bytes:
    """The bytes of `bundle.json`: canonical JSON, so that equal values give equal bytes.

    Raises:
        BundleError: the value breaks a rule that every reader checks.
    """
    try:
        check_index(info)
        check_expressions(info)
    except Misfit as misfit:
        _refuse(misfit.where, misfit.what)
    return draft_index(info)


def draft_index(info: BundleInfo) -> bytes:
    """The same bytes of a value that is not whole yet: without variants, and with dtypes that only the compiled kernels tell."""
    new = any(kernel.beyond_schema_4 for kernel in info.kernels)
    return canonical_json({"schema_version": SCHEMA_VERSION if new else _PLAIN, **_BUNDLE.write(info)})


def index_digest(info: BundleInfo) -> str:
    """SHA-256 of the index (hex), as `Bundle.index_digest` has it of a bundle."""
    return sha256(to_index(info))


def from_index(data: bytes) -> BundleInfo:
    """Read `bundle.json`, which may come from anywhere.

    Raises:
        BundleError: it is not JSON, of another schema version, or anything in it is unknown, missing, of the wrong type or out of
            bounds; the message names what and where.
    """
    index = Index(data)
    info = index.info()
    index.require_canonical()
    return info


class Index:
    """The JSON of an index of a known version: all of it is read by `info`, one kernel by `kernel`, which costs a small part of that."""

    def __init__(self, data: bytes) -> None:
        """Parse what is around the kernels' rows where these can be told apart without; else all of it.

        Raises:
            BundleError: it is not JSON, no object, or of another schema version.
        """
        if len(data) > limits.INDEX:
            _refuse("", f"has {len(data)} bytes, more than {limits.INDEX}")
        values = sum(map(data.count, (b",", b"[", b"{")))  # before they take memory
        if values > limits.INDEX_VALUES:
            _refuse("", f"has {values} values, more than {limits.INDEX_VALUES}")
        self._data = data
        self._plain: dict[str, Any] | None = None
        self._kernels: dict[str, tuple[int, Any]] | None = None
        frame, texts = _framed(data) or (self._whole(), None)
        version = frame.get("schema_version")
        if type(version) is not int or not _OLDEST <= version <= SCHEMA_VERSION:
            newer = type(version) is int and version > SCHEMA_VERSION
            raise BundleError(
                f"{INDEX_NAME} has schema version {version!r}; this tilec reads versions {_OLDEST} to {SCHEMA_VERSION}",
                cause="the bundle was written by a newer tilec" if newer else _DAMAGED,
                fix="update tilec" if newer else _FETCH,
            )
        self._old = version < _PLAIN
        self._texts: dict[str, tuple[int, str]] | None = None if self._old else texts

    @property
    def digest(self) -> str:
        """SHA-256 of its bytes (hex)."""
        return sha256(self._data)

    def require_canonical(self) -> None:
        """See that the bytes are those that its values have: two readers could see different values in a repeated key, for one.

        Raises:
            BundleError: they are not.
        """
        if not _is_canonical(self._whole(), self._data):
            _refuse("", _NOT_CANONICAL)

    def require_canonical_frame(self) -> None:
        """The same of what is around the kernels' rows: each row is looked at when it is asked for.

        Raises:
            BundleError: the bytes are not those that the values have.
        """
        if self._texts is None:
            self.require_canonical()

    def info(self) -> BundleInfo:
        """All of it.

        Raises:
            BundleError: anything in it is unknown, missing, of the wrong type or out of bounds; the message names what and where.
        """
        try:
            info: BundleInfo = _BUNDLE.read(self._body())
            check_index(info)
        except Misfit as misfit:
            _refuse(misfit.where, misfit.what)
        return info

    @property
    def names(self) -> tuple[str, ...]:
        """The kernels' names, in order.

        Raises:
            BundleError: one has none, or it appears twice.
        """
        return tuple(self._rows() if self._texts is None else self._texts)

    def kernel(self, name: str) -> KernelInfo:
        """One kernel, with every check that `info` makes of it.

        Raises:
            KeyError: there is no such kernel. BundleError: its row does not fit, as for `info`.
        """
        number, row = self._rows()[name] if self._texts is None else self._parsed_row(*self._texts[name])
        here = f"kernels[{number}]"
        try:
            try:
                kernel: KernelInfo = _KERNEL.read(row)
            except Misfit as misfit:
                misfit.path.append(here)
                raise
            check_kernel(here, kernel, {})
        except Misfit as misfit:
            _refuse(misfit.where, misfit.what)
        if kernel.name != name:
            _refuse(f"{here}.name", f"must be {name!r}, is {kernel.name!r}")
        return kernel

    def _parsed_row(self, number: int, text: str) -> tuple[int, Any]:
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as exc:
            raise BundleError(f"{INDEX_NAME}: kernels[{number}]: is not JSON: {exc}", cause=_DAMAGED, fix=_FETCH) from exc
        if not _is_canonical(row, text.encode()):
            _refuse(f"kernels[{number}]", _NOT_CANONICAL)
        return number, row

    def _rows(self) -> dict[str, tuple[int, Any]]:
        if self._kernels is None:
            rows: dict[str, tuple[int, Any]] = {}
            try:
                plain = self._body().get("kernels")
            except Misfit as misfit:
                _refuse(misfit.where, misfit.what)
            if type(plain) is not list:
                _refuse("kernels", "must be an array")
            for number, row in enumerate(plain):
                name = row.get("name") if type(row) is dict else None
                if type(name) is not str or name in rows:
                    _refuse(f"kernels[{number}].name", f"must be a name of its own, is {name!r}")
                rows[name] = number, row
            self._kernels = rows
        return self._kernels

    def _whole(self) -> dict[str, Any]:
        """The values of all of it."""
        if self._plain is None:
            try:
                plain = json.loads(self._data)
            except (ValueError, RecursionError) as exc:
                raise BundleError(f"{INDEX_NAME} is not JSON: {exc}", cause=_DAMAGED, fix=_FETCH) from exc
            if not isinstance(plain, dict):
                _refuse("", "must be an object")
            self._plain = plain
        return self._plain

    def _body(self) -> dict[str, Any]:
        """The values below the version, as of today's. Raises Misfit."""
        if self._old:
            from tilec_runtime.bundle.upgrade import upgraded  # few bundles are older than what reads them

            return upgraded(json.loads(self._data))
        body = {**self._whole()}
        del body["schema_version"]
        return body


# How canonical JSON puts down the array of kernels: its key, where one row ends and the next begins, and what comes after the last.
_KERNELS, _ROW, _AFTER = '"kernels":[', '{"abis":', '],"min_driver":'


def _framed(data: bytes) -> tuple[dict[str, Any], dict[str, tuple[int, str]]] | None:
    """What is around the kernels' rows, with none of them; and by name the number and text of each. None where they cannot be told apart.

    A first launch needs one row of many, and to parse them all takes longer than all else. Quotes inside of strings are escaped, so none
    of the marks is found there. Whatever the rows hold, that of a kernel has to be canonical, sound and its own when it is read.
    """
    try:
        text = data.decode("ascii")
        start, end = text.index(_KERNELS) + len(_KERNELS), text.rindex(_AFTER)
        frame = text[:start] + text[end:]
        plain = json.loads(frame)
        # One such key, so that the rows are those of the index and of nothing inside it.
        if (
            not text.startswith(_ROW, start)
            or frame.count(f"{_KERNELS}]") != 1
            or plain["kernels"] != []
            or not _is_canonical(plain, frame.encode())
        ):
            return None
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    texts: dict[str, tuple[int, str]] = {}
    for number, rest in enumerate(text[start + len(_ROW) : end].split(f",{_ROW}")):
        name = rest.partition('"name":"')[2].partition('"')[0]
        if not name or "\\" in name or name in texts:  # let who reads all of it say what is wrong, or what an escape means
            return None
        texts[name] = number, _ROW + rest
    return plain, texts


def images_of(info: BundleInfo) -> Iterator[ImageInfo]:
    """Every image row of an index, in its order; rows that share bytes share a digest."""
    for kernel in info.kernels:
        for variant in kernel.variants:
            yield from variant.images


_DAMAGED = "the bundle is damaged, or was not written by tilec"
_FETCH = "fetch the bundle again, or rebuild it with `tilec build`"


def _refuse(where: str, what: str) -> NoReturn:
    raise BundleError(f"{INDEX_NAME}: {where}: {what}" if where else f"{INDEX_NAME} {what}", cause=_DAMAGED, fix=_FETCH)


_NOT_CANONICAL = "is not canonical JSON (a repeated key, other spacing or order)"


def _is_canonical(plain: Any, data: bytes) -> bool:
    try:
        return canonical_json(plain) == data
    except (ValueError, RecursionError):
        return False
