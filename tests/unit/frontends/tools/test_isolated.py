"""Functions that run in a forked process."""

from __future__ import annotations

import os

import pytest

from tilec.frontends.tools.isolated import isolated
from tilec_runtime.errors import CompileError, Diagnostic, Location

HELD = ["here"]


def test_a_result_comes_back_and_nothing_else() -> None:
    def change() -> tuple[int, list[str]]:
        HELD.append("there")
        return os.getpid(), HELD

    pid, held = isolated(change)
    assert pid != os.getpid()
    assert (held, HELD) == (["here", "there"], ["here"])


def test_an_error_is_raised_again_with_its_parts() -> None:
    place = Diagnostic(message="no", location=Location(file="k.py", line=3))

    def fail() -> None:
        raise CompileError("it fails", diagnostics=(place,), fix="mend it", log="words")

    with pytest.raises(CompileError) as caught:
        isolated(fail)
    error = caught.value
    assert (error.what, error.diagnostics, error.fix, error.log) == (
        "it fails",
        (place,),
        "mend it",
        "words",
    )


def test_a_process_that_dies_is_an_error() -> None:
    with pytest.raises(ChildProcessError, match="ended without a result"):
        isolated(lambda: os._exit(7))


def test_a_result_that_cannot_be_sent_is_an_error() -> None:
    with pytest.raises(Exception, match="pickle"):
        isolated(lambda: lambda: None)
