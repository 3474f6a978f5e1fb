"""Output with tilec's colours; control characters of other texts are escaped."""

from __future__ import annotations

import os
from typing import Any

import click

from tilec_runtime.foreign import printable

# The prefix of tilec's own escape sequences until they are printed; others are escaped. Texts of
# bundles, manifests and compilers cannot contain the random number. Terminals read it as a
# parameter.
_OWN = f"\x1b[{int.from_bytes(os.urandom(6), 'big')};"


def style(text: str, **how: Any) -> str:
    """Colour a text; arguments as for `click.style`."""
    begin = click.style("", reset=False, **how).replace("\x1b[", _OWN)
    return f"{begin}{_escaped(text)}{_OWN}0m"


def echo(text: str = "", *, err: bool = False, nl: bool = True, color: bool | None = None) -> None:
    """Print a text on standard output or error, as all output for users.

    Args:
        text: text with colours of `style`; its control characters are escaped.
        err: print on standard error.
        nl: end the line.
        color: keep colours; None for terminals only.
    """
    click.echo(_escaped(text).replace(_OWN, "\x1b["), err=err, nl=nl, color=color)


def _escaped(text: str) -> str:
    return _OWN.join(map(printable, text.split(_OWN)))
