"""Output with tilec's own colours, and with control characters of other texts escaped."""

from __future__ import annotations

import os
from typing import Any

import click

from tilec_runtime.foreign import printable

# Begins tilec's own sequences until they are printed; all others are escaped. No text of a bundle, a
# manifest or a compiler holds the number, which is random. Terminals take it for a parameter.
_OWN = f"\x1b[{int.from_bytes(os.urandom(6), 'big')};"


def style(text: str, **how: Any) -> str:
    """Colour a text; arguments as for `click.style`."""
    begin = click.style("", reset=False, **how).replace("\x1b[", _OWN)
    return f"{begin}{_escaped(text)}{_OWN}0m"


def echo(text: str = "", *, err: bool = False, nl: bool = True, color: bool | None = None) -> None:
    """Print a text on standard output or error; every message for people goes through here.

    Args:
        text: with the colours of `style`; control characters in it are escaped.
        err: print on standard error.
        nl: end the line.
        color: keep colours; None for terminals only.
    """
    click.echo(_escaped(text).replace(_OWN, "\x1b["), err=err, nl=nl, color=color)


def _escaped(text: str) -> str:
    return _OWN.join(map(printable, text.split(_OWN)))
