"""Messages between a build and the workers of a cluster."""

from __future__ import annotations

import dataclasses
import pickle
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from tilec.compile.worker import Compile, Identity, Reply
from tilec.model.job import InputFile, Source
from tilec_runtime.model.digest import sha256

Value = TypeVar("Value")
_SHOWN = 12  # digits of a digest in messages


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """The files that compiling a source reads.

    Attributes:
        language: language of the source.
        source: path and options of the source; its root is on the build's machine.
        files: names and digests, including files of tools (`<toolkit>/…`).
        inputs: digest of `files`.
    """

    language: str
    source: Source
    files: tuple[InputFile, ...]
    inputs: str

    @property
    def digest(self) -> str:
        """A digest that identifies the tree."""
        return sha256(repr((self.language, self.source, self.inputs)).encode("utf-8", "replace"))

    @property
    def project_files(self) -> tuple[InputFile, ...]:
        """The files of the project."""
        return tuple(file for file in self.files if not file.name.startswith("<"))

    @property
    def folders(self) -> tuple[str, ...]:
        """The directories that must exist, even without files."""
        folders = dict(self.source.options).get("include", ())
        return tuple(map(str, folders)) if isinstance(folders, tuple) else ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Supplies:
    """The files and settings that a worker needs before its first task.

    Attributes:
        wanted: required versions and tools.
        frontends: `module:Class` of each language's frontend.
        prefer, cuda: preferences for tools, as in `ToolSearch`.
        trees: trees by digest.
        files: contents of files by digest.
        remote: URL of the remote cache for images; empty for none.
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
    """A worker's answer: its name in messages, and the differences that exclude it."""

    place: str
    differences: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """A task for a worker.

    Attributes:
        number: number of the task in its build.
        requests: requests, as in `Task`.
        tree: digest of the files that they read.
        limit: time limit of each request in seconds.
        grace: seconds after the limit until the process is killed.
        as_bytes: whether images return as bytes even if there is a remote cache.
    """

    number: int
    requests: tuple[Compile, ...]
    tree: str
    limit: float
    grace: float
    as_bytes: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Delivery:
    """A worker's result for a unit.

    Attributes:
        address: address of the worker.
        place: name of the worker in messages.
        replies: replies, as in `Pool`; their blobs cannot be read here.
        images: bytes of images by digest; the other images are in the remote cache.
        unshared: reason why images are not in the remote cache; empty if they are, or should not
            be.
        absent: whether the worker is new and has not joined the build.
        broken: the worker's failure; empty for none.
    """

    address: str
    place: str
    replies: tuple[Reply, ...] = ()
    images: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    unshared: str = ""
    absent: bool = False
    broken: str = ""


def pack(value: object) -> bytes:
    """Pickle a value to bytes, which the scheduler passes on without unpickling."""
    return zlib.compress(pickle.dumps(value), 1)


def unpack(data: bytes, kind: type[Value]) -> Value:
    """Unpickle the bytes of `pack`.

    Raises:
        TypeError: the value has another class.
    """
    value = pickle.loads(zlib.decompress(data))  # noqa: S301 - as trusted as the cluster itself
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} came where a {kind.__name__} was due")
    return value


def write_tree(root: Path, tree: Tree, files: Mapping[str, bytes]) -> None:
    """Write the files of a tree below a directory.

    Raises:
        OSError: a file cannot be written, for example on a full disk.
    """
    for folder in tree.folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for file in tree.project_files:
        path = root / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[file.digest])


def is_intact(root: Path, tree: Tree) -> bool:
    """Return whether all files of a tree are unchanged on disk."""
    try:
        return all(
            sha256((root / file.name).read_bytes()) == file.digest for file in tree.project_files
        )
    except OSError:
        return False


def differences(wanted: Identity, has: Identity) -> Iterator[str]:
    """Yield the differences between a worker's versions and tools and the build's."""
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
