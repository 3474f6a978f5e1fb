"""The command `tilec`, which `python -m tilec` is too: sees to Ctrl-C before anything else is imported."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """The console script."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a caller may have it ignored
        # While nothing has begun there is nothing to say or to undo. The command takes over when it is ready, and gives back at its end.
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from tilec.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
