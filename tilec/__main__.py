"""The command `tilec`, which `python -m tilec` is too: sees to Ctrl-C before anything else is
imported.

`python -m` looks for modules in the current directory first, so it runs a project's own `tilec.py`
if there is one, and nothing here can keep it from that: the command `tilec` does not look there,
nor does `python -P -m tilec`.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and not getattr(sys.flags, "safe_path", False):  # of Python 3.11
    del sys.path[0]  # the current directory, where a project may have a `signal.py` or a `numpy.py`

import signal


def main() -> None:
    """The console script."""
    if (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):  # a caller may have it ignored
        # While nothing has begun there is nothing to say or to undo. The command takes over when it
        # is ready, and gives back at its end.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from tilec.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
