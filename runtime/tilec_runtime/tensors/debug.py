"""What `TILEC_DEBUG=leases` tells of tensors: who takes which claim, which stream waits for which,
and where memory is freed.
"""

from __future__ import annotations

import logging

from tilec_runtime.forks import Once
from tilec_runtime.sites import debugging


@Once
def leases() -> logging.Logger | None:
    """The log of leases, if the environment asks for it; it is looked at once."""
    if "leases" not in debugging():
        return None
    log = logging.getLogger("tilec.leases")
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("tilec: %(message)s"))
        log.addHandler(handler)
        log.propagate = False
    log.setLevel(logging.DEBUG)
    return log
