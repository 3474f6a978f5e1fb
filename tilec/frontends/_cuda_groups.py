"""The program of the group that this process compiled last: the jobs of its other members take theirs from it."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tilec.errors import CompileError
from tilec.frontends._cuda_program import Made


class Programs:
    """Keeps one program: a worker gets the jobs of a group one after another."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._key: Hashable = None
        self._made: Made | None = None

    def get(self, state: Callable[[], Hashable], make: Callable[[], Made]) -> Made | None:
        """The program for a state of sources and options, made at most once; None where it does not compile.

        Args:
            state: everything that the program depends on, as it is now.
            make: compiles it.

        Raises:
            CompileError: the time limit was reached.
            ToolchainError: a tool does not start.
        """
        key = state()
        if self._key == key:
            return self._made
        self._key, self._made = None, None  # never two at once
        try:
            made = make()
        except CompileError as error:
            if error.overtime:
                raise
            made = None
        if state() == key:  # sources that were edited meanwhile are nobody's
            self._key, self._made = key, made
        return made
