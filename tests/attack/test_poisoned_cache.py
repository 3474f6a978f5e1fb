"""Caches that somebody else can write to: builds take nothing from them that was changed, and go
on.
"""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
from pathlib import Path

import pytest

from tests.attack.conftest import Campaign
from tests.e2e.harness import HEAD, TWICE, Cli, edit, environment, tree, write
from tests.unit.compile.conftest import Project
from tilec.compile.cache import Cache, index_row
from tilec.compile.events import Done
from tilec.compile.remote.access import Access
from tilec.compile.remote.session import open_remote
from tilec.model.remote_url import RemoteUrl
from tilec_runtime.bundle import store
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import Image

STRANGER = 65534
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can give files to another user"
)


class Attacked:
    """A private and a remote cache of a project's jobs, and what their images should be."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self.root, self.rng = root, rng
        root.mkdir()
        self.project = Project(root)
        self.jobs = self.project.keyed(*(self.project.job(bm) for bm in range(6)))
        self.private, self.shared = root / "private", root / "shared"
        self.notes: list[str] = []
        self.pins: dict[str, str] = {}
        self.images = self.build(shared=True)
        self.saved = {folder: tree(folder) for folder in (self.private, self.shared)}

    def restore(self) -> None:
        """Both caches as they were when they were sound."""
        for folder, files in self.saved.items():
            shutil.rmtree(folder, ignore_errors=True)
            os.umask(0o022)
            for name, data in files.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
                path.write_bytes(data)
        self.notes.clear()

    def entry(self, folder: Path, number: int) -> Path:
        return Path(store.path_of(folder, "images", self.jobs[number].key))

    def build(self, *, shared: bool) -> list[bytes]:
        """The images of a build, as it would publish them; pins are those of the last build."""
        cache = Cache(self.private, note=self.notes.append)
        access = Access(url=RemoteUrl.parse(self.shared.as_uri()), write=True)
        remote = open_remote(access, cache, note=self.notes.append)
        assert remote
        remote.pins = self.pins
        with remote, self.project.pool(cache=cache, remote=remote if shared else None) as pool:
            done = [one for one in pool.compile(self.jobs) if isinstance(one, Done)]
            self.pins = {job.key: one.row for job, one in zip(self.jobs, done, strict=True)}
            return [one.blob.read() for one in done]


def rewritten(attacked: Attacked, folder: Path, number: int) -> None:
    """A whole entry, right in all its digests, of other code."""
    entry = sound(attacked, folder, number)
    data = attacked.rng.randbytes(256)
    info = dataclasses.replace(entry.info, digest=sha256(data), size=len(data))
    forged = Image(info=info, data=data, abi=entry.abi)
    store.save(
        folder,
        "images",
        attacked.jobs[number].key,
        index_row(attacked.jobs[number].key, forged),
        data,
    )


def exchanged(attacked: Attacked, folder: Path, number: int) -> None:
    """The right row, with other code."""
    entry, key = sound(attacked, folder, number), attacked.jobs[number].key
    data = attacked.rng.randbytes(entry.info.size)
    row = index_row(key, Image(info=entry.info, data=data, abi=entry.abi))
    store.save(folder, "images", key, row, data)


def swapped(attacked: Attacked, folder: Path, number: int) -> None:
    """The entry of another key."""
    attacked.entry(folder, number).write_bytes(
        attacked.entry(folder, (number + 1) % len(attacked.jobs)).read_bytes()
    )


def renamed(attacked: Attacked, folder: Path, number: int) -> None:
    """The image of another key, under the right key."""
    other = sound(attacked, folder, (number + 1) % len(attacked.jobs))
    key = attacked.jobs[number].key
    forged = Image(info=other.info, data=other.blob.read(), abi=other.abi)
    store.save(folder, "images", key, index_row(key, forged), forged.data)


def cut(rng: random.Random, path: Path) -> None:
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def flip(rng: random.Random, path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def linked(attacked: Attacked, folder: Path, number: int) -> None:
    path = attacked.entry(folder, number)
    path.unlink()
    path.symlink_to(
        attacked.rng.choice(
            ["/dev/zero", "/nothing", attacked.entry(folder, (number + 1) % len(attacked.jobs))]
        )
    )


def pipe(_: random.Random, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def grow(_: random.Random, path: Path) -> None:
    os.truncate(path, 1 << 40)


def exchange(rng: random.Random, path: Path) -> None:
    """The bytes of another object of the remote cache."""
    path.write_bytes(
        rng.choice([each for each in path.parent.iterdir() if each != path]).read_bytes()
    )


def nested(attacked: Attacked, folder: Path, number: int) -> None:
    key = attacked.jobs[number].key
    store.save(folder, "images", key, b"[" * 100_000, b"")


# Attacks on any file, and those that know what an entry is.
DAMAGES = (cut, flip, pipe, grow)
FORGERIES = (rewritten, exchanged, swapped, renamed, linked, nested)
ATTACKS = (*FORGERIES, *DAMAGES)


def sound(attacked: Attacked, folder: Path, number: int) -> Done:
    """An entry as it was before the attack."""
    name = attacked.entry(folder, number).relative_to(folder).as_posix()
    path = attacked.root / "sound" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(attacked.saved[folder][name])
    found = Cache(attacked.root / "sound", note=pytest.fail).get(attacked.jobs[number].key)
    assert found
    return found


def opened(attacked: Attacked, _: int) -> str:
    """The directory, or one in it, may be written by others."""
    inner = attacked.rng.choice(["", store.FORMAT, f"{store.FORMAT}/images"])
    (attacked.private / inner).chmod(attacked.rng.choice([0o777, 0o1777, 0o775, 0o702]))
    return "neither read nor written"


def given_away(attacked: Attacked, _: int) -> str:
    """The directory belongs to the attacker."""
    inner = attacked.rng.choice(["", store.FORMAT, f"{store.FORMAT}/images"])
    os.chown(attacked.private / inner, STRANGER, STRANGER)
    return "neither read nor written"


def file_given_away(attacked: Attacked, number: int) -> str:
    """The entry is a file of the attacker's."""
    os.lchown(attacked.entry(attacked.private, number), STRANGER, STRANGER)
    return "was damaged ("


