"""The workers of a cluster that take part in a build, and the files that they get."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType

from distributed import Client

from tilec.compile import own
from tilec.compile.cluster import member
from tilec.compile.cluster.parcels import Supplies, Tree, pack
from tilec.compile.worker import Identity, Setup
from tilec_runtime.errors import MissingError
from tilec_runtime.model.kernel import ToolInfo

NO_WORKER = 60.0  # seconds to wait for a first worker
_TOGETHER = 30.0  # seconds for a group of workers to join; a slow one must not block the others
_THREADS = (
    "workers of the cluster have more than one thread: each compiles one job at a time "
    "(`dask worker --nthreads 1 --nworkers N` starts N that do)"
)


class Crew:
    """The workers that take part in a build. Workers with other tools are left out.

    Args:
        build: name of the build.
        setup: setup of its worker processes.
        note: gets texts for the user.
        seat: module that workers import, such as `member`.
        remote: URL of the remote cache that workers write to; empty for none.
    """

    def __init__(
        self,
        build: str,
        setup: Setup,
        *,
        note: Callable[[str], None],
        seat: ModuleType,
        remote: str = "",
    ) -> None:
        self._build, self._setup, self._note, self._seat = build, setup, note, seat
        self._remote = remote
        self._tools: dict[str, tuple[ToolInfo, ...]] = {}
        self._parts: dict[str, str] = {}
        self._trees: dict[str, Tree] = {}
        # Digests of the trees and files of each worker, by its address.
        self._has: dict[str, set[str]] = {}
        self._living: set[str] = set()
        self._joining: set[str] = set()
        self._apart: set[str] = set()
        self._left_out: dict[str, str] = {}
        self._alone_since: float | None = None
        self.changed: set[str] = set()
        """Digests of trees whose files have changed."""

    def __len__(self) -> int:
        """Return the number of workers that take part."""
        return len(self._has)

    def require(self, tree: Tree, tools: tuple[ToolInfo, ...]) -> bool:
        """Register a tree, and the tools of its language; return whether the tree is new."""
        if tree.digest in self._trees:
            return False
        self._trees[tree.digest] = tree
        self._tools[tree.language] = tools
        self._parts |= {f.name: f.digest for f in tree.files if f.name.startswith("<toolkit>")}
        return True

    def with_tree(self, digest: str) -> set[str]:
        """Return the addresses of the workers that have a tree."""
        return {address for address, has in self._has.items() if digest in has}

    def is_everyone(self, addresses: frozenset[str]) -> bool:
        """Return whether these are all workers of the cluster."""
        return addresses >= self._living

    def forget(self, address: str) -> None:
        """Register a new or restarted worker, which must join before it gets tasks."""
        self._living.add(address)
        self._has.pop(address, None)

    def leave_out(self, address: str, reason: str) -> bool:
        """Exclude a worker from further tasks; return whether it took part before."""
        if address in self._left_out:
            return False
        self._has.pop(address, None)
        self._left_out[address] = reason
        self._note(f"a worker of the cluster is left out: {reason}")
        return True

    def meet(self, living: Mapping[str, int], now: float) -> list[tuple[frozenset[str], list[str]]]:
        """Return the workers that must join, in groups with the same files.

        A worker that was too slow in a group is a group of its own.

        Args:
            living: number of threads of each worker of the cluster, by address.
            now: current time in seconds.

        Raises:
            MissingError: no worker can take part, or no worker has appeared within the limit.
        """
        self._living = {*living}
        for address in self._has.keys() - living.keys():
            del self._has[address]
        if any(threads > 1 for threads in living.values()):
            self._note(_THREADS)
        self._require_some(living, now)
        groups: dict[tuple[frozenset[str], str], list[str]] = {}
        for address in living.keys() - self._joining - self._left_out.keys():
            has = self._has.get(address, set())
            if not self._trees.keys() <= has:
                alone = address if address in self._apart else ""
                groups.setdefault((frozenset(has), alone), []).append(address)
        return [(has, addresses) for (has, _), addresses in groups.items()]

    def _require_some(self, living: Mapping[str, int], now: float) -> None:
        if living and living.keys() <= self._left_out.keys():
            reasons = sorted({self._left_out[address] for address in living})
            raise MissingError(
                "no worker of the cluster can do the build's jobs:"
                + "".join(f"\n    {reason}" for reason in reasons),
                cause="the workers were started in another environment than this build",
                fix="install the same packages there, or build with `--fallback local`",
            )
        if living:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
            self._note("the cluster has no workers: waiting for some")
        elif now - self._alone_since > NO_WORKER:
            raise MissingError(
                f"the cluster has no workers, and none came within {NO_WORKER:g} s",
                fix="start some (`dask worker`), or build with `--fallback local`",
            )

    async def join(self, client: Client, has: frozenset[str], addresses: list[str]) -> None:
        """Send missing files to workers with the same files, and let these workers take part."""
        self._joining.update(addresses)
        try:
            trees = {digest: tree for digest, tree in self._trees.items() if digest not in has}
            files = await asyncio.to_thread(self._read, trees, has)
            supplies = Supplies(
                wanted=self._identity(),
                frontends=self._setup.frontends,
                prefer=self._setup.search.prefer,
                cuda=self._setup.search.cuda,
                trees={
                    digest: tree for digest, tree in trees.items() if digest not in self.changed
                },
                files=files,
                remote=self._remote,
            )
            joining = client.run(
                self._seat.join,
                self._build,
                pack(supplies),
                workers=addresses,
                on_error="return",
            )
            # A single worker blocks no other, and Dask detects its death.
            limit = _TOGETHER if len(addresses) > 1 else None
            replies = await asyncio.wait_for(joining, limit)
        except asyncio.TimeoutError:
            self._apart.update(addresses)
            return
        finally:
            self._joining.difference_update(addresses)
        for address, reply in replies.items():
            if isinstance(reply, OSError):
                continue  # the worker has left
            if isinstance(reply, ImportError | AttributeError):
                self.leave_out(address, f"{address}: no tilec, or another version of it: {reply}")
            elif isinstance(reply, Exception):
                self.leave_out(address, f"{address}: {type(reply).__name__}: {reply}")
            elif reply.differences:
                self.leave_out(address, f"{reply.place}: {'; '.join(reply.differences)}")
            else:
                self._has[address] = {*has, *trees, *files}

    def _read(self, trees: Mapping[str, Tree], has: Iterable[str]) -> dict[str, bytes]:
        """Return contents of files by digest; record trees whose files have changed."""
        files: dict[str, bytes] = {}
        for digest, tree in trees.items():
            for file in tree.project_files:
                if file.digest in has or file.digest in files:
                    continue
                try:
                    data = Path(tree.source.root, file.name).read_bytes()
                except OSError:
                    data = b""
                if hashlib.sha256(data).hexdigest() == file.digest:
                    files[file.digest] = data
                else:
                    self.changed.add(digest)
        return files

    def _identity(self) -> Identity:
        return Identity(
            versions=member.versions(),
            own=own.digest(),
            tools=self._tools,
            parts=self._parts,
        )


def version_differences(packages: Mapping[str, str | None]) -> list[str]:
    """Return the differences between a scheduler's versions and those of this process."""
    has = {name: packages.get(name) for name in ("distributed", "tilec")}
    has["Python"] = ".".join(str(packages.get("python")).split(".")[:2])
    return [
        f"{name} {has[name] or 'is not there'}, here {version}"
        for name, version in member.versions().items()
        if has[name] != version
    ]
