"""The bundle's index, `bundle.json`: its schema as one table per dataclass, and the checks that any index passes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from tilec.bundle.codec import (
    Codec,
    Misfit,
    digest,
    enumeration,
    flag,
    identifier,
    integer,
    literal,
    optional,
    record,
    row,
    sequence,
    text,
    unfit,
)
from tilec.bundle.images import COUNT, DIMS, IMAGE
from tilec.errors import BundleError, Location
from tilec.model.digest import canonical_json
from tilec.model.dtype import DTYPES
from tilec.model.image import ImageInfo
from tilec.model.kernel import BundleInfo, KernelInfo, LaunchInfo, PackageInfo, ToolInfo, VariantInfo
from tilec.model.signature import AbiSlot, Assumption, Param, ParamKind

SCHEMA_VERSION = 5
_PLAIN, _OLDEST = 4, 1  # an index is of version 5 where a row has what version 4 does not know, else of version 4
INDEX_NAME = "bundle.json"
MAX_INDEX = 256 << 20
MAX_IMAGES = 200_000

_TEXT = text()
_FILE = text(most=4096)
_FACTS = sequence(COUNT, most=64)
EXPRESSION = text(most=10_000)
LOCATION = record(Location, file=_FILE, line=COUNT, column=COUNT)
_AXES = sequence(row(identifier, literal), most=64)

_EXTENTS = sequence(optional(COUNT), most=64)
_ASSUMPTION = record(Assumption, param=identifier, shape=_FACTS, stride=_FACTS, align=integer(1), extent=_EXTENTS, contiguous=flag)
_ABI = sequence(record(AbiSlot, type=text(most=100), expr=EXPRESSION, size=COUNT, align=integer(1)), most=10_000)
_VARIANT = record(
    dict,  # of fields: the ABI is looked up in the kernel's table, see _read_kernel
    id=text(most=10_000),
    axes=_AXES,
    assume=sequence(_ASSUMPTION, most=1000),
    abi=Codec(lambda abi: abi, COUNT.read),
    images=sequence(IMAGE, most=1000),
    hints=sequence(row(text(most=100), sequence(row(identifier, integer()), most=100)), most=1000),
)
_PARAM = record(
    Param,
    name=identifier,
    kind=enumeration(ParamKind),
    dtype=text(most=500),
    rank=integer(-1, 64),
    out=flag,
    stride=optional(sequence(optional(integer()), most=64)),
    shape_divisible=_FACTS,
    stride_divisible=_FACTS,
    align=integer(1),
    default=optional(literal),
    size=COUNT,
    doc=_TEXT,
)
_LAUNCH = record(
    LaunchInfo,
    grid=sequence(EXPRESSION, most=3),
    block=sequence(EXPRESSION, most=3),
    shared=EXPRESSION,
    cluster=DIMS,
    cooperative=flag,
    requires=sequence(EXPRESSION, most=10_000),
)
_KERNEL_FIELDS = record(
    dict,
    name=identifier,
    language=text(most=100),
    location=LOCATION,
    doc=_TEXT,
    params=sequence(_PARAM, most=4096),
    axes=sequence(row(identifier, sequence(literal, most=100_000)), most=64),
    dtype_axes=sequence(identifier, most=64),
    default=_AXES,
    launch=_LAUNCH,
    variants=sequence(_VARIANT, most=MAX_IMAGES),
)


def _write_kernel(kernel: KernelInfo) -> Any:
    """A kernel whose variants name their ABI by its place in one table: thousands of variants share a few."""
    plain = _KERNEL_FIELDS.write(kernel)
    places: dict[tuple[AbiSlot, ...], int] = {}
    for variant in plain["variants"]:
        variant["abi"] = places.setdefault(variant["abi"], len(places))
    plain["abis"] = [_ABI.write(abi) for abi in places]
    if kernel.safety is not None or kernel.table is not None or kernel.beyond_schema_4:
        from tilec.bundle.extras import write_extras

        plain.update(write_extras(kernel))
    return plain


_ABIS = sequence(_ABI, most=100_000)


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
        from tilec.bundle.extras import read_extras

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
    kernels=sequence(_KERNEL, most=100_000),
    toolchain=sequence(record(ToolInfo, name=_TEXT, version=_TEXT, digest=text(most=200)), most=1000),
    sources=sequence(row(_FILE, digest), most=MAX_IMAGES),
    profile=text(most=500),
    min_driver=integer(0, 1_000_000),
    builder=text(most=500),
)


def to_index(info: BundleInfo) -> bytes:
    """The bytes of `bundle.json`: canonical JSON, so that equal values give equal bytes.

    Raises:
        BundleError: the value breaks a rule that every reader checks.
    """
    try:
        _check(info)
    except Misfit as misfit:
        _refuse(misfit.where, misfit.what)
    new = any(kernel.beyond_schema_4 for kernel in info.kernels)
    return canonical_json({"schema_version": SCHEMA_VERSION if new else _PLAIN, **_BUNDLE.write(info)})


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
        if len(data) > MAX_INDEX:
            _refuse("", f"has {len(data)} bytes, more than {MAX_INDEX}")
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
            _check(info)
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
            _check_one(here, kernel, {})
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
            from tilec.bundle.upgrade import upgraded  # few bundles are older than what reads them

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


def _check(info: BundleInfo) -> None:
    """The rules that reach over several fields. Raises Misfit."""
    _unique("kernels", (kernel.name for kernel in info.kernels), "kernel name")
    _unique("sources", (name for name, _ in info.sources), "source")
    for index, (name, _) in enumerate(info.sources):
        _contained(f"sources[{index}]", name)
    sizes: dict[str, int] = {}
    rows = 0
    for number, kernel in enumerate(info.kernels):
        rows += _check_one(f"kernels[{number}]", kernel, sizes)
    if rows > MAX_IMAGES:
        unfit("kernels", f"{rows} images, more than {MAX_IMAGES}")


def _check_one(here: str, kernel: KernelInfo, sizes: dict[str, int]) -> int:
    """What is checked of one kernel, with the sizes of images seen so far; gives how many rows of images it has. Raises Misfit."""
    _contained(f"{here}.location.file", kernel.location.file)
    _check_kernel(here, kernel)
    images = [image for variant in kernel.variants for image in variant.images]
    for image in images:
        if sizes.setdefault(image.digest, image.size) != image.size:
            unfit(here, f"image {image.digest[:12]} has two sizes, {sizes[image.digest]} and {image.size}")
    return len(images)


def _check_kernel(here: str, kernel: KernelInfo) -> None:
    axes = dict(kernel.axes)
    params = {param.name for param in kernel.params}
    _unique(f"{here}.params", (param.name for param in kernel.params), "parameter")
    _unique(f"{here}.axes", (name for name, _ in kernel.axes), "axis")
    _unique(f"{here}.variants", (variant.id for variant in kernel.variants), "variant")
    for name in kernel.dtype_axes:
        unknown = [value for value in axes.get(name, ("",)) if value not in DTYPES]
        if unknown:
            unfit(f"{here}.dtype_axes", f"axis {name!r} holds {unknown[0]!r}, which is no dtype" if name in axes else f"no axis {name!r}")
    for index, param in enumerate(kernel.params):
        if param.dtype and param.dtype not in DTYPES and param.dtype not in kernel.dtype_axes:
            unfit(f"{here}.params[{index}].dtype", f"{param.dtype!r} is neither a dtype nor a dtype axis of the kernel")
    for name, _ in kernel.default:
        if name not in axes:
            unfit(f"{here}.default", f"no axis {name!r}")
    for region in kernel.safety.regions if kernel.safety else ():
        if region.param not in params:
            unfit(f"{here}.safety.regions", f"no parameter {region.param!r}")
    if kernel.table is not None or kernel.rules:
        from tilec.bundle.tables import check_choice

        check_choice(here, kernel, axes, params)
    for index, variant in enumerate(kernel.variants):
        for name, _ in variant.axes:
            if name not in axes:
                unfit(f"{here}.variants[{index}].axes", f"no axis {name!r}")
        for assumption in variant.assume:
            if assumption.param not in (kernel.optionals if assumption.absent else params):
                unfit(f"{here}.variants[{index}].assume", f"no {'optional ' * assumption.absent}parameter {assumption.param!r}")
        if variant.hints:
            _check_hints(f"{here}.variants[{index}].hints", variant)
        if any(slot.type not in DTYPES and slot.type not in ("ptr", "struct") for slot in variant.abi):
            from tilec.bundle.maps import check_special  # few kernels have any

            check_special(f"{here}.variants[{index}].abi", variant.abi, kernel.params)


def _check_hints(here: str, variant: VariantInfo) -> None:
    """Hints are said once for each target that has an image and any, in the images' order."""
    targets = list(dict.fromkeys(str(image.target) for image in variant.images))
    hinted = dict(variant.hints)
    if [target for target, _ in variant.hints] != [target for target in targets if hinted.get(target)]:
        said = ", ".join(target for target, _ in variant.hints)
        unfit(here, f"are for the targets {said}, and its images for {', '.join(targets)}")
    for target, hints in variant.hints:
        _unique(f"{here}.{target}", (name for name, _ in hints), "hint")


def _contained(where: str, name: str) -> None:
    """Names of files are relative, with forward slashes, and stay where they are."""
    if not name or name.startswith("/") or "\\" in name or "\0" in name or name[1:3] == ":/" or ".." in name.split("/"):
        unfit(where, f"{name!r} is not a file name inside the project")


def _unique(where: str, names: Iterable[str], what: str) -> None:
    counts = Counter(names)
    if counts and max(counts.values()) > 1:
        unfit(where, f"{what} {counts.most_common(1)[0][0]!r} appears twice")
