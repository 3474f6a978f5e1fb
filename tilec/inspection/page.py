"""Contents of an HTML report: kernels, images, and a limited amount of code."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

from tilec.frontends.base import ToolSearch
from tilec.inspection.dump import Form, NotTextError, in_short, machine_code, ptx_text
from tilec.inspection.lines import Listing, ptx_listing, sass_listing, tileir_listing
from tilec.inspection.occupancy import residency
from tilec.inspection.report import Images, Report, image_id, spills
from tilec.inspection.tileir import source_lines
from tilec.model.occupancy import Occupancy
from tilec_runtime.cpu.tileir.read import read_module
from tilec_runtime.errors import TileIRError, ToolchainError
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import KernelInfo, VariantInfo

Row: TypeAlias = tuple[KernelInfo, VariantInfo, ImageInfo]
FORMS = {form.kind: form for form in Form}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of the code on a page.

    Attributes:
        images: maximum number of images whose code is read; the tables list all images.
        disassembled: maximum number of disassembled images. A disassembler takes 0.4 s for each,
            mostly to start: two processes disassemble 16 images in 4 s.
        bytes: maximum size of embedded code and sources.
        lines: maximum number of lines of one image; the rest is cut off.
    """

    images: int = 200
    disassembled: int = 16
    bytes: int = 16 << 20
    lines: int = 50_000


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PageImage:
    """One image on the page.

    Attributes:
        id: id of the image.
        kernel: kernel of the image.
        variant: variant of the image.
        image: row of the index.
        held: blocks that a multiprocessor can hold, if known.
        code: name of the embedded listing, or empty for none.
        note: reason why there is no listing, or why it is incomplete.
        warnings: reasons why the image is slow.
    """

    id: str
    kernel: KernelInfo
    variant: VariantInfo
    image: ImageInfo
    held: Occupancy | None
    code: str
    note: str
    warnings: tuple[str, ...]

    @property
    def form(self) -> str:
        """Name of the image's textual form, or its kind if it has none."""
        kind = self.image.target.kind
        return FORMS[kind].value if kind in FORMS else kind.value


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PageFile:
    """A source file: the name of its embedded listing, or a note why there is none."""

    name: str
    code: str
    note: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """The contents of a page.

    Attributes:
        report: report of the inspected file.
        images: all images.
        files: source files of the code on the page.
        embedded: texts by name, as gzip of JSON in base64.
        left_out: reason why code is missing, or empty if all code is on the page.
        tool: name and version of the disassembler.
    """

    report: Report
    images: tuple[PageImage, ...]
    files: tuple[PageFile, ...]
    embedded: dict[str, str]
    left_out: str
    tool: str


def make_page(
    bundle: Images,
    report: Report,
    search: ToolSearch,
    folder: Path,
    *,
    limits: Limits = Limits(),
    workers: int = 1,
    on_image: Callable[[str], None] = lambda _: None,
) -> Page:
    """Return the contents of a report's page.

    If a disassembler is missing or cannot read an image, the page says so.

    Args:
        bundle: images of the report.
        report: report to show.
        search: places to search for the disassembler.
        folder: folder of the bundle's source files, if available.
        limits: limits of the code on the page.
        workers: number of concurrent disassemblers.
        on_image: function that receives the id of each image before its code is read.

    Raises:
        BundleError: an image is damaged.
    """
    rows = list(_rows(report))
    with ThreadPoolExecutor(workers) as pool:
        maker = _Maker(bundle, search, limits)
        maker.start(rows, pool)
        images = []
        for kernel, variant, image in rows:
            name = image_id(variant, image)
            if maker.room:
                on_image(name)
            images.append(maker.image(name, kernel, variant, image))
        pool.shutdown(cancel_futures=True)  # the page may be full before all images are read
    files = maker.sources(folder)
    return Page(
        report=report,
        images=tuple(images),
        files=files,
        embedded=maker.embedded,
        left_out=maker.left_out,
        tool=maker.tool,
    )


def _rows(report: Report) -> Iterator[Row]:
    for kernel in report.info.kernels:
        for variant in kernel.variants:
            for image in variant.images:
                yield kernel, variant, image


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Code:
    """The name of one image's listing, or a note why there is none."""

    code: str = ""
    note: str = ""


