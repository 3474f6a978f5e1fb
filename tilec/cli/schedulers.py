"""The scheduler of jobs: `--scheduler`, `TILEC_SCHEDULER` and `--fallback`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from typing import TypeVar

import click

from tilec_runtime.errors import MissingError, UsageError

Command = TypeVar("Command", bound=Callable[..., object])
_LOCAL = re.compile(r"local(?::(\d{1,4}))?")
_ADDRESS = re.compile(r"(?:tcp|tls)://[^\s/]+:\d{1,5}")


def scheduler_options(command: Command) -> Command:
    """Add the options to a command."""
    fallback = click.option(
        "--fallback",
        type=click.Choice(["local"]),
        help="Compile the remaining jobs here if the scheduler cannot be reached or is lost.",
    )
    return click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Compile on the workers of a Dask scheduler (tcp://host:8786 or tls://…); local:4 is -j 4 (default: "
        "TILEC_SCHEDULER).",
    )(fallback(command))


def parse_scheduler(text: str, *, name: str) -> tuple[int, str]:
    """Return the worker processes of `local:4`, and the address of Dask.

    The number 0 means the default.

    Args:
        text: the user's setting; empty for none.
        name: name of the option or variable, for messages.

    Raises:
        UsageError: the text is neither form.
        MissingError: the text is an address, and Dask is not installed.
    """
    local = _LOCAL.fullmatch(text) if text else None
    if not text or local:
        return int(local[1] or 0) if local else 0, ""
    if not _ADDRESS.fullmatch(text):
        raise UsageError(
            f"{name}: {text!r} is not the address of a scheduler",
            fix="give the address that `dask scheduler` prints, such as tcp://host:8786, or local:4",
        )
    if importlib.util.find_spec("distributed") is None:
        raise MissingError(
            f"{name} {text} needs Dask, which is not installed",
            fix="pip install 'tilec[dask]'",
        )
    return 0, text
