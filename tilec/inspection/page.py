"""Contents of an HTML report: kernels, images, and a limited amount of code."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

from tilec.frontends.base import ToolSearch
from tilec.inspection.dump import FORMS, in_short, machine_code, ptx_text
from tilec.inspection.lines import Line, ptx_lines, sass_lines, tileir_lines
from tilec.inspection.occupancy import residency
from tilec.inspection.report import ImageRow, Report, images_of, spills
from tilec.inspection.tileir import source_lines
from tilec.model.occupancy import Occupancy
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.cpu.tileir.read import read_module
from tilec_runtime.errors import TileIRError, ToolchainError
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import KernelInfo, VariantInfo

Key: TypeAlias = tuple[str, str]  # digest and symbol: variants may share an image
_NAMES = {kind: name for name, kind in FORMS.items()}

# Images whose code is read; the tables list all images.
MOST_IMAGES = 200
# Images that are disassembled, unless the user chose some. A disassembler takes 0.4 s for each,
# mostly to start: two processes disassemble 16 images in 4 s.
MOST_DISASSEMBLED = 16
MOST_BYTES = 16 << 20  # of embedded code and sources
MOST_LINES = 50_000  # of one image; the rest is cut off
FULL = "left out: the page is full"


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
    """

    id: str
    kernel: KernelInfo
    variant: VariantInfo
    image: ImageInfo
    held: Occupancy | None
    code: str
    note: str

    @property
    def form(self) -> str:
        """Name of the image's textual form, or its kind if it has none."""
        kind = self.image.target.kind
        return _NAMES.get(kind, kind.value)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons why the image is slow."""
        spilled = spills(self.image.resources)
        if not spilled:
            return ()
        return (
            f"registers are spilled to local memory, {spilled} bytes a thread: smaller tiles or more registers help",
        )


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
    embedded: Mapping[str, str]
    left_out: str
    tool: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Code:
    """The code of one image, or a note why there is none; and the disassembler.

    Attributes:
        missing: why there is no machine code.
    """

    lines: Sequence[Line] = ()
    note: str = ""
    tool: str = ""
    missing: str = ""


class _Texts:
    """The embedded texts, up to a size."""

    def __init__(self) -> None:
        self.embedded: dict[str, str] = {}
        self.files: dict[str, int] = {}  # numbers of the sources that listings name
        self._size = 0

    def add(self, name: str, value: object) -> str:
        """Embed a value; return its name, or an empty text if the page is full."""
        if self._size >= MOST_BYTES:
            return ""
        text = json.dumps(value, separators=(",", ":"))
        packed = base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()
        self.embedded[name] = packed
        self._size += len(packed)
        return name

    def packed(self, lines: Sequence[Line]) -> dict[str, object]:
        """Return lines that refer to places by number, because places repeat."""
        numbers: dict[object, int] = {(): -1}
        table: list[list[list[int]]] = []
        at = []
        for _, chain in lines:
            if chain not in numbers:
                numbers[chain] = len(table)
                table.append(
                    [[self.files.setdefault(file, len(self.files)), line] for file, line in chain]
                )
            at.append(numbers[chain])
        return {"lines": [text for text, _ in lines], "at": at, "places": table}


def make_page(
    bundle: Bundle,
    report: Report,
    search: ToolSearch,
    folder: Path,
    *,
    disassembled: int = MOST_DISASSEMBLED,
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
        disassembled: maximum number of disassembled images.
        workers: number of concurrent disassemblers.
        on_image: function that receives the id of each image before its code is read.

    Raises:
        BundleError: an image is damaged.
    """
    rows = list(images_of(report.info))
    chosen = _chosen(rows, disassembled)
    codes: dict[Key, _Code] = {}
    with ThreadPoolExecutor(workers) as pool:
        futures = {
            key: pool.submit(_read, bundle.image(image.digest), image, search)
            for key, (_, image) in chosen.items()
        }
        for key, future in futures.items():
            on_image(chosen[key][0])
            codes[key] = future.result()
    texts = _Texts()
    shown = {key: _embedded(texts, f"code{n}", code) for n, (key, code) in enumerate(codes.items())}
    images = [_page_image(row, shown) for row in rows]
    left = sum(one.note.startswith("left out") for one in images)
    reasons = list(dict.fromkeys(code.missing for code in codes.values() if code.missing))[:1]
    if left:
        reasons.append(
            f"the code of {left} images is left out, {len(images) - left} have it: choose others with --select"
        )
    return Page(
        report=report,
        images=tuple(images),
        files=_sources(bundle, texts, folder),
        embedded=texts.embedded,
        left_out="; ".join(reasons),
        tool=next((code.tool for code in codes.values() if code.tool), ""),
    )


