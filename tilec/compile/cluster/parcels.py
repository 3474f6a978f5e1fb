"""What travels between a build and the workers of a cluster."""

from __future__ import annotations

import dataclasses
import pickle
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from tilec.compile.pool import Answer
from tilec.compile.worker import Compile, Identity
from tilec.model.job import InputFile, Source
from tilec_runtime.model.digest import sha256

Value = TypeVar("Value")
_SHOWN = 12  # digits of a digest in messages


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """The files of the project that a source's compiles read.

    Attributes:
        language: of the source.
        source: its path and options; the root is where the project lies on the build's machine.
        files: names and digests, those of tools (`<toolkit>/…`) too.
        inputs: digest of `files`.
    """

    language: str
    source: Source
    files: tuple[InputFile, ...]
    inputs: str

    @property
    def digest(self) -> str:
        """What distinguishes it from other trees."""
        return sha256(repr((self.language, self.source, self.inputs)).encode("utf-8", "replace"))

    @property
    def project_files(self) -> tuple[InputFile, ...]:
        """Those of the project."""
        return tuple(file for file in self.files if not file.name.startswith("<"))

    @property
    def folders(self) -> tuple[str, ...]:
        """The directories that have to be there, with or without files."""
        folders = dict(self.source.options).get("include", ())
        return tuple(map(str, folders)) if isinstance(folders, tuple) else ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Supplies:
    """What a worker gets before it gets tasks.

    Attributes:
        wanted: versions and tools that it has to have.
        frontends: `module:Class` of each language's frontend.
        prefer, cuda: which tools are looked for, as in `ToolSearch`.
        trees: by their digest.
        files: contents of files, by their digest.
        remote: URL of the remote cache that images go to; empty for none.
    """

    wanted: Identity
    frontends: Mapping[str, str]
    prefer: str
    cuda: str
    trees: Mapping[str, Tree]
    files: Mapping[str, bytes]
    remote: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Joined:
    """A worker's answer: how messages call it, and why it cannot take part, if anything."""

    place: str
    differences: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """A task on its way to a worker.

    Attributes:
        number: of the task in its build.
        requests: as in `Task`.
        tree: digest of the files that they read.
        limit: seconds that each request may take.
        grace: seconds beyond it before its process is killed.
        as_bytes: images come back as bytes, whether or not there is a remote cache.
    """

    number: int
    requests: tuple[Compile, ...]
    tree: str
    limit: float
    grace: float
    as_bytes: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """What a worker sends back for a unit.

    Attributes:
        address: of the worker.
        place: how messages call it.
        answers: as in `Pool`. The blobs in them are not to be read.
        images: bytes of images, by their digest; those that are not here are in the remote cache.
        unshared: why images are not in the remote cache; empty where they are, or are not to be.
        absent: the worker is new and knows nothing of the build.
        broken: what keeps the worker from its work; empty for nothing.
    """

    address: str
    place: str
    answers: tuple[Answer, ...] = ()
    images: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    unshared: str = ""
    absent: bool = False
    broken: str = ""


def pack(value: object) -> bytes:
    """Return a value as bytes that the scheduler passes on without looking into them."""
    return zlib.compress(pickle.dumps(value), 1)


def unpack(data: bytes, kind: type[Value]) -> Value:
    """Return what was packed.

    Raises:
        TypeError: it is of another class.
    """
    value = pickle.loads(zlib.decompress(data))  # noqa: S301 - as trusted as the cluster itself
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} came where a {kind.__name__} was due")
    return value


def write_tree(root: Path, tree: Tree, files: Mapping[str, bytes]) -> None:
    """Write the files of a tree below a directory, as they lie in the project.

    Raises:
        OSError: the disk is full, say.
    """
    for folder in tree.folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for file in tree.project_files:
        path = root / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[file.digest])


def is_intact(root: Path, tree: Tree) -> bool:
    """Return whether every file of a tree is still as it was written."""
    try:
        return all(
            sha256((root / file.name).read_bytes()) == file.digest for file in tree.project_files
        )
    except OSError:
        return False


def differences(wanted: Identity, has: Identity) -> Iterator[str]:
    """Yield how versions and tools of a worker differ from those of the build."""
    for name, version in wanted.versions.items():
        if has.versions.get(name) != version:
            yield f"{name} {version} is wanted, it has {has.versions.get(name) or 'none'}"
    if wanted.own != has.own:
        same = wanted.versions.get("tilec") == has.versions.get("tilec")
        if same:
            yield (
                f"tilec's code {wanted.own[:_SHOWN]} is wanted, it has {has.own[:_SHOWN]} "
                "of the same version"
            )
    for language, tools in wanted.tools.items():
        if language in has.lacking:
            yield f"tools of language {language} are missing: {has.lacking[language]}"
            continue
        there = {tool.name: tool for tool in has.tools.get(language, ())}
        for tool in tools:
            other = there.get(tool.name)
            if other != tool:
                yield (
                    f"{tool.name} {tool.version} ({tool.digest[:_SHOWN]}) is wanted, it has "
                    + (f"{other.version} ({other.digest[:_SHOWN]})" if other else "none")
                )
    for name, digest in wanted.parts.items():
        if has.parts.get(name) != digest:
            other_digest = has.parts.get(name, "")
            yield f"{name} ({digest[:_SHOWN]}) is wanted, it has {other_digest[:_SHOWN] or 'none'}"
