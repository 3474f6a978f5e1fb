"""A project's working directory `.tilec`: the lock, what the last build was made of, and what it wrote."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tilec import __version__
from tilec.bundle.atomic import atomic_write, output_error
from tilec.bundle.format import to_index
from tilec.compiler import own
from tilec.errors import OutputError
from tilec.manifest.types import Manifest
from tilec.model.digest import canonical_json
from tilec.model.kernel import BundleInfo

_VERSION = 1


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """A file that a build wrote, or found as it should be.

    Attributes:
        kind: `bundle`, `package`, `wheel`, `fatbin`, `cubin` or `ptx`.
        path: absolute.
        size: bytes.
        digest: SHA-256 of its bytes (hex).
        changed: whether this build wrote it.
    """

    kind: str
    path: str
    size: int
    digest: str
    changed: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Fingerprint:
    """Everything that a build's outputs depend on, as one digest."""

    value: str

    @classmethod
    def of(cls, keys: Sequence[str], draft: BundleInfo, emit: Sequence[str], manifest: Manifest) -> Fingerprint:
        """Digest of the jobs' keys in order, the index without its images, and how it is written.

        Args:
            keys: cache keys of the jobs.
            draft: the bundle's index without variants.
            emit: what is written.
            manifest: for output directory, licence files and budgets.
        """
        digest = hashlib.sha256()
        for key in keys:
            digest.update(key.encode())
        licences = []
        for name in manifest.package.license_files:
            with contextlib.suppress(OSError):
                licences.append([name, hashlib.sha256((Path(manifest.root) / name).read_bytes()).hexdigest()])
        budgets = [dataclasses.astuple(kernel.budget) for kernel in manifest.kernels]
        output = [manifest.output.dir, manifest.output.max_size]
        digest.update(canonical_json([_VERSION, __version__, own.digest(), list(emit), output, licences, budgets]))
        digest.update(to_index(draft))
        return cls(digest.hexdigest())


class WorkDir:
    """`.tilec` in a project's directory. Made when first written to; ignored by git through its own .gitignore.

    Args:
        root: the project's directory.
        aside: the folder in it of a build that is none of the project's outputs, with what is known of such builds.
    """

    def __init__(self, root: Path, aside: str = "") -> None:
        self._root = root
        self.path = root / ".tilec"
        self.spool = self.path / f"spool-{os.getpid()}"  # of this process alone: a check may run beside a build
        self.kept = self.path / "failed"
        self._state = self.path / aside / "state.json"
        self._keys = self.path / aside / "keys.json"

    @contextlib.contextmanager
    def lock(self, note: Callable[[str], None]) -> Iterator[None]:
        """Keep other builds of this project waiting; the lock goes with the process that holds it, however that ends.

        Raises:
            OutputError: the project's directory cannot be written.
        """
        self.ignore()
        try:
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as exc:
            raise self._unusable(exc) from exc
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                note("another build of this project is running: waiting for it")
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError:
                note(f"{self.path} is on a file system without locks: do not run two builds of this project at once")
            self._sweep()
            yield
        finally:
            os.close(descriptor)

    def ignore(self) -> None:
        """Make the directory, and let git take no note of it.

        Raises:
            OutputError: the project's directory cannot be written.
        """
        try:
            self.path.mkdir(exist_ok=True)
            ignore = self.path / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
        except OSError as exc:
            raise self._unusable(exc) from exc

    def _unusable(self, exc: OSError) -> OutputError:
        if self.path.exists() and not self.path.is_dir():
            return OutputError(f"{self.path} is a file, where tilec keeps what it knows of the last build", fix="remove it, or rename it")
        error = output_error(self.path, exc)
        fix = error.fix if exc.errno in (errno.ENOSPC, errno.EDQUOT) else "make the project's directory writable, or build a copy of it"
        return OutputError(error.what, cause=error.cause, fix=fix)

    def _sweep(self) -> None:
        """Remove what killed processes left."""
        for left in self.path.glob("spool-*"):
            pid = left.name.partition("-")[2]
            if pid.isdigit() and not Path("/proc", pid).exists():
                shutil.rmtree(left, ignore_errors=True)

    def up_to_date(self, fingerprint: Fingerprint) -> tuple[Output, ...] | None:
        """The last build's outputs, if it had this fingerprint and every one of them still has its bytes; else None."""
        state = self._load(self._state)
        if state.get("fingerprint") != fingerprint.value:
            return None
        outputs = []
        for row in state.get("outputs", ()):
            try:
                output = dataclasses.replace(self._output(row), changed=False)
                if not _unchanged(Path(output.path), output, row["stat"]):
                    return None
            except (OSError, TypeError, KeyError, ValueError):
                return None
            outputs.append(output)
        return tuple(outputs)

    def latest(self) -> tuple[Output, ...]:
        """What the last build wrote, and nothing of builds before it."""
        return self._known("outputs")

    def outputs(self) -> tuple[Output, ...]:
        """What the last build wrote, whether or not it is still there, and what is left of builds before it."""
        return self._known("outputs", "older")

    def _known(self, *lists: str) -> tuple[Output, ...]:
        found = []
        state = self._load(self._state)
        for row in (row for name in lists for row in state.get(name, ())):
            with contextlib.suppress(TypeError, KeyError):
                found.append(self._output(row))
        return tuple(found)

    def keys(self) -> Any:
        """The snapshot of the last build's keys, an empty value where there is none."""
        return self._load(self._keys)

    def save(self, fingerprint: Fingerprint, outputs: Sequence[Output], keys: Any) -> None:
        """Remember a build.

        Raises:
            OutputError: the directory cannot be written; the outputs themselves are in place.
        """
        current = {output.path for output in outputs}
        # A build for other outputs leaves those of an earlier one in place: they stay known, so that they can be cleaned away.
        older = [output for output in self.outputs() if output.path not in current and Path(output.path).is_file()]
        rows = [self._row(output) for output in outputs]
        left = [self._row(output) for output in older]
        with atomic_write(self._keys) as file:
            file.write(json.dumps(keys, separators=(",", ":")).encode())
        with atomic_write(self._state) as file:
            file.write(canonical_json({"version": _VERSION, "fingerprint": fingerprint.value, "outputs": rows, "older": left}))

    def _row(self, output: Output) -> dict[str, Any]:
        plain = dataclasses.asdict(output)
        del plain["changed"]
        # Relative, so that a moved project knows its outputs, and a copied one does not take the original's for its own.
        plain["path"] = os.path.relpath(output.path, self._root)
        return {"output": plain, "stat": _stat(Path(output.path))}

    def _output(self, row: Any) -> Output:
        return Output(**{**row["output"], "path": str(self._root / row["output"]["path"])})

    def _load(self, path: Path) -> dict[str, Any]:
        """A JSON object of this directory; damage means that nothing is known, which only costs a build."""
        try:
            value = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}


def _stat(path: Path) -> list[int]:
    found = path.stat()
    # The change time too: whoever copies over a file with the times of another leaves size, time and inode as they were.
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _unchanged(path: Path, output: Output, stat: object) -> bool:
    now = _stat(path)
    if now == stat:
        return True
    return now[0] == output.size and hashlib.sha256(path.read_bytes()).hexdigest() == output.digest
