"""What every test can use: golden files, renewed by `pytest --renew-golden`; and what keeps tests
from hanging and from being slow.
"""

from __future__ import annotations

import faulthandler
import gc
import hashlib
import math
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

from tests.amount import part

# Messages of ops and leases name call sites in debug mode alone; tests read them (test_sites.py
# does without).
os.environ.setdefault("TILEC_DEBUG", "1")
# The gate tries the same examples every time, so that it fails for changes alone;
# HYPOTHESIS_PROFILE=explore looks for new ones.
hypothesis.settings.register_profile(
    "gate", derandomize=True, deadline=None, max_examples=part(100)
)
hypothesis.settings.register_profile("explore", derandomize=False, deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))

_RUNTIME = Path(__file__).parents[1] / "runtime"
Golden = Callable[[Path, str], None]
Terminal = Callable[[int], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--renew-golden",
        action="store_true",
        help="write golden files anew instead of comparing with them",
    )


# pytest's own limit of a test (faulthandler_timeout, which scripts/tests.sh sets) has two holes. It
# is lifted once a test has failed, so that what tears the test down may hang; and a forked child
# that hangs outlives the worker, whose pipes it holds open, so that nobody sees that the worker is
# gone. Such a child ends some seconds after its parent has: ended first, it would let the parent's
# test go on, and pass.
_CHILD_OUTLIVES = 5
_STDERR = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    _require_fresh_core()
    limit = _limit(config)
    if limit:
        config.stash[_STDERR] = os.dup(sys.__stderr__.fileno() if sys.__stderr__ else 2)
        os.register_at_fork(after_in_child=lambda: signal.alarm(math.ceil(limit) + _CHILD_OUTLIVES))


def _require_fresh_core() -> None:
    """Refuse a launch core that was built from other C sources: its failures name no cause."""
    from tilec_runtime.device.core import CORE

    files = sorted((_RUNTIME / "tilec_runtime/_core").rglob("*.[ch]"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    if CORE is not None and getattr(CORE, "sources", "") != digest:
        raise pytest.UsageError(
            "the launch core was built from other C sources; build it: "
            f"(cd {_RUNTIME} && python setup.py build_ext --inplace)"
        )


def pytest_unconfigure() -> None:
    gc.unfreeze()  # what is frozen would be there when the process ends, and some libraries complain


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    if limit := _limit(item.config):
        faulthandler.dump_traceback_later(
            limit,
            file=item.config.stash[_STDERR],
            exit=item.config.getini("faulthandler_exit_on_timeout"),
        )


def _limit(config: pytest.Config) -> float:
    return float(config.getini("faulthandler_timeout") or 0)


@pytest.fixture(scope="module", autouse=True)
def _own_garbage() -> None:
    """The collector looks at a module's own objects alone: beside compilers and ten thousand tests
    each of its runs takes half a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a text with a golden file, or writes the file where that was asked for."""
    renew = request.config.getoption("--renew-golden")

    def check(path: Path, text: str) -> None:
        if renew:
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path} is missing: write it with --renew-golden, and read it"
        assert text == path.read_text(encoding="utf-8")

    return check


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Makes standard output, which a test captures, a terminal of so many columns."""
    del capsys  # it has to have taken the place of standard output

    def of(columns: int) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    return of
