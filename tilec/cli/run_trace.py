"""What chosen blocks of a launch do, operation by operation, under the lines of the source that they come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tilec.cli.style import style

if TYPE_CHECKING:
    from tilec.cli.findings import SourceLine
    from tilec_runtime.cpu.launch import CpuRun


def trace_run(run: CpuRun, blocks: Sequence[tuple[int, int, int]], source: SourceLine, say: Callable[[str], None]) -> None:
    """Run these blocks of a launch, and no others.

    Args:
        run: the launch.
        blocks: their places in the grid.
        source: gives a line of a file.
        say: takes each line as it comes: what the kernel is given, the block, then a line of the source wherever it changes, with its
            operations under it.
    """
    from tilec_runtime.cpu.tileir.trace import step

    block: tuple[int, int, int] | None = None
    place: tuple[str, int] | None = None
    with step(run.program, run.arguments, run.grid, run.memory, blocks, run.options) as stepper:
        say(style(f"parameters of {run.kernel}", bold=True))
        for number, (value, held) in enumerate(stepper.parameters()):
            say(f"    %{value.index} = {run.slots[number] if run.slots else f'argument {number}'}  -> {held}")
        for executed in stepper:
            if executed.block != block:
                block, place = executed.block, None
                say(style(f"block {block} of grid {run.grid}, {run.kernel}", bold=True))
            here = executed.location
            if here is not None and (here.file, here.line) != place:
                place = here.file, here.line
                say(f"{here.file}:{here.line}: {style(source(here.file, here.line).strip(), fg='cyan')}".rstrip())
            say(f"    {str(executed).removeprefix(f'{here}: ')}")
