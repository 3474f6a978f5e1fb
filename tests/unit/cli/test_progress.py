"""Progress of builds, and tables, on terminals of any width."""

from __future__ import annotations

import io
import sys

import pytest

from tilec.cli.app import App
from tilec.cli.progress import Progress, observer
from tilec.cli.settings import read_settings
from tilec.cli.tables import bytes_text
from tilec.compile.events import Blob, Done
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


FAILED = CompileError("no")


def make_app(tmp_path, **kwargs: object) -> App:
    return App(settings=read_settings({}, tmp_path), **kwargs)  # type: ignore[arg-type]


def test_plain_lines(tmp_path, capsys) -> None:
    shown = Progress(make_app(tmp_path))
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


def test_a_terminal_has_one_line_that_is_removed(tmp_path, monkeypatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "80")
    shown = Progress(make_app(tmp_path))
    shown.started(2, 0)
    shown.job_started("a-sm_80")
    shown.job_finished("a-sm_80", FAILED)
    shown.note("a cache entry was damaged")
    shown.job_started("b-sm_80")
    shown.job_finished("b-sm_80", done())
    shown.finished()
    drawn = terminal.getvalue().replace("\r\x1b[2K", "|")
    assert drawn == (
        "0 of 2 jobs: a-sm_80|1 of 2 jobs, 1 failed|note: a cache entry was damaged\n"
        "1 of 2 jobs, 1 failed: b-sm_80|2 of 2 jobs, 1 failed|"
    )


def test_failures_beyond_the_first_are_counted(tmp_path, capsys) -> None:
    shown = Progress(make_app(tmp_path))
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
    ("facts", "environ", "drawn", "lines"),
    [
        ({"quiet": True}, {}, False, False),
        ({"json": True}, {}, False, False),
        ({}, {}, True, False),
        ({}, {"CI": "1"}, False, True),
        ({}, {"TERM": "dumb"}, False, True),
    ],
)
def test_chooses_the_progress_display(
    tmp_path, monkeypatch, facts, environ, drawn: bool, lines: bool
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    shown = observer(App(settings=read_settings(environ, tmp_path), **facts))
    shown.started(1, 0)
    shown.job_started("a-sm_80")
    assert ("0 of 1 jobs" in terminal.getvalue()) is drawn
    assert ("building 1 job\n" in terminal.getvalue()) is lines


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
