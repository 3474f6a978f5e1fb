"""The cache: what it keeps, what it refuses to give back, and that no failure of it is an
exception."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import PATIENCE
from tilec.compile.cache import Cache, index_row
from tilec.compile.events import Blob
from tilec_runtime.bundle import place as places
from tilec_runtime.bundle import store
from tilec_runtime.errors import CacheError, Diagnostic, Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.image import Image, ImageInfo, Resources
from tilec_runtime.model.signature import AbiSlot

KEY = hashlib.sha256(b"key").hexdigest()


OTHER = hashlib.sha256(b"other").hexdigest()


def make_image(data: bytes = b"code" * 100) -> Image:
    info = ImageInfo(
        target=Target.parse("sm_90a"),
        digest=hashlib.sha256(data).hexdigest(),
        size=len(data),
        symbol="add",
        ptx_isa=(8, 0),
        cuda=(12, 8),
        resources=Resources(registers=32, shared=1024),
        required_block=(128, 1, 1),
    )
    abi = (
        AbiSlot(type="ptr", expr="x.ptr", size=8, align=8),
        AbiSlot(type="f32", expr="eps", size=4, align=4),
    )
    warning = Diagnostic(
        message="unused", severity="warning", location=Location(file="k.cu", line=3, column=1)
    )
    return Image(info=info, data=data, abi=abi, warnings=(warning,))


def put(cache: Cache, key: str, image: Image) -> Blob | None:
    return cache.put(key, image, index_row(key, image))


class Notes(list[str]):
    def only(self) -> str:
        assert len(self) == 1, self
        return self[0]


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def cache(tmp_path: Path, notes: Notes) -> Cache:
    return Cache(tmp_path / "cache", note=notes.append)


def entry_path(cache: Cache, key: str = KEY) -> Path:
    assert cache.root
    return Path(store.path_of(cache.root, "images", key))


def files(root: Path) -> list[str]:
    return sorted(p.name for p in root.rglob("*") if p.is_file())


DAMAGES = {
    "empty": lambda data: b"",
    "head cut": lambda data: data[:20],
    "meta cut": lambda data: data[:100],
    "image cut": lambda data: data[:-1],
    "longer": lambda data: data + b"x",
    "magic": lambda data: b"X" + data[1:],
    "meta bit": lambda data: data[:80] + bytes([data[80] ^ 1]) + data[81:],
    "image bit": lambda data: data[:-3] + bytes([data[-3] ^ 4]) + data[-2:],
    "meta length": lambda data: data[:8] + b"\xff\xff\xff\xff" + data[12:],
    "image length": lambda data: data[:12] + b"\xff" * 8 + data[20:],
    "zeros": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_entry_is_removed_reported_and_missed(cache: Cache, notes: Notes, damage) -> None:
    put(cache, KEY, make_image())
    path = entry_path(cache)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get(KEY) is None
    assert notes.only().startswith(f"cache entry {KEY[:12]} was damaged (")
    assert notes.only().endswith("): it is compiled again")
    assert not path.exists()
    assert put(cache, KEY, make_image())
    assert cache.get(KEY)


def test_a_blob_that_changed_after_the_look_up_is_an_error(cache: Cache) -> None:
    blob = put(cache, KEY, make_image())
    assert blob
    path = entry_path(cache)
    good = path.read_bytes()
    path.write_bytes(good[:-1] + b"?")
    with pytest.raises(CacheError, match="a compiled image is damaged"):
        blob.read()
    path.write_bytes(good[:-9])
    with pytest.raises(CacheError, match="a compiled image is damaged"):
        blob.read()
    path.unlink()
    with pytest.raises(CacheError, match="cannot be read back: No such file"):
        blob.read()


def chmod(mode: int, *parts: str) -> Callable[[Path], None]:
    return lambda root: (root.joinpath(*parts)).chmod(mode)


def given_away(*parts: str) -> Callable[[Path], None]:
    return lambda root: os.chown(root.joinpath(*parts), 65534, -1)


def linked(root: Path) -> None:
    (root / store.FORMAT).rename(root / "elsewhere")
    (root / store.FORMAT).symlink_to("elsewhere")


EXPOSED = {
    "everyone writes": (chmod(0o777), "", "may be written by everyone (mode 0777)"),
    "its group writes": (chmod(0o770), "", "may be written by its group (mode 0770)"),
    "sticky": (chmod(0o1777), "", "may be written by everyone (mode 1777)"),
    "another owner": (given_away(), "", "belongs to user 65534, and this is user 0"),
    "its store": (
        chmod(0o777, store.FORMAT),
        f"/{store.FORMAT}",
        "may be written by everyone (mode 0777)",
    ),
    "a kind": (
        chmod(0o775, store.FORMAT, "images"),
        f"/{store.FORMAT}/images",
        "may be written by its group (mode 0775)",
    ),
    "a link": (linked, f"/{store.FORMAT}", "is a symbolic link"),
}


@pytest.mark.parametrize(("expose", "part", "why"), EXPOSED.values(), ids=EXPOSED)
def test_a_directory_that_others_can_change_is_neither_read_nor_written(
    cache: Cache,
    notes: Notes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    expose,
    part: str,
    why: str,
) -> None:
    if expose is EXPOSED["another owner"][0] and os.geteuid():
        pytest.skip("giving a file away needs root")
    monkeypatch.setattr(places, "_warned", set())
    root = tmp_path / "cache"
    put(cache, KEY, make_image())
    cache.put_record("a", 1)
    link = tmp_path / "link"
    link.symlink_to(root)
    expose(root)
    before = files(root)
    for path in (root, root, link):
        again = Cache(path, note=notes.append)
        assert (
            again.root,
            again.get(KEY),
            again.get_record("a"),
            put(again, OTHER, make_image(b"new")),
        ) == (None, None, None, None)
        again.put_record("b", 2)
    assert files(root) == before
    told, _ = notes  # once for each path in a process
    mend = f"{'sudo chown -R 0 ' + str(root) + ' && ' if 'belongs' in why else ''}chmod -R go-w {root} && tilec cache clear"
    if "link" in why:
        mend = f"rm {root}{part}"
    assert told == (
        f"the cache {root} is neither read nor written, since others may change it: {root}{part} {why}; make it yours and empty it "
        f"(`{mend}`), name another directory in TILEC_CACHE_DIR, or share this one with TILEC_SHARED_CACHE={root}, "
        "which uses only what tilec.lock pins"
    )
    subprocess.run(mend.removeprefix("sudo ").partition(" && tilec")[0], shell=True, check=True)
    mended = Cache(root, note=pytest.fail)
    assert (mended.clear() > 0) != ("link" in why)
    assert put(mended, KEY, make_image())
    assert mended.get(KEY)


def test_cache_files_are_private_to_their_user(tmp_path: Path, notes: Notes) -> None:
    before = os.umask(0)
    try:
        cache = Cache(tmp_path / "deep" / "cache", note=notes.append)
        put(cache, KEY, make_image())
        cache.put_record("a", 1)
        made = [cache.root or tmp_path, *(tmp_path / "deep" / "cache").rglob("*")]
    finally:
        os.umask(before)
    modes = {
        path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o777
        for path in made
        if path.name != "CACHEDIR.TAG"
    }
    assert set(modes.values()) == {0o700, 0o600}
    assert cache.get(KEY)
    assert Cache(cache.root, note=notes.append).get(KEY)
    assert notes == []


def test_a_write_that_fails_half_way_leaves_nothing(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    put(cache, OTHER, make_image())
    monkeypatch.setattr(os, "replace", refuse)
    assert put(cache, KEY, make_image()) is None
    monkeypatch.undo()
    assert cache.root
    assert files(cache.root) == sorted([OTHER, "CACHEDIR.TAG"])


def test_links_are_not_followed_for_writing(cache: Cache, notes: Notes, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    path = entry_path(cache)
    path.parent.mkdir(parents=True)
    path.symlink_to(outside / "precious")
    assert cache.get(KEY) is None
    assert "a symbolic link stands in its place" in notes.only()
    path.symlink_to(outside / "precious")
    assert put(cache, KEY, make_image())
    assert not path.is_symlink()
    fan = entry_path(cache, OTHER).parent
    fan.symlink_to(outside, target_is_directory=True)
    assert put(cache, OTHER, make_image()) is None
    assert cache.gc(0) > 0
    cache.clear()
    assert files(outside) == ["precious"]
    assert (outside / "precious").read_text() == "mine"


def aged(cache: Cache, key: str, seconds: float) -> None:
    path = entry_path(cache, key)
    facts = path.stat()
    os.utime(path, (facts.st_atime, facts.st_mtime - seconds))


def test_gc_removes_the_least_recently_used(cache: Cache) -> None:
    keys = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(5)]
    for age, key in enumerate(keys):
        put(cache, key, make_image(b"x" * 1000))
        aged(cache, key, age * 10_000)
    size = entry_path(cache, keys[0]).stat().st_size
    assert cache.get(keys[4])  # the oldest is used, and with that the youngest
    freed = cache.gc(3 * size)
    assert freed == 2 * size
    assert [cache.get(key) is not None for key in keys] == [True, True, False, False, True]


def test_gc_removes_what_dead_processes_left_only(cache: Cache) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait(PATIENCE)
    put(cache, KEY, make_image())
    folder = entry_path(cache).parent
    names = {
        f"tmp-{dead.pid}-aa": 120,
        f"tmp-{dead.pid}-bb": 5,
        f"tmp-{os.getpid()}-cc": 120,
        f"tmp-{os.getpid()}-dd": 90_000,
    }
    for name, age in names.items():
        (folder / name).write_bytes(b"half")
        facts = (folder / name).stat()
        os.utime(folder / name, (facts.st_atime, facts.st_mtime - age))
    assert cache.info().entries == 1
    cache.gc()
    assert sorted(name for name in files(folder) if name.startswith("tmp-")) == sorted(
        [f"tmp-{dead.pid}-bb", f"tmp-{os.getpid()}-cc"]
    )
    assert cache.get(KEY)


def test_gc_and_clear_touch_nothing_that_is_not_the_caches(cache: Cache) -> None:
    put(cache, KEY, make_image())
    assert cache.root
    foreign = [cache.root / KEY, cache.root / "aa" / KEY, cache.root / "notes.txt"]
    for path in foreign:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    assert cache.gc(0) > 0
    assert cache.clear() == 0
    assert [path.read_text() for path in foreign] == ["mine"] * 3


WRITER = """
import hashlib, sys
from pathlib import Path
from tilec.compile.cache import Cache
sys.path.insert(0, sys.argv[2])
from test_cache import make_image, put
notes = []
cache = Cache(Path(sys.argv[1]), note=notes.append)
bad = 0
for turn in range(40):
    for i in range(8):
        key = hashlib.sha256(str(i).encode()).hexdigest()
        data = str(i).encode() * 5000
        entry = cache.get(key)
        if entry is None:
            put(cache, key, make_image(data))
        else:
            try:
                bad += entry.blob.read() != data
            except Exception:
                pass
    if sys.argv[3] == "gc" and turn % 10 == 9:
        cache.gc(20000)
    if sys.argv[3] == "clear" and turn % 10 == 9:
        cache.clear()
print(bad, [note for note in notes if "damaged" in note])
"""


def test_processes_share_a_cache(tmp_path: Path) -> None:
    here = str(Path(__file__).parent)
    roles = ("write", "gc", "clear")
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "cache"), here, role],
            stdout=subprocess.PIPE,
            text=True,
        )
        for role in roles
    ]
    assert [process.communicate(timeout=60)[0] for process in processes] == ["0 []\n"] * 3
    assert [process.returncode for process in processes] == [0, 0, 0]