class _Maker:
    """Reader of code and sources until the page is full."""

    def __init__(self, bundle: Images, search: ToolSearch, limits: Limits) -> None:
        self._bundle = bundle
        self._search = search
        self._limits = limits
        self._files: dict[str, int] = {}
        self._read: dict[tuple[str, str], _Code] = {}
        self._size = 0
        self._left = 0
        self._texts: dict[tuple[str, str], Future[tuple[str, str]]] = {}
        self._missing = ""
        self.embedded: dict[str, str] = {}
        self.tool = ""

    def start(self, rows: Sequence[Row], pool: Executor) -> None:
        """Start to disassemble, with one process per image.

        The order is the first image of each kernel, then the second of each, and so on.
        """
        unique = {
            (image.digest, image.symbol): (kernel.name, image)
            for kernel, _, image in rows
            if image.target.kind is TargetKind.CUBIN
        }
        before: Counter[str] = Counter()
        order = {}
        for key, (kernel, _) in unique.items():
            order[key] = before[kernel]
            before[kernel] += 1
        most = min(self._limits.disassembled, self._limits.images)
        for key in sorted(unique, key=order.__getitem__)[:most]:
            image = unique[key][1]
            data = self._bundle.image(image.digest)
            self._texts[key] = pool.submit(
                machine_code, data, image.symbol, self._search, places=True
            )

    @property
    def room(self) -> bool:
        """Whether the code of another image fits."""
        return len(self._read) < self._limits.images and self._size < self._limits.bytes

    @property
    def left_out(self) -> str:
        """Reason why code is missing; empty if none is."""
        reasons = [self._missing] if self._missing else []
        if self._left:
            kept = len(self._read)
            reasons.append(
                f"the code of {self._left} images is left out, {kept} have it: --select chooses whose it is"
            )
        return "; ".join(reasons)

    def image(
        self, name: str, kernel: KernelInfo, variant: VariantInfo, image: ImageInfo
    ) -> PageImage:
        """Return an image with its code."""
        code = self._code(name, image)
        spilled = spills(image.resources)
        warnings: tuple[str, ...] = ()
        if spilled:
            warnings = (
                f"registers are spilled to local memory, {spilled} bytes a thread: smaller tiles or more registers help",
            )
        return PageImage(
            id=name,
            kernel=kernel,
            variant=variant,
            image=image,
            held=residency(kernel, variant, image),
            code=code.code,
            note=code.note,
            warnings=warnings,
        )

    def sources(self, folder: Path) -> tuple[PageFile, ...]:
        """Return the sources of the listings.

        Unchanged sources of the bundle are embedded.
        """
        digests = dict(self._bundle.info.sources)
        files: list[PageFile] = []
        for name in self._files:
            lines = source_lines(folder / name, digests[name]) if name in digests else []
            note = "" if lines else _why_no_source(name, known=name in digests)
            code = f"file{len(files)}" if lines and self._size < self._limits.bytes else ""
            if code:
                self._embed(code, {"lines": lines})
            elif lines:
                note = "left out: the page has no more room"
            files.append(PageFile(name=name, code=code, note=note))
        return tuple(files)

    def _code(self, name: str, image: ImageInfo) -> _Code:
        key = (image.digest, image.symbol)  # variants may share an image
        if key not in self._read:
            if not self.room:
                self._left += 1
                return _Code(note="left out: the page has no more room")
            if image.target.kind is TargetKind.CUBIN and key not in self._texts:
                self._left += 1
                return _Code(note=f"not disassembled: --html with --select '{name}' does so")
            try:
                self._read[key] = self._take(name, image)
            except ToolchainError as exc:
                self._missing = self._missing or f"machine code is missing: {in_short(exc)}"
                self._read[key] = _Code(note=f"{in_short(exc)}{f' ({exc.fix})' if exc.fix else ''}")
            except NotTextError as exc:
                self._read[key] = _Code(note=exc.what)
            except TileIRError as exc:
                self._read[key] = _Code(note=f"this Tile IR cannot be read: {exc.what}")
        return self._read[key]

    def _take(self, name: str, image: ImageInfo) -> _Code:
        data = self._bundle.image(image.digest)
        match image.target.kind:
            case TargetKind.CUBIN:
                tool, text = self._texts.pop((image.digest, image.symbol)).result()
                self.tool = tool.strip()
                listing = sass_listing(text)
            case TargetKind.PTX:
                listing = ptx_listing(ptx_text(data, image.symbol, name))
            case TargetKind.LTOIR:
                return _Code(
                    note="LTO-IR has no text: nvJitLink makes machine code of it where it is loaded"
                )
            case TargetKind.TILEIR:
                listing = tileir_listing(read_module(data))
        code, most = f"code{len(self._read)}", self._limits.lines
        self._embed(code, self._packed(listing))
        cut = len(listing.lines) - most
        return _Code(
            code=code,
            note=f"the last {cut} of {len(listing.lines)} lines are left out" if cut > 0 else "",
        )

    def _packed(self, listing: Listing) -> dict[str, object]:
        """Return a listing whose lines refer to places by number, because places repeat."""
        numbers: dict[object, int] = {(): -1}
        table: list[list[list[int]]] = []
        at = []
        most = self._limits.lines
        for chain in listing.places[:most]:
            if chain not in numbers:
                numbers[chain] = len(table)
                table.append(
                    [[self._files.setdefault(file, len(self._files)), line] for file, line in chain]
                )
            at.append(numbers[chain])
        return {"lines": listing.lines[:most], "at": at, "places": table}

    def _embed(self, name: str, value: object) -> None:
        text = json.dumps(value, separators=(",", ":"))
        self.embedded[name] = base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
        self._size += len(self.embedded[name])


def _why_no_source(name: str, *, known: bool) -> str:
    if not known:
        return "its text is not at hand: only sources of a bundle are, in the project that it was built from"
    return f"{name} is not here, or has changed since this was built: inspect from the directory of the project"