def _chosen(rows: Sequence[ImageRow], disassembled: int) -> dict[Key, tuple[str, ImageInfo]]:
    """Return the images whose code is read, with their ids.

    Cubins are the first of each kernel, then the second of each, and so on.
    """
    unique: dict[Key, tuple[str, ImageInfo]] = {}
    cubins: list[tuple[int, int, Key]] = []
    before: Counter[str] = Counter()
    for name, kernel, _, image in rows:
        key = (image.digest, image.symbol)
        if key not in unique and image.target.kind is TargetKind.CUBIN:
            cubins.append((before[kernel.name], len(cubins), key))
            before[kernel.name] += 1
        unique.setdefault(key, (name, image))
    left_out = {key for _, _, key in sorted(cubins)[disassembled:]}
    return {
        key: unique[key] for key in [one for one in unique if one not in left_out][:MOST_IMAGES]
    }


def _read(data: bytes, image: ImageInfo, search: ToolSearch) -> _Code:
    """Return the code of an image, line by line."""
    try:
        match image.target.kind:
            case TargetKind.CUBIN:
                tool, text = machine_code(data, image.symbol, search, places=True)
                return _Code(lines=list(sass_lines(text)), tool=tool.strip())
            case TargetKind.PTX:
                return _Code(lines=list(ptx_lines(ptx_text(data, image.symbol))))
            case TargetKind.TILEIR:
                return _Code(lines=list(tileir_lines(read_module(data))))
            case TargetKind.LTOIR:
                note = "LTO-IR has no text: nvJitLink makes machine code of it where it is loaded"
                return _Code(note=note)
    except ToolchainError as exc:
        note = f"{in_short(exc)}{f' ({exc.fix})' if exc.fix else ''}"
        return _Code(note=note, missing=f"machine code is missing: {in_short(exc)}")
    except TileIRError as exc:
        return _Code(note=f"this Tile IR cannot be read: {exc.what}")


def _embedded(texts: _Texts, name: str, code: _Code) -> tuple[str, str]:
    """Embed the code of an image; return its name (empty for none) and a note."""
    if not code.lines:
        return "", code.note
    cut = len(code.lines) - MOST_LINES
    note = f"the last {cut} of {len(code.lines)} lines are left out" if cut > 0 else ""
    added = texts.add(name, texts.packed(code.lines[:MOST_LINES]))
    return added, note if added else FULL


def _page_image(row: ImageRow, shown: Mapping[Key, tuple[str, str]]) -> PageImage:
    name, kernel, variant, image = row
    code, note = shown.get(
        (image.digest, image.symbol), ("", f"left out: --html with --select '{name}' shows it")
    )
    return PageImage(
        id=name,
        kernel=kernel,
        variant=variant,
        image=image,
        held=residency(kernel, variant, image),
        code=code,
        note=note,
    )


def _sources(bundle: Bundle, texts: _Texts, folder: Path) -> tuple[PageFile, ...]:
    """Return the sources of the listings, with the text of the bundle's unchanged sources."""
    digests = dict(bundle.info.sources)
    files: list[PageFile] = []
    for name in texts.files:
        code, note = "", ""
        lines = source_lines(folder / name, digests[name]) if name in digests else []
        if lines:
            code = texts.add(f"file{len(files)}", {"lines": lines})
            note = "" if code else FULL
        elif name in digests:
            note = f"{name} is missing, or has changed since the build: run inspect in the project's directory"
        else:
            note = "only sources of the bundle have their text here"
        files.append(PageFile(name=name, code=code, note=note))
    return tuple(files)
