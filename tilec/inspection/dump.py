"""Code of one image as text: PTX, Tile IR, and disassembled machine code."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
import tempfile
from pathlib import Path

from tilec.frontends.base import ToolSearch
from tilec.frontends.tools.run import run_tool
from tilec.frontends.tools.search import find_tool
from tilec.inspection.report import images_of
from tilec.inspection.tileir import tileir_text
from tilec_runtime.bundle.cubin import entry_index
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import BundleError, ToolchainError, UsageError
from tilec_runtime.model.arch import TargetKind
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.suggest import did_you_mean

_ENTRY = re.compile(
    r"^[ \t]*(?:// \.(?:globl|weak)[^\n]*\n)?(?:\.(?:visible|weak)[ \t]+)?\.entry[ \t]+(?P<name>[\w$%]+)[^{};]*\{",
    re.MULTILINE,
)
_TOKEN = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|[{}]')
IDS_SHOWN = 12
TIMEOUT = 120.0


# Textual forms, each with the kind of its images.
FORMS = {"ptx": TargetKind.PTX, "sass": TargetKind.CUBIN, "tileir": TargetKind.TILEIR}
_EXAMPLES = {"ptx": "compute_80", "sass": "sm_90", "tileir": "tileir"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Dump:
    """The text of one image, and the tool that produced it (empty for tilec)."""

    id: str
    image: ImageInfo
    text: str
    tool: str = ""


def dump(
    bundle: Bundle,
    form: str,
    select: str,
    search: ToolSearch,
    folder: Path = Path(),
) -> Dump:
    """Return the text of the one image that `select` names.

    Args:
        bundle: images to select from.
        form: form of the text, as in `FORMS`.
        select: id of the image (`gemm-f16-BM128-sm_90`), or a glob that matches only this image.
            Empty if there is only one image.
        search: places to search for the disassembler.
        folder: folder of the bundle's source files, if available, for source lines.

    Raises:
        UsageError: `select` names no such image, or several.
        ToolchainError: the disassembler is missing, or cannot read the image.
        BundleError: the image is damaged.
        TileIRError: Tile IR is damaged, or has an unknown operation.
    """
    name, image = pick(bundle, form, select)
    data, tool = bundle.image(image.digest), ""
    if form == "ptx":
        text = ptx_text(data, image.symbol)
    elif form == "sass":
        tool, text = machine_code(data, image.symbol, search)
    else:
        text = tileir_text(data, bundle.info.sources, folder)
    return Dump(id=name, image=image, text=text, tool=tool)


def machine_code(
    data: bytes, symbol: str, search: ToolSearch, *, places: bool = False
) -> tuple[str, str]:
    """Return the disassembly of one entry point of a cubin.

    Args:
        data: bytes of the cubin.
        symbol: name of the entry point.
        search: places to search for the disassembler.
        places: whether to add source lines, if the cubin has them and nvdisasm is installed.

    Returns:
        Tool with version, and text.

    Raises:
        ToolchainError: no disassembler is installed, or it cannot read the image.
    """
    tools = _disassemblers(data, symbol)
    if places:
        tools["nvdisasm"] = ("-gi", *tools["nvdisasm"])
    return _disassemble(data, search, tools)


def in_short(error: ToolchainError) -> str:
    """Format the error of a disassembler as one line, without the searched places."""
    return error.what.splitlines()[0].partition("; looked for")[0]


def ptx_text(data: bytes, symbol: str) -> str:
    """Return the PTX of an image, without the entry points of other variants.

    Bytes that are not UTF-8, such as in comments, are escaped.

    Args:
        data: bytes of the image.
        symbol: entry point of the image.
    """
    return _one_entry(data.rstrip(b"\0").decode("utf-8", "backslashreplace"), symbol)


def pick(bundle: Bundle, form: str, select: str) -> tuple[str, ImageInfo]:
    """Return the id and the index row of the one image of a form that `select` names.

    Raises:
        UsageError: `select` names no image, or several.
    """
    rows = [(name, image) for name, _, _, image in images_of(bundle.info)]
    images = {name: image for name, image in rows if image.target.kind is FORMS[form]}
    if select in images:
        return select, images[select]
    names = [name for name in images if not select or fnmatch.fnmatchcase(name, select)]
    if len(names) == 1:
        return names[0], images[names[0]]
    kind = FORMS[form].value
    if not images:
        have = sorted({image.target.kind.value for _, image in rows})
        raise UsageError(
            f"--{form}: the bundle has no {kind} image; it has {' and '.join(have) or 'no image at all'}",
            fix=f"add a {_EXAMPLES[form]} target to [targets] and build again",
        )
    listed = shown(names or list(images))
    if names:
        whose = f"{select!r} matches {len(names)}" if select else f"the bundle has {len(names)}"
        raise UsageError(
            f"--{form}: {whose} {kind} images: {listed}",
            fix="name one with --select ID",
        )
    raise UsageError(
        f"--{form}: no {kind} image {select!r}{did_you_mean(select, images)}",
        fix=f"there are {listed}",
    )


def shown(names: list[str]) -> str:
    """Format a long list of names as `a, b, c and 5 more`."""
    more = f" and {len(names) - IDS_SHOWN} more" if len(names) > IDS_SHOWN else ""
    return f"{', '.join(names[:IDS_SHOWN])}{more}"


def _one_entry(text: str, symbol: str) -> str:
    """Return PTX without the other entry points; functions are kept."""
    parts, kept = [], 0
    entries = list(_ENTRY.finditer(text))
    if symbol not in {entry["name"] for entry in entries}:
        return text
    for entry in entries:
        if entry["name"] != symbol:
            parts.append(text[kept : entry.start()])
            kept = _end(text, entry.end())
    return "".join((*parts, text[kept:]))


def _end(text: str, start: int) -> int:
    """Return the end of a body whose opening brace is before `start`."""
    depth = 1
    for token in _TOKEN.finditer(text, start):
        depth += (token[0] == "{") - (token[0] == "}")
        if not depth:
            return token.end()
    return len(text)


def _disassemblers(data: bytes, symbol: str) -> dict[str, tuple[str, ...]]:
    """Return disassemblers with their flags.

    If the image has several entry points, the flags select one.
    """
    try:
        index = entry_index(data, symbol)
    except BundleError:
        index = 0  # the disassembler reports the problem
    alone = (("-fun", str(index)), ("-fun", symbol)) if index else ((), ())
    return {"nvdisasm": ("-c", *alone[0]), "cuobjdump": ("-sass", *alone[1])}


def _disassemble(
    data: bytes, search: ToolSearch, tools: dict[str, tuple[str, ...]]
) -> tuple[str, str]:
    """Run the first installed tool; return its name with version, and its output."""
    missing: ToolchainError | None = None
    for name, flags in tools.items():
        try:
            tool = find_tool(name, search)
        except ToolchainError as exc:
            missing = missing or exc
            continue
        with tempfile.TemporaryDirectory(prefix="tilec-") as directory:
            path = Path(directory) / "image.cubin"
            path.write_bytes(data)
            done = run_tool(
                [tool.path, *flags, str(path)], timeout=TIMEOUT, env={"PATH": search.path}
            )
        if done.timed_out:
            raise ToolchainError(
                f"{tool.name} did not finish in {TIMEOUT:.0f} s", fix="dump a smaller image"
            )
        if done.rc != 0:
            words = (done.stderr or done.stdout).strip().replace(str(path), "image").splitlines()
            raise ToolchainError(
                f"{tool.name} {tool.version} cannot read this image: {words[0] if words else f'exit status {done.rc}'}",
                cause="the image was made by a newer toolkit than this disassembler",
                fix="install the toolkit that built the bundle (`tilec inspect` lists it)",
            )
        return f"{tool.name} {tool.version}", done.stdout
    assert missing is not None
    raise missing
