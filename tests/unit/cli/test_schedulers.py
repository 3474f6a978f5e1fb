"""Where jobs are compiled, as the user says it."""

from __future__ import annotations

import importlib.util

import pytest

from tilec.cli.schedulers import parse_scheduler
from tilec_runtime.errors import MissingError, UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (0, "")),
        ("local", (0, "")),
        ("local:4", (4, "")),
        ("tcp://farm.example:8786", (0, "tcp://farm.example:8786")),
        ("tls://[::1]:8786", (0, "tls://[::1]:8786")),
    ],
)
def test_schedulers(text: str, expected: tuple[int, str]) -> None:
    assert parse_scheduler(text, name="--scheduler") == expected


@pytest.mark.parametrize("text", ["farm:8786", "local:x", "tcp://farm", "http://farm:80", "4"])
def test_what_is_no_scheduler(text: str) -> None:
    with pytest.raises(
        UsageError, match=r"^TILEC_SCHEDULER: '.*' is not the address of a scheduler\n  fix: give"
    ):
        parse_scheduler(text, name="TILEC_SCHEDULER")


def test_without_dask_an_address_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert parse_scheduler("local:2", name="--scheduler") == (2, "")
    with pytest.raises(MissingError, match=r"--scheduler tcp://a:1 needs Dask.*\n.*tilec\[dask\]"):
        parse_scheduler("tcp://a:1", name="--scheduler")


def test_the_option_counts_before_the_variable(cli, project, fake_build) -> None:
    address = "tcp://farm:8786"
    requests = []

    def build(request, observer):
        requests.append(request)
        raise UsageError("enough")

    fake_build.build = build
    cli("build", env={"TILEC_SCHEDULER": address})
    cli("build", "--scheduler", "local:3", "--fallback", "local", env={"TILEC_SCHEDULER": address})
    cli("build", "-j", "2", env={"TILEC_SCHEDULER": "local:5"})
    found = [(one.scheduler, one.fallback, one.workers) for one in requests]
    assert found[0][:2] == (address, False)
    assert found[1:] == [("", True, 3), ("", False, 2)]
    done = cli("build", "--scheduler", "local:3", "-j", "2")
    assert (done.code, "both say how many" in done.err) == (2, True)
