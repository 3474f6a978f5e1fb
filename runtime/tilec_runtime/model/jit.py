"""What may be compiled when a bundle is loaded, and by what."""

from __future__ import annotations

import enum


class JitFallback(enum.Enum):
    """`jit-fallback` of a manifest: whether code that is no machine code may be compiled on the
    machine that loads it. By default not.
    """

    DENY = "deny"
    WARN = "warn"
    ALLOW = "allow"

    @classmethod
    def parse(cls, text: str) -> JitFallback:
        """Read a policy's name.

        Raises:
            ValueError: it is none.
        """
        for member in cls:
            if member.value == text:
                return member
        raise ValueError(f"{text!r} is none of {', '.join(member.value for member in cls)}")


class JitBy(enum.Enum):
    """What compiles an image at load."""

    DRIVER = "the driver"
    NVJITLINK = "nvJitLink"
