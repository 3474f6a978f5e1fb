"""The contract of frontends, as functions that their tests call with a sample.

Each raises AssertionError with the difference.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tilec.frontends.base import Frontend, ToolSearch
from tilec.model.declaration import KernelDecl
from tilec.model.job import Job, Options, Source
from tilec_runtime.errors import CompileError, TilecError
from tilec_runtime.model.arch import Target, TargetKind
from tilec_runtime.model.image import Image


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A small project in the frontend's language.

    Attributes:
        make: the frontend's class.
        files: text (or bytes) of each file, by its path in the project.
        path: the file that has the kernels.
        pulled_in: another of `files` that `path` pulls in (a header, a module), empty where the
            language has none.
        kernel: name of a kernel in it.
        job: a job for that kernel, from the source and the declaration.
        broken: text (or bytes) for `path` that cannot be read or compiled, and the line with the
            fault; 0 where the language cannot tell.
        options: the language's options.
        search: where the frontend looks for its tools.
        said: the manifest says the language of `path`, whose suffix means another.
    """

    make: Callable[[ToolSearch], Frontend]
    files: Mapping[str, str | bytes]
    path: str
    pulled_in: str = ""
    kernel: str
    job: Callable[[Source, KernelDecl], Job]
    broken: tuple[str | bytes, int]
    options: Options = ()
    search: ToolSearch = dataclasses.field(default_factory=ToolSearch)
    said: bool = False


def check_all(sample: Sample, folder: Path) -> None:
    """Every check below; `folder` is an empty directory."""
    check_attributes(sample)
    check_inputs(sample, folder / "inputs")
    check_declare(sample, folder / "declare")
    check_compile(sample, folder / "compile")
    check_directories(sample, folder / "directories")
    check_errors(sample, folder / "errors")


def check_attributes(sample: Sample) -> None:
    """Name, suffixes and kinds are of the right shape, tools have versions and digests, and
    refusing is a text, never an exception.
    """
    frontend = sample.make(sample.search)
    _require(
        re.fullmatch(r"[a-z][a-z0-9_-]*", frontend.name),
        f"name {frontend.name!r} is not lower case letters, digits, _ and -",
    )
    _require(
        all(suffix.startswith(".") for suffix in frontend.suffixes),
        f"suffixes {frontend.suffixes} do not all start with a dot",
    )
    fits = sample.said or not frontend.suffixes or sample.path.endswith(frontend.suffixes)
    _require(fits, f"{sample.path} has none of the suffixes {frontend.suffixes}")
    _require(
        frontend.kinds and all(isinstance(kind, TargetKind) for kind in frontend.kinds),
        f"kinds {frontend.kinds} are not target kinds",
    )
    _require(isinstance(frontend.simt, bool), "simt is not a bool")
    _require(all(isinstance(name, str) for name in frontend.hints), "hints are not names")
    for tool in frontend.toolchain():
        _require(tool.name and tool.version, f"a tool without name or version: {tool}")
        _require(
            re.fullmatch(r"[0-9a-f]{64}", tool.digest),
            f"the digest of {tool.name} is no SHA-256: {tool.digest!r}",
        )
    _require(
        tuple(frontend.toolchain()) == tuple(sample.make(sample.search).toolchain()),
        "two instances find different tools",
    )
    for name in ("sm_75", "sm_80", "sm_90a", "sm_100f", "sm_121", "compute_80", "lto_80", "tileir"):
        target = Target.parse(name)
        if target.kind in frontend.kinds:
            _require(isinstance(frontend.refuse(target), str), f"refuse({name}) gives no text")


def check_inputs(sample: Sample, folder: Path) -> None:
    """Check that input files are sorted, relative to the project, with digests of their content."""
    source = _lay_out(sample, folder / "project")
    frontend = sample.make(sample.search)
    before = tuple(frontend.inputs(source))
    names = [file.name for file in before]
    _require(names == sorted(set(names)), f"inputs are not sorted by name, or not unique: {names}")
    _require(sample.path in names, f"{sample.path} is not among its own inputs {names}")
    _require(
        not any(name.startswith("/") or str(folder) in name for name in names),
        f"inputs have absolute names: {names}",
    )
    digests = {file.name: file.digest for file in before}
    for name in {sample.path, sample.pulled_in} - {""}:
        _require(
            digests.get(name)
            == hashlib.sha256((folder / "project" / name).read_bytes()).hexdigest(),
            f"{name} has another digest",
        )
    if sample.pulled_in:
        with (folder / "project" / sample.pulled_in).open("a", encoding="utf-8") as file:
            file.write("\n")
        after = {file.name: file.digest for file in frontend.inputs(source)}
        changed = sorted(name for name in after if after[name] != digests.get(name))
        _require(
            changed == [sample.pulled_in],
            f"an edit of {sample.pulled_in} changed the digests of {changed}",
        )


