"""The policy for compilation at load, and the compilers."""

from __future__ import annotations

import enum


class JitFallback(enum.Enum):
    """The manifest's `jit-fallback`: whether images may be compiled at load.

    The default is to deny it.
    """

    DENY = "deny"
    WARN = "warn"
    ALLOW = "allow"

    @classmethod
    def parse(cls, text: str) -> JitFallback:
        """Read a policy's name.

        Raises:
            ValueError: no policy has this name.
        """
        for member in cls:
            if member.value == text:
                return member
        raise ValueError(f"{text!r} is none of {', '.join(member.value for member in cls)}")


class JitBy(enum.Enum):
    """The compiler of an image at load."""

    DRIVER = "the driver"
    NVJITLINK = "nvJitLink"
