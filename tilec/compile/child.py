"""How tilec starts Python processes of its own."""

from __future__ import annotations

import os
import sys

from tilec.compile.own import PACKAGES

_START = "import sys; sys.path[:] = {path!r}; import importlib; sys.exit(importlib.import_module(sys.argv.pop(1)).main())"


def own_command(module: str, *args: str) -> list[str]:
    """Return the command line of a process that runs `main` of one of tilec's modules, with the
    import path of this process.

    Not `python -m`, which looks into the current directory first: a project may well have a
    `tilec.py`, a `json.py` or a `cuda` folder.
    """
    path = [os.path.abspath(entry) for entry in sys.path]  # noqa: PTH100  (of strings, as sys.path has them)
    homes = (
        str(place.resolve().parent) for place in PACKAGES
    )  # this process may have found them where its path leads no more
    return [
        sys.executable,
        "-c",
        _START.format(path=list(dict.fromkeys((*path, *homes)))),
        module,
        *args,
    ]