def check_declare(sample: Sample, folder: Path) -> None:
    """Declarations are equal each time and in each directory, can be pickled, and have places
    inside the source.
    """
    source, other = _lay_out(sample, folder / "one"), _lay_out(sample, folder / "two" / "deeper")
    frontend = sample.make(sample.search)
    declared = tuple(frontend.declare(source))
    _require(
        declared == tuple(frontend.declare(source)), "declaring twice gives different declarations"
    )
    _require(
        declared == tuple(sample.make(sample.search).declare(other)),
        "declarations depend on the project's directory",
    )
    _require(
        pickle.loads(pickle.dumps(declared)) == declared,  # noqa: S301  (pickled one line above)
        "declarations do not survive pickling",
    )
    _require(
        sample.kernel in [decl.name for decl in declared],
        f"no kernel {sample.kernel!r} among {[decl.name for decl in declared]}",
    )
    lines = _bytes(sample.files[sample.path]).count(b"\n") + 1
    for decl in declared:
        _require(
            decl.location.file == sample.path,
            f"{decl.name} is placed in {decl.location.file}, not in {sample.path}",
        )
        _require(
            1 <= decl.location.line <= lines,
            f"{decl.name} is placed in line {decl.location.line} of {lines}",
        )


def check_compile(sample: Sample, folder: Path) -> None:
    """A job gives an image whose row tells the truth about its bytes, and the same bytes each time,
    also from a pickled job.
    """
    job = _job(sample, _lay_out(sample, folder / "project"))
    image = sample.make(sample.search).compile(job)
    _require(isinstance(image, Image), f"compile gives a {type(image).__name__}")
    _require(
        image.info.target == job.target, f"compiled for {image.info.target}, asked for {job.target}"
    )
    _require(
        image.info.size == len(image.data) > 0,
        f"the row says {image.info.size} bytes, the image has {len(image.data)}",
    )
    _require(
        image.info.digest == hashlib.sha256(image.data).hexdigest(),
        "the row has another digest than the image",
    )
    _require(bool(image.info.symbol), "the row names no entry point")
    _require(
        all(slot.size > 0 and slot.align > 0 for slot in image.abi),
        f"an ABI slot without size or alignment: {image.abi}",
    )
    _require(pickle.loads(pickle.dumps(image)) == image, "the image does not survive pickling")  # noqa: S301
    again = sample.make(sample.search).compile(pickle.loads(pickle.dumps(job)))  # noqa: S301
    _require(again == image, "compiling twice gives different images")


def check_directories(sample: Sample, folder: Path) -> None:
    """The image does not depend on where the project is, and does not tell."""
    images = []
    for name in ("one", "two/deeper and with a space"):
        job = _job(sample, _lay_out(sample, folder / name))
        images.append(sample.make(sample.search).compile(job))
    _require(images[0] == images[1], "the image depends on the project's directory")
    _require(str(folder).encode() not in images[0].data, "the image holds an absolute path")


def check_errors(sample: Sample, folder: Path) -> None:
    """A source with a fault gives a CompileError that says where; a missing one gives an error of
    tilec.
    """
    text, line = sample.broken
    source = _lay_out(sample, folder / "good")
    job = _job(sample, source)
    (folder / "good" / sample.path).write_bytes(_bytes(text))
    frontend = sample.make(sample.search)
    error = None
    try:
        frontend.declare(source)
        frontend.compile(job)
    except CompileError as exc:
        error = exc
    _require(
        error is not None, "a source with a fault is neither refused by declare nor by compile"
    )
    assert error is not None
    _require(
        pickle.loads(pickle.dumps(error)).diagnostics == error.diagnostics,  # noqa: S301 - its own
        "the error does not survive pickling",
    )
    locations = [diagnostic.location for diagnostic in error.diagnostics if diagnostic.location]
    if line:
        _require(
            any(location.file == sample.path and location.line == line for location in locations),
            f"no diagnostic at {sample.path}:{line}, only at {[str(location) for location in locations]}",
        )
    (folder / "good" / sample.path).unlink()
    try:
        frontend.inputs(source)
        frontend.declare(source)
    except TilecError:
        return
    _require(False, "a source that is not there is no error")


def _lay_out(sample: Sample, root: Path) -> Source:
    for name, text in sample.files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_bytes(text))
    return Source(root=str(root), path=sample.path, options=sample.options)


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _job(sample: Sample, source: Source) -> Job:
    for decl in sample.make(sample.search).declare(source):
        if decl.name == sample.kernel:
            return sample.job(source, decl)
    raise AssertionError(f"no kernel {sample.kernel!r} in {sample.path}")


def _require(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)
