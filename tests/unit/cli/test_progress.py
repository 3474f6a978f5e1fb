"""Progress of builds, and tables, on terminals of any width."""

from __future__ import annotations

import io
import sys

import click
import pytest

from tilec.cli import progress
from tilec.cli.app import App
from tilec.cli.progress import BarProgress, LineProgress
from tilec.cli.settings import read_settings
from tilec.cli.tables import bytes_text
from tilec.compile.events import Blob, Done, Failed, SilentObserver
from tilec_runtime.errors import CompileError
from tilec_runtime.model.arch import Target
from tilec_runtime.model.image import ImageInfo


def done(*, cached: bool = False, seconds: float = 0.25) -> Done:
    info = ImageInfo(target=Target.parse("sm_80"), digest="0" * 64, size=1, symbol="k")
    return Done(
        info=info,
        abi=(),
        warnings=(),
        blob=Blob(path="", offset=0, size=1, digest="0" * 64),
        cached=cached,
        seconds=seconds,
    )


FAILED = Failed(error=CompileError("no"))


def make_app(tmp_path, **kwargs: object) -> App:
    return App(settings=read_settings({}, tmp_path), **kwargs)  # type: ignore[arg-type]


def test_plain_lines(tmp_path, capsys) -> None:
    shown = LineProgress(make_app(tmp_path))
    shown.started(5, 2)
    for job, outcome in (("a-sm_80", done()), ("b-sm_80", FAILED), ("c-sm_80", done(cached=True))):
        shown.job_started(job)
        shown.job_finished(job, outcome)
    shown.note("a cache entry was damaged")
    shown.finished()
    caught = capsys.readouterr()
    assert caught.out == ""
    assert caught.err == (
        "building 3 jobs, 2 more are cached\n[3/5] a-sm_80 (0.2 s)\n[4/5] failed b-sm_80\n[5/5] c-sm_80\nnote: a cache entry was damaged\n"
    )


class Terminal(io.StringIO):
    encoding = "UTF-8"

    def isatty(self) -> bool:
        return True


def test_a_bar_clears_itself_and_counts_failures(tmp_path, monkeypatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    shown = BarProgress(make_app(tmp_path))
    shown.started(2, 0)
    shown.job_started("a-sm_80")
    shown.job_finished("a-sm_80", FAILED)
    shown.note("a cache entry was damaged")
    shown.job_started("b-sm_80")
    shown.job_finished("b-sm_80", done())
    shown.finished()
    text = click.unstyle(terminal.getvalue())
    assert "1 failed" in text
    assert "a-sm_80 failed" not in text
    assert "note: a cache entry was damaged" in text
    assert "0/2" in text
    # The cursor was hidden and is shown again, and the display's own lines were erased.
    assert terminal.getvalue().count("\x1b[?25l") == terminal.getvalue().count("\x1b[?25h") == 1
    assert "\x1b[2K" in terminal.getvalue()


def test_failures_beyond_the_first_are_counted(tmp_path, capsys) -> None:
    shown = LineProgress(make_app(tmp_path))
    shown.started(30, 0)
    for number in range(30):
        shown.job_finished(f"job-{number}", FAILED)
    shown.finished()
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:] == [
        "[ 1/30] failed job-0",
        "[ 2/30] failed job-1",
        "[ 3/30] failed job-2",
        "… and 27 more failed jobs",
    ]


@pytest.mark.parametrize(
    ("facts", "environ", "terminal", "kind"),
    [
        ({}, {}, False, LineProgress),
        ({"quiet": True}, {}, True, SilentObserver),
        ({"json": True}, {}, True, SilentObserver),
        ({}, {}, True, BarProgress),
        ({}, {"CI": "1"}, True, LineProgress),
        ({}, {"TERM": "dumb"}, True, LineProgress),
    ],
)
def test_chooses_the_progress_display(
    tmp_path, monkeypatch, facts, environ, terminal: bool, kind: type
) -> None:
    if terminal:
        monkeypatch.setattr(sys, "stderr", Terminal())
    app = App(settings=read_settings(environ, tmp_path), **facts)
    with progress.shown(app) as observer:
        assert isinstance(observer, kind)
    monkeypatch.setattr(Terminal, "encoding", "latin-1")
    with progress.shown(app) as observer:
        assert not isinstance(observer, BarProgress)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (102_250, "99.9 KiB"),
        (102_400, "100 KiB"),
        (1_048_575, "1 MiB"),
        (1 << 20, "1 MiB"),
        (90 << 20, "90 MiB"),
        (3 << 40, "3 TiB"),
        (5000 << 40, "5000 TiB"),
    ],
)
def test_bytes(size: int | None, text: str) -> None:
    assert bytes_text(size) == text