def file_opened(attacked: Attacked, number: int) -> str:
    path = attacked.entry(attacked.private, number)
    if not path.is_symlink():
        path.chmod(0o666)
    return "was damaged ("


EXPOSURES = (opened, given_away, file_given_away, file_opened)


@needs_root
def test_entries_of_a_cache_that_others_can_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, campaign: Campaign
) -> None:
    """Whatever is in the entries: the images are those that compiling gives, and the user hears of
    it.
    """
    attacked = Attacked(tmp_path / "project", rng := random.Random(7))
    rounds = campaign.rounds(len(ATTACKS), 600)
    for turn in range(rounds):
        attacked.restore()
        monkeypatch.setattr("tilec_runtime.bundle.place._warned", set())
        attack, expose, number = (
            ATTACKS[turn % len(ATTACKS)],
            rng.choice(EXPOSURES),
            rng.randrange(len(attacked.jobs)),
        )
        if attack in DAMAGES:
            attack(rng, attacked.entry(attacked.private, number))
        else:
            attack(attacked, attacked.private, number)
        told = expose(attacked, number)
        assert attacked.build(shared=False) == attacked.images, (attack.__name__, expose.__name__)
        assert len(attacked.notes) == 1, attacked.notes
        assert told in attacked.notes[0]
    campaign.record(rounds=rounds, attacks=len(ATTACKS), wrong_images=0, failed_builds=0)


def test_objects_of_a_directory_that_others_can_change(tmp_path: Path, campaign: Campaign) -> None:
    """What is pinned is taken and nothing else, and each forgery costs one compile at most."""
    attacked = Attacked(tmp_path / "project", rng := random.Random(8))
    changes = (*DAMAGES, exchange)
    rounds = campaign.rounds(2 * len(changes), 600)
    for turn in range(rounds):
        attacked.restore()
        shutil.rmtree(attacked.private)
        before = len(attacked.project.compiled)
        change = changes[turn % len(changes)]
        change(rng, rng.choice([path for path in attacked.shared.rglob("*") if path.is_file()]))
        assert attacked.build(shared=True) == attacked.images, change.__name__
        assert len(attacked.project.compiled) - before <= 1, change.__name__
        assert len(attacked.notes) <= 1, attacked.notes
    campaign.record(rounds=rounds, attacks=len(changes), wrong_images=0, failed_builds=0)


def forge(cache: Path, other: Path) -> None:
    """Let the one image of a cache be that of another cache, in an entry that is right in all its
    digests.
    """
    (entry,) = cache.glob("v*/images/*/*")
    (theirs,) = other.glob("v*/images/*/*")
    found = Cache(other, note=pytest.fail).get(theirs.name)
    assert found
    image = Image(info=found.info, data=found.blob.read(), abi=found.abi)
    store.save(cache, "images", entry.name, index_row(entry.name, image), image.data)


@pytest.mark.e2e
@pytest.mark.toolchain
def test_the_command_on_a_poisoned_cache(tmp_path: Path) -> None:
    project, cache = write(tmp_path / "project", HEAD + TWICE), tmp_path / "cache"
    cli = Cli(environment(cache))
    edit(project / "k" / "twice.cu", "2.0f", "6.0f")
    cli.good(project, "build", TILEC_CACHE_DIR=str(tmp_path / "other"))
    edit(project / "k" / "twice.cu", "6.0f", "2.0f")
    cli.good(project, "build")
    sound = tree(project / "dist")
    pinned = (project / "tilec.lock").read_text()
    forge(cache, tmp_path / "other")
    cache.chmod(0o777)

    shutil.rmtree(project / "dist")
    done = cli.good(project, "build", "--locked")
    assert (done.jobs, tree(project / "dist")) == ({"twice-sm_90"}, sound)
    assert done.err.count("neither read nor written, since others may change it") == 1
    checks = cli(project, "doctor", "--json").json()["checks"]
    (check,) = [check for check in checks if check["name"] == "cache"]
    why = f"not used, since others may change it: {cache} may be written by everyone (mode 0777)"
    assert check["text"] == f"{cache} ({why})"

    # The same directory as a remote cache: the next user takes what this user compiles.
    for name, compiled in (("mine", 1), ("theirs", 0)):
        shutil.rmtree(project / "dist")
        done = cli.good(
            project,
            "build",
            "--locked",
            TILEC_CACHE_DIR=str(tmp_path / name),
            TILEC_SHARED_CACHE=str(cache),
        )
        assert f"built 1 job: {compiled} compiled" in done.out
        assert tree(project / "dist") == sound

    # A cache of one's own is believed; what the lock pins is not shipped otherwise.
    shutil.rmtree(project / "dist")
    forge(tmp_path / "mine", tmp_path / "other")
    done = cli(project, "build", "--locked", TILEC_CACHE_DIR=str(tmp_path / "mine"))
    assert done.code == 3
    assert done.err.startswith(
        "error: 1 image is not the one that tilec.lock pins, from the same sources and tools:\n  twice-sm_90: pinned "
    )
    assert not (project / "dist").exists()
    assert (project / "tilec.lock").read_text() == pinned
