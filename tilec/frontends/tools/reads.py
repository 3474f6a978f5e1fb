"""Files that the code of a source opened when it was executed: known only then, and inputs of its kernels from then on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tilec.frontends.tools.digests import file_sha256
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.job import InputFile

# The digest of a file that is not there: when it appears, it is another one.
GONE = ""
# What begins the names of inputs that are tilec's own code.
OWN = "<tilec>/"
_ENVIRONMENT = tuple(
    {os.path.realpath(place) for place in (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, Path(os.__file__).parent)}
)


def digest_of(root: str, name: str) -> str:
    """The SHA-256 of a file as it is now, or of the names in a directory (`name` then ends in a slash); `GONE` where it is not there."""
    path = Path(root, name)
    try:
        if name.endswith("/"):
            names = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith(".") and entry.name != "__pycache__")
            return sha256("\n".join(names).encode("utf-8", "surrogatepass"))
        return file_sha256(path)
    except OSError:
        return GONE


def digests(root: str, names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(name, digest) of each, sorted by name."""
    return tuple((name, digest_of(root, name)) for name in sorted(set(names)))


def with_reads(inputs: Iterable[InputFile], reads: Mapping[str, str]) -> tuple[InputFile, ...]:
    """The inputs of a source with what its code opened, by name and digest; a file that is among the inputs stays what it is there."""
    known = tuple(inputs)
    names = {file.name for file in known}
    added = [InputFile(name=name, digest=digest) for name, digest in reads.items() if name not in names]
    return tuple(sorted((*known, *added), key=lambda file: file.name)) if added else known


def is_installed(path: str) -> bool:
    """Whether a path belongs to an installed package: a virtual environment inside of a project is not part of it."""
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(path).parts)


def is_environment(path: str) -> bool:
    """Whether a path belongs to this Python: an installed package, the standard library, or whatever else comes with the environment."""
    return is_installed(path) or any(path == place or path.startswith(place.rstrip("/") + "/") for place in _ENVIRONMENT)
