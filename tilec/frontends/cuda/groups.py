"""The program that this process compiled last: other jobs of its group, and PTX of the same
architecture, are taken from it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from tilec.frontends.cuda.asked import Made
from tilec.frontends.cuda.program import ProgramCompiler


class Programs:
    """Keeps one program: a worker gets the jobs that share one after another.

    Attributes:
        failed: what stands for the last group that did not compile, so that it is tried once.
    """

    def __init__(self) -> None:
        """Nothing yet."""
        self.failed: Hashable = None
        self._state: Hashable = None
        self._compiled: Made | None = None
        self._finished: dict[Hashable, Made] = {}

    def get(
        self, state: Callable[[], Hashable], wanted: Hashable, compiler: ProgramCompiler
    ) -> Made:
        """A program, compiled only if what is kept will not do.

        Args:
            state: everything that what is compiled depends on, as it is now.
            wanted: what else the finished program depends on.
            compiler: makes it.

        Raises:
            CompileError: it does not compile.
            ToolchainError: a tool does not start.
        """
        now = state()
        if self._state != now:
            self._state, self._compiled, self._finished = None, None, {}  # never two at once
        made = self._finished.get(wanted)
        if made is None:
            compiled = self._compiled
            if compiled is None or not compiler.will_do(compiled):
                compiled = compiler.compile()
            made = compiler.finish(compiled)
            if state() == now:  # sources that were edited meanwhile are nobody's
                self._state, self._compiled = now, compiled
                self._finished[wanted] = made
        return made
