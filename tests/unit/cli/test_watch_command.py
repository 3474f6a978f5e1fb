"""`tilec watch`, with looks and waits of the test's own: nothing here sleeps, and nothing depends
on how fast the machine is.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tilec.cli import watch as module
from tilec.cli.main import run
from tilec.cli.watch import Snapshot, changes, snapshot, watch
from tilec.compile.cache import Cache
from tilec.compile.stamp import record_key
from tilec.package.marks import is_written, signed


def snap(read: dict[str, int] | None = None, **sources: int) -> Snapshot:
    return Snapshot(
        sources={name: (n, n, n) for name, n in sources.items()},
        read={name: (n, n, n) for name, n in (read or {}).items()},
    )


def seen(*looks: Snapshot) -> tuple[list[tuple[str, ...]], list[float]]:
    """What is told of these looks, and the waits between them; the last look is followed by an
    interrupt.
    """
    left, waits = iter(looks), list[float]()

    def look() -> Snapshot:
        try:
            return next(left)
        except StopIteration:
            raise KeyboardInterrupt from None

    found: list[tuple[str, ...]] = []
    with contextlib.suppress(KeyboardInterrupt):
        for names in changes(look, waits.append, lambda: 0.0):
            found.append(names)  # noqa: PERF402  (what came before the interrupt counts)
    return found, waits


def test_a_change_is_told_once_it_stays() -> None:
    one, two, three = snap(a=1, b=1), snap(a=2, b=1), snap(a=3, b=1)
    found, waits = seen(one, one, two, three, three, three)
    assert found == [(), ("a",)]
    assert waits == [module.POLL, module.POLL / 4, module.POLL / 4, module.POLL]


def test_files_come_and_go() -> None:
    assert seen(snap(a=1), snap(b=1), snap(b=1))[0] == [(), ("a", "b")]


def test_a_file_that_is_written_and_taken_back_is_no_change() -> None:
    assert seen(snap(a=1), snap(a=2), snap(a=1), snap(a=1))[0] == [()]


def test_a_file_that_never_rests_counts_as_it_is() -> None:
    looks = [snap(a=n) for n in range(module.SETTLE + 2)]
    assert seen(*looks)[0] == [(), ("a",)]


def test_what_a_build_reads_counts_from_then_on() -> None:
    found, _ = seen(snap(), snap({"lib.h": 1}), snap({"lib.h": 2}), snap({"lib.h": 2}), snap())
    assert found == [(), ("lib.h",)]


def test_large_projects_are_looked_at_less_often() -> None:
    ticks = iter(range(100))
    waits: list[float] = []

    def look() -> Snapshot:
        if waits:
            raise KeyboardInterrupt
        return snap()

    with pytest.raises(KeyboardInterrupt):
        list(changes(look, waits.append, lambda: float(next(ticks))))
    assert waits == [module.SHARE * 1.0]


def test_each_change_is_one_round_after_the_first() -> None:
    did: list[str] = []
    watch(
        lambda: did.append("go"),
        iter([(), ("a",), ("b", "c")]),
        lambda names: did.append(",".join(names)),
    )
    assert did == ["go", "a", "go", "b,c", "go"]


def test_the_first_look_is_before_the_first_round() -> None:
    """What is saved while the first build runs is built by the next."""
    did: list[str] = []

    def events() -> Iterator[tuple[str, ...]]:
        did.append("look")
        yield ()
        did.append("look")

    watch(lambda: did.append("go"), events(), lambda names: None)
    assert did == ["look", "go", "look"]


# --- files
# ------------------------------------------------------------------------------------------------------------------------


def put(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_sources_count_and_outputs_do_not(tmp_path: Path) -> None:
    put(
        tmp_path,
        "tilec.toml",
        "k/a.py",
        "k/b.cu",
        "k/deep/c.cuh",
        "README.md",
        "out/x.npy",
        "findings.json",
    )
    put(
        tmp_path,
        "dist/acme/__init__.py",
        ".tilec/run/x.py",
        ".git/x.py",
        "k/__pycache__/a.py",
        "env/pyvenv.cfg",
        "env/x.py",
    )
    assert set(snapshot(tmp_path).sources) == {"tilec.toml", "k/a.py", "k/b.cu", "k/deep/c.cuh"}


def test_what_the_last_build_read_counts_too(tmp_path: Path) -> None:
    root = tmp_path / "project"
    put(tmp_path, "lib/shared.cuh", "project/tilec.toml", "project/tuning/gemm.json")
    names = (str(tmp_path / "lib/shared.cuh"), "tuning/gemm.json", "gone.json", "tilec.toml")
    cache = Cache(tmp_path / "cache", note=pytest.fail)
    cache.put_record(record_key("stamp", root), {"files": {name: [] for name in names}})
    found = snapshot(root, cache.root)
    assert set(found.read) == {str(tmp_path / "lib/shared.cuh"), "tuning/gemm.json"}
    assert set(found.sources) == {"tilec.toml"}
    cache.put_record(record_key("stamp", root), "no stamp")
    assert snapshot(root, cache.root).read == snapshot(root).read == {}


def test_outputs_elsewhere_than_usual_do_not_count(tmp_path: Path) -> None:
    """Else a build would follow each build."""
    put(tmp_path, "k/a.py", "made/acme/__init__.py", "made/mine.py")
    looks = [snapshot(tmp_path)]
    (tmp_path / "made/acme/__init__.py").write_bytes(signed(b"import tilec\n"))
    looks.append(snapshot(tmp_path))
    (tmp_path / "made/mine.py").write_text("edited")
    looks.append(snapshot(tmp_path))
    looked = iter([looks[0], *[look for look in looks[1:] for _ in "ab"]])
    events = changes(
        lambda: next(looked),
        lambda _: None,
        lambda: 0.0,
        is_output=lambda name: is_written(tmp_path / name),
    )
    assert [next(events), next(events)] == [(), ("made/mine.py",)]


def test_an_edit_of_equal_length_is_seen(tmp_path: Path) -> None:
    put(tmp_path, "a.py")
    before = snapshot(tmp_path)
    status = (tmp_path / "a.py").stat()
    (tmp_path / "a.py").write_text("a.px")
    os.utime(tmp_path / "a.py", ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert before.changed(snapshot(tmp_path)) == ("a.py",)


# --- the command
# ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def rounds(monkeypatch) -> list[list[str]]:
    """Command lines that are carried out; an interrupt ends the second wait."""
    done: list[list[str]] = []

    monkeypatch.setattr(
        module, "carry_out", lambda words, folder: done.append([*words, str(folder)])
    )
    return done


def waits(monkeypatch, *acts: Callable[[], object]) -> None:
    """Do these things, one in each wait, and press Ctrl-C in the one after them."""
    left = iter(acts)

    def wait(_seconds: float) -> None:
        try:
            next(left)()
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(module, "pause", wait)


def test_a_save_does_it_again(cli, project: Path, rounds: list[list[str]], monkeypatch) -> None:
    put(project, "k/a.py")
    waits(monkeypatch, lambda: put(project, "k/new.py"), lambda: None)
    done = cli("watch", "run", "softmax", "--device", "cpu", "-k", "*/odd")
    assert (done.code, done.out) == (130, "")
    assert [line for line in done.err.splitlines() if line.startswith("──")] == [
        "── k/new.py changed: tilec run softmax --device cpu -k */odd"
    ]
    assert len(rounds) == 2
    assert rounds[0] == rounds[1]
    assert rounds[0][-7:] == ["run", "softmax", "--device", "cpu", "-k", "*/odd", str(project)]
    assert rounds[0][rounds[0].index("--manifest") + 1] == str(project / "tilec.toml")


def test_without_words_it_builds(cli, project: Path, rounds: list[list[str]], monkeypatch) -> None:
    waits(monkeypatch)
    assert cli("-v", "watch").code == 130
    assert rounds[0][-3:] == ["-v", "build", str(project)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("bild",), "watch: 'bild' is no command; did you mean 'build'"),
        (("watch",), "watch: 'watch' cannot be watched\n  fix: watch one of check, build, run, "),
        (("clean", "--all"), "watch: 'clean' cannot be watched"),
        (("--fast",), "watch: '--fast' is no command"),
    ],
)
def test_words_that_are_off(
    cli, project: Path, rounds: list[list[str]], words: tuple[str, ...], message: str
) -> None:
    done = cli("watch", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert rounds == []


def test_without_a_project(cli, rounds: list[list[str]]) -> None:
    done = cli("watch")
    assert done.code == 2
    assert "no tilec.toml in " in done.err


def test_a_round_is_a_process_whose_failure_ends_nothing(project: Path, monkeypatch, capfd) -> None:
    (project / "tilec.toml").write_text("edition = 1\nwrong = 2\n")
    waits(monkeypatch, lambda: put(project, "a.py"), lambda: None)
    assert run(["watch", "check"], {"HOME": str(project)}, project) == 130
    assert capfd.readouterr().err.count("wrong: unknown key") == 2
