"""Read the files of a prebuilt kernel: check their digests and detect their kinds."""

from __future__ import annotations

import dataclasses
import enum
import re

from tilec.frontends.tools.files import fault, read, within
from tilec.model.job import InputFile, Option, Source
from tilec_runtime.model.digest import sha256


class FileKind(enum.Enum):
    """Kinds of compiled code, by their names in messages."""

    PTX = "PTX"
    CUBIN = "a cubin"
    FATBIN = "a fatbin"
    LTOIR = "LTO-IR"
    NVVM = "NVVM IR"
    TILEIR = "Tile IR"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Prebuilt:
    """A file whose digest matches the manifest."""

    path: str
    kind: FileKind
    data: bytes
    digest: str

    @property
    def text(self) -> str:
        """The bytes as PTX or NVVM text, without the zero byte that compilers append."""
        return self.data.rstrip(b"\0").decode("utf-8", "surrogateescape")


_MAGIC = (
    (b"\x7fELF", FileKind.CUBIN),
    (b"\x50\xed\x55\xba", FileKind.FATBIN),
    (b"\xedCN\x7f", FileKind.LTOIR),
    (b"BC\xc0\xde", FileKind.NVVM),
    (b"\xde\xc0\x17\x0b", FileKind.NVVM),
    (b"\x7fTileIR\0", FileKind.TILEIR),
)
_PTX = re.compile(r"^\s*\.version\b", re.MULTILINE)
_NVVM_TEXT = re.compile(
    r"^(?:target (?:triple|datalayout)\b|define\b|source_filename\b|!nvvm\.annotations\b)",
    re.MULTILINE,
)


def digests_stated(source: Source) -> dict[str, str]:
    """Return the stated digest of each file, the source first; empty if none is stated."""
    options: dict[str, Option] = dict(source.options)
    stated = options.get("sha256", "")
    files = options.get("files", ())
    digests = {source.path: str(stated)}
    for pair in files if isinstance(files, tuple) else ():
        if isinstance(pair, tuple):
            digests.setdefault(pair[0], pair[1])
    return digests


def input_files(source: Source) -> list[InputFile]:
    """Return every file with its current digest.

    Raises:
        CompileError: a file cannot be read, or lies outside of the project.
    """
    return sorted(
        (
            InputFile(name=name, digest=sha256(read(source.root, within(source.root, name))))
            for name in digests_stated(source)
        ),
        key=lambda f: f.name,
    )


def prebuilt_files(source: Source) -> tuple[Prebuilt, ...]:
    """Return the files of a kernel, the source first.

    Raises:
        CompileError: a file cannot be read, is of an unknown kind, or has another digest than the
            manifest states.
    """
    return tuple(_checked(source, name, stated) for name, stated in digests_stated(source).items())


def kind_of(name: str, data: bytes) -> FileKind:
    """Return the kind of a file, by its first bytes.

    Raises:
        CompileError: the kind is unknown.
    """
    for magic, kind in _MAGIC:
        if data.startswith(magic):
            return kind
    text = data.rstrip(b"\0").decode("utf-8", "surrogateescape")
    if "\0" not in text:
        if _PTX.search(text):
            return FileKind.PTX
        if _NVVM_TEXT.search(text):
            return FileKind.NVVM
    raise fault(
        name,
        f"this is no compiled kernel: it begins with {data[:8].hex(' ') or 'nothing'}",
        cause="PTX has a .version; cubins, fatbins, LTO-IR, NVVM bitcode and Tile IR are known by their first bytes",
        fix="see that the file is whole, and of one of these kinds",
    )


def _checked(source: Source, name: str, stated: str) -> Prebuilt:
    data = read(source.root, within(source.root, name))
    digest = sha256(data)
    key = f'sha256 = "{digest}"' if name == source.path else f'files = {{ "{name}" = "{digest}" }}'
    if not stated:
        raise fault(
            name,
            f"the manifest does not state the digest of this file, which is {digest}",
            fix=f"where this is the file that you mean, write {key}",
        )
    if stated.lower() != digest:
        message = f"the digest of this file is {digest}, the manifest states {stated}"
        raise fault(
            name,
            message,
            cause="the file was made anew or changed, or the digest is another file's",
            fix=f"where this is the file that you mean, write {key}",
        )
    return Prebuilt(path=name, kind=kind_of(name, data), data=data, digest=digest)
