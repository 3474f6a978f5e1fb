"""`tilec watch`, with looks and waits of the test's own: nothing here sleeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tilec.cli import watch as module
from tilec.cli.main import run
from tilec.cli.watch import snapshot
from tilec.compile.cache import Cache
from tilec.compile.stamp import record_key


def put(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_sources_count_and_outputs_do_not(tmp_path: Path) -> None:
    sources = ("tilec.toml", "k/a.py", "k/b.cu", "k/deep/c.cuh")
    put(tmp_path, *sources, "README.md", "out/x.npy", "findings.json")
    put(tmp_path, "dist/acme/__init__.py", ".tilec/run/x.py", ".git/x.py")
    put(tmp_path, "k/__pycache__/a.py", "env/pyvenv.cfg", "env/x.py")
    assert set(snapshot(tmp_path)) == set(sources)


def test_watches_files_that_the_last_build_read(tmp_path: Path) -> None:
    root = tmp_path / "project"
    put(tmp_path, "lib/shared.cuh", "project/tilec.toml", "project/tuning/gemm.json")
    put(root, "tilec.lock")  # which builds write
    read = (str(tmp_path / "lib/shared.cuh"), "tuning/gemm.json", "gone.json", "tilec.toml")
    names = (*read, "tilec.lock")
    cache = Cache(tmp_path / "cache", note=pytest.fail)
    cache.put_record(record_key("stamp", root), {"files": {name: [] for name in names}})
    assert set(snapshot(root, cache.root)) == {names[0], names[1], names[3]}
    cache.put_record(record_key("stamp", root), "no stamp")
    assert set(snapshot(root, cache.root)) == {"tilec.toml"}


@pytest.fixture
def rounds(monkeypatch) -> list[list[str]]:
    """Command lines that are carried out; an interrupt ends the second wait."""
    done: list[list[str]] = []

    monkeypatch.setattr(
        module, "run_once", lambda words, folder: done.append([*words, str(folder)])
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

    monkeypatch.setattr(module, "sleep", wait)


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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("bild",), "watch: 'bild' cannot be watched; did you mean 'build'"),
        (("watch",), "watch: 'watch' cannot be watched\n  fix: watch one of check, build, run, "),
        (("clean", "--all"), "watch: 'clean' cannot be watched"),
        (("--fast",), "watch: '--fast' cannot be watched"),
    ],
)
def test_words_that_are_off(
    cli, project: Path, rounds: list[list[str]], words: tuple[str, ...], message: str
) -> None:
    done = cli("watch", *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert rounds == []


def test_a_round_is_a_process_whose_failure_ends_nothing(project: Path, monkeypatch, capfd) -> None:
    (project / "tilec.toml").write_text("edition = 1\nwrong = 2\n")
    waits(monkeypatch, lambda: put(project, "a.py"), lambda: None)
    assert run(["watch", "check"], {"HOME": str(project)}, project) == 130
    assert capfd.readouterr().err.count("wrong: unknown key") == 2
