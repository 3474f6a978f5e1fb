"""The .tilec directory: what counts as up to date, locking, and what killed builds leave."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.waiting import PATIENCE
from tilec.compiler import own
from tilec.compiler.state import Fingerprint, Output, WorkDir
from tilec.errors import Location, OutputError
from tilec.manifest.locate import Locator
from tilec.manifest.types import Manifest, Package, Targets
from tilec.model.arch import Target
from tilec.model.digest import sha256
from tilec.model.kernel import BundleInfo, KernelInfo, PackageInfo

DRAFT = BundleInfo(package=PackageInfo(name="p", version="1", module="p"), kernels=())


def manifest(root: Path, **changes: object) -> Manifest:
    value = Manifest(
        path="tilec.toml",
        root=str(root),
        package=Package(name="p", version="1", module="p"),
        targets=Targets(default=(Target.parse("sm_90"),)),
        profiles=(),
        locate=Locator("", "tilec.toml"),
    )
    return dataclasses.replace(value, **changes)


def written(path: Path, data: bytes = b"image") -> Output:
    path.write_bytes(data)
    return Output(kind="bundle", path=str(path), size=len(data), digest=sha256(data))


@pytest.fixture
def built(tmp_path: Path) -> tuple[WorkDir, Fingerprint, Output]:
    work = WorkDir(tmp_path)
    fingerprint = Fingerprint.of(["k1", "k2"], DRAFT, ("bundle",), manifest(tmp_path))
    output = written(tmp_path / "out.tilec")
    with work.lock(pytest.fail):
        work.save(fingerprint, (output,), {"parts": [], "jobs": {}})
    return work, fingerprint, output


def test_up_to_date_while_nothing_changed(built: tuple[WorkDir, Fingerprint, Output]) -> None:
    work, fingerprint, output = built
    assert work.up_to_date(fingerprint) == (dataclasses.replace(output, changed=False),)
    assert work.up_to_date(Fingerprint("other")) is None


def test_a_build_aside_is_known_apart(built: tuple[WorkDir, Fingerprint, Output], tmp_path: Path) -> None:
    work, fingerprint, output = built
    aside, other = WorkDir(tmp_path, "run"), written(tmp_path / "part.tilec", b"less")
    assert aside.up_to_date(fingerprint) is None
    with aside.lock(pytest.fail):
        aside.save(Fingerprint("part"), (other,), {})
    assert [one.path for one in aside.latest()] == [other.path]
    assert [one.path for one in work.latest()] == [one.path for one in work.outputs()] == [output.path]
    with work.lock(pytest.fail):
        work.save(Fingerprint("next"), (other,), {})
    assert [one.path for one in work.latest()] == [other.path]
    assert [one.path for one in work.outputs()] == [other.path, output.path]


def test_outputs_go_with_a_project_that_is_moved_or_copied(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    fingerprint = Fingerprint("f")
    work, output = WorkDir(first), written(first / "out.tilec")
    with work.lock(pytest.fail):
        work.save(fingerprint, (output,), {})
    assert str(tmp_path) not in (first / ".tilec" / "state.json").read_text()
    copy = WorkDir(Path(shutil.copytree(first, second)))
    (mine,) = copy.up_to_date(fingerprint) or ()
    assert mine.path == str(second / "out.tilec")
    (second / "out.tilec").unlink()
    assert copy.up_to_date(fingerprint) is None
    assert copy.outputs() == (dataclasses.replace(output, path=str(second / "out.tilec")),)


def test_outputs_of_earlier_builds_stay_known_while_they_are_there(built: tuple[WorkDir, Fingerprint, Output]) -> None:
    """So that a clean after `build` and `build --emit wheel` removes the files of both."""
    work, _, first = built
    other = Fingerprint("other")
    second = written(Path(first.path).with_name("out.whl"), b"wheel")
    work.save(other, (second,), {})
    assert [output.path for output in work.outputs()] == [second.path, first.path]
    assert work.up_to_date(other) == (dataclasses.replace(second, changed=False),)
    Path(first.path).unlink()
    work.save(other, (second,), {})
    assert [output.path for output in work.outputs()] == [second.path]


def test_an_output_that_was_touched_or_edited_or_removed(built: tuple[WorkDir, Fingerprint, Output]) -> None:
    work, fingerprint, output = built
    path = Path(output.path)
    path.write_bytes(b"image")  # same bytes, another time
    assert work.up_to_date(fingerprint) is not None
    path.write_bytes(b"imagE")
    assert work.up_to_date(fingerprint) is None
    path.unlink()
    assert work.up_to_date(fingerprint) is None


def test_an_output_that_was_replaced_in_place_with_its_time(built: tuple[WorkDir, Fingerprint, Output]) -> None:
    work, fingerprint, output = built
    path = Path(output.path)
    times = path.stat()
    path.write_bytes(b"imagE")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert work.up_to_date(fingerprint) is None


def test_tilecs_own_code_and_templates_are_part_of_a_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Fingerprint.of(["k"], DRAFT, (), manifest(tmp_path))
    assert before == Fingerprint.of(["k"], DRAFT, (), manifest(tmp_path))
    monkeypatch.setattr(own, "digest", lambda: "edited")
    assert before != Fingerprint.of(["k"], DRAFT, (), manifest(tmp_path))


def test_where_tilecs_own_files_are(tmp_path: Path) -> None:
    names = {path.name for path in own.files()}
    assert {"state.py", "render.py", "__init__.py.jinja"} <= names
    for name in ("tilec/a.py", "tilec/_templates/package/b.jinja", "templates/package/strange.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [path.name for path in own.files(tmp_path / "tilec")] == ["b.jinja", "a.py"]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"fingerprint": 3, "outputs": [{}]}', b"\xff\x00", b"[" * 100_000])
def test_damaged_state_only_costs_a_build(built: tuple[WorkDir, Fingerprint, Output], damage: bytes) -> None:
    work, fingerprint, _ = built
    (work.path / "state.json").write_bytes(damage)
    (work.path / "keys.json").write_bytes(damage)
    assert work.up_to_date(fingerprint) is None
    assert work.outputs() == ()
    assert isinstance(work.keys(), dict)


def test_the_fingerprint_covers_keys_order_index_emit_output_and_licences(tmp_path: Path) -> None:
    base = manifest(tmp_path)
    licence = tmp_path / "LICENSE"
    licence.write_text("one")
    licensed = manifest(tmp_path, package=dataclasses.replace(base.package, license_files=("LICENSE",)))
    kernel = KernelInfo(name="k", language="cuda", location=Location(file="k.cu"))
    prints = [
        Fingerprint.of(["a", "b"], DRAFT, ("bundle",), base),
        Fingerprint.of(["b", "a"], DRAFT, ("bundle",), base),
        Fingerprint.of(["a"], DRAFT, ("bundle",), base),
        Fingerprint.of(["a", "b"], dataclasses.replace(DRAFT, kernels=(kernel,)), ("bundle",), base),
        Fingerprint.of(["a", "b"], DRAFT, ("bundle", "wheel"), base),
        Fingerprint.of(["a", "b"], DRAFT, ("bundle",), manifest(tmp_path, output=dataclasses.replace(base.output, dir="elsewhere"))),
        Fingerprint.of(["a", "b"], DRAFT, ("bundle",), licensed),
    ]
    licence.write_text("two")
    prints.append(Fingerprint.of(["a", "b"], DRAFT, ("bundle",), licensed))
    assert len({p.value for p in prints}) == len(prints)
    assert prints[0] == Fingerprint.of(["a", "b"], DRAFT, ("bundle",), base)


def test_the_directory_is_invisible_to_git(built: tuple[WorkDir, Fingerprint, Output]) -> None:
    assert (built[0].path / ".gitignore").read_text() == "*\n"


def test_a_second_build_waits_and_says_so(tmp_path: Path) -> None:
    first, second = WorkDir(tmp_path), WorkDir(tmp_path)
    notes: list[str] = []
    order: list[str] = []
    waiting = threading.Event()

    def note(text: str) -> None:
        notes.append(text)
        waiting.set()

    def other() -> None:
        with second.lock(note):
            order.append("second")

    with first.lock(pytest.fail):
        thread = threading.Thread(target=other)
        thread.start()
        assert waiting.wait(PATIENCE)
        order.append("first")
    thread.join(PATIENCE)
    assert order == ["first", "second"]
    assert notes == ["another build of this project is running: waiting for it"]


def test_what_killed_builds_left_is_swept_and_living_ones_are_not(tmp_path: Path) -> None:
    work = WorkDir(tmp_path)
    done = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True, timeout=60)
    dead = tmp_path / ".tilec" / f"spool-{done.stdout.strip()}"
    dead.mkdir(parents=True)
    work.spool.mkdir()
    with work.lock(pytest.fail):
        assert not dead.exists()
        assert work.spool.exists()


def test_a_file_where_the_directory_should_be(tmp_path: Path) -> None:
    (tmp_path / ".tilec").write_text("in the way")
    with pytest.raises(OutputError, match="is a file, where tilec keeps") as caught, WorkDir(tmp_path).lock(pytest.fail):
        pytest.fail("the lock was taken")
    assert caught.value.fix == "remove it, or rename it"


def test_a_project_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(OutputError, match=r"cannot write .*\.tilec: Read-only") as caught, WorkDir(tmp_path).lock(pytest.fail):
        pytest.fail("the lock was taken")
    assert caught.value.cause == "the file system is read-only"
    assert caught.value.fix == "make the project's directory writable, or build a copy of it"
