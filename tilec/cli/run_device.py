"""The device of a run: a GPU if there is one, else the cpu device; and what of the command line
only the latter takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tilec.cli.app import App
from tilec.cli.style import echo
from tilec_runtime.errors import MissingError, NoDeviceError, UsageError

if TYPE_CHECKING:
    from tilec.case.sanitize import Watch
    from tilec.manifest.types import Manifest
    from tilec_runtime.cpu.launch import CpuRun
    from tilec_runtime.device.seam import DeviceDriver, DeviceInfo

AUTO, CPU, ALL = "auto", "cpu", "all"
DEVICES = "take auto, cpu, cuda, cuda:N for the GPU number N, or (for `tilec run`) all"
ORDERS = ("forward", "reverse")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CpuWish:
    """What the command line asks of the cpu device.

    Attributes:
        order: of the blocks; empty for the usual one.
        blocks: to trace instead of running all; empty for a whole run.
        steps: most passes of a batch of blocks through its loops; 0 for the usual limit.
        watch: makes the checkers of launches; None to check nothing.
    """

    order: str | int = ""
    blocks: tuple[tuple[int, int, int], ...] = ()
    steps: int = 0
    watch: Watch | None = None

    @property
    def given(self) -> str:
        """The option that asks for the cpu device; empty where none does."""
        asked = {
            "--check": self.watch,
            "--trace": self.blocks,
            "--block-order": self.order != "",
            "--steps": self.steps,
        }
        return next((option for option, given in asked.items() if given), "")


def parse_order(text: str) -> str | int:
    """Read `--block-order`.

    Raises:
        UsageError: it is none.
    """
    if text in ("", *ORDERS):
        return text
    if text.isdecimal() and len(text) < 19:
        return int(text)
    raise UsageError(
        f"--block-order {text!r}: take forward, reverse or a whole number, the seed of a random order"
    )


def parse_block(text: str) -> tuple[int, int, int]:
    """Read `--block`: one to three numbers.

    Raises:
        UsageError: it is no place of a grid.
    """
    parts = [part.strip() for part in text.split(",")]
    if not 1 <= len(parts) <= 3 or not all(part.isdecimal() and len(part) < 11 for part in parts):
        raise UsageError(f"--block {text!r}: take its place in the grid, such as 3 or 3,0")
    x, y, z = (*map(int, parts), 0, 0)[:3]
    return x, y, z


def find_device(
    app: App,
    name: str,
    wish: CpuWish,
    *,
    work: Callable[[], str],
    manifest: Manifest | None,
    traced: Callable[[str], None],
) -> tuple[DeviceDriver, DeviceInfo]:
    """The device of a run, before anything is built for it.

    Args:
        app: says which one is taken, where that was left open.
        name: of `--device`.
        wish: options of the cpu device, which ask for it.
        work: what there is to run, for the message.
        manifest: the project's; None without one.
        traced: takes each line of a trace.

    Raises:
        UsageError: no such device, or options that it does not have.
        NoDeviceError: the GPU that was named is not there.
    """
    root = Path(manifest.root) if manifest else app.base
    name = _named(name)
    if name == CPU or (name == AUTO and wish.given):
        return _cpu(app, wish, traced, root)
    if name != AUTO:
        if wish.given:
            raise UsageError(
                f"{wish.given} needs the cpu device, and --device is {name}",
                fix="pass --device cpu",
            )
        return _gpu(name, work, manifest)
    try:
        driver, device = _gpu("cuda:0", work, manifest)
    except MissingError as error:
        app.note(f"running on the cpu device, without a GPU: {_lacking(error)}")
        return _cpu(app, wish, traced, root)
    app.note(f"running on {device}")
    return driver, device


def find_devices(
    app: App,
    name: str,
    wish: CpuWish,
    *,
    work: Callable[[], str],
    manifest: Manifest | None,
    traced: Callable[[str], None],
) -> list[tuple[DeviceDriver, DeviceInfo]]:
    """The devices of a run: every GPU and the cpu device for `all`, else the one that `find_device`
    finds.

    Raises:
        UsageError: no such device, or options that it does not have.
        NoDeviceError: the GPU that was named is not there.
    """
    if name != ALL:
        return [find_device(app, name, wish, work=work, manifest=manifest, traced=traced)]
    if wish.given:
        raise UsageError(
            f"{wish.given} needs the cpu device, and --device is all", fix="pass --device cpu"
        )
    found: list[tuple[DeviceDriver, DeviceInfo]] = []
    try:
        driver, _ = _gpu("cuda:0", work, manifest)
        found += [(driver, driver.device(ordinal)) for ordinal in range(driver.device_count())]
    except MissingError as error:
        app.note(f"running on the cpu device alone, without a GPU: {_lacking(error)}")
    return [*found, _cpu(app, wish, traced, Path(manifest.root) if manifest else app.base)]


def _lacking(error: MissingError) -> str:
    return str(getattr(error.__cause__, "what", error.what)).partition(":")[0]


def _named(text: str) -> str:
    """`--device`, with a number alone for a GPU's.

    Raises:
        UsageError: it is none.
    """
    name = f"cuda:{text}" if text.isdecimal() else text
    kind, colon, number = name.partition(":")
    if name not in (AUTO, CPU, "cuda") and not (
        kind == "cuda" and colon and number.isdecimal() and len(number) < 5
    ):
        raise UsageError(
            f"--device: {text!r} is no device that kernels run on" if text else "--device is empty",
            fix=DEVICES,
        )
    return name


def _gpu(
    name: str, work: Callable[[], str], manifest: Manifest | None
) -> tuple[DeviceDriver, DeviceInfo]:
    from tilec_runtime.device import driver as _driver
    from tilec_runtime.device.devices import find_device as facts_of

    try:
        driver = _driver.driver()
        return driver, facts_of(name, driver)
    except NoDeviceError as error:
        least = manifest.targets.min_driver if manifest and manifest.targets.min_driver else 580
        fix = (
            "leave --device out, or say --device cpu, to run the tile kernels here; "
            f"or carry the project and its bundle to a machine with an NVIDIA GPU and driver {least} or newer, "
            "and there `tilec run --bundle FILE`"
        )
        raise NoDeviceError(
            f"running {work()} needs a GPU ({name}): {error.what}", cause=error.cause, fix=fix
        ) from error


def _cpu(
    app: App, wish: CpuWish, traced: Callable[[str], None], root: Path
) -> tuple[DeviceDriver, DeviceInfo]:
    from tilec_runtime.cpu.driver import CPU as DEVICE
    from tilec_runtime.cpu.driver import CpuDriver
    from tilec_runtime.cpu.launch import CpuOptions, execute_run

    def show(text: str) -> None:
        app.wipe()
        echo(text, nl=False, err=app.json)

    def trace(run: CpuRun) -> None:
        from tilec.cli.findings import Sources
        from tilec.cli.run_results import trace_run

        trace_run(run, wish.blocks, Sources(root).line, traced)

    order = wish.order if wish.order != "" else ORDERS[0]
    options = CpuOptions(
        order=order,
        steps=wish.steps,
        output=show,
        observer=wish.watch,
        run=trace if wish.blocks else execute_run,
    )
    return CpuDriver(options), DEVICE
