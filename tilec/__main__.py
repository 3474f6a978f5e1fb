"""The command `tilec` and `python -m tilec`: handle Ctrl-C before other imports.

`python -m tilec` runs a project's own `tilec.py` if the current directory has one, since Python
searches that directory first. The command `tilec` and `python -P -m tilec` do not search it.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):  # since Python 3.11
    del sys.path[0]  # the current directory, where a project may have a `signal.py` or a `numpy.py`

import signal


def main() -> None:
    """Run the console script."""
    if (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):  # a caller may ignore the signal
        # Until the command starts, there is nothing to report or undo: let Ctrl-C end the process.
        # The command installs its own handler, and restores this one at its end.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tilec.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
