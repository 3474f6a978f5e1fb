"""Ceilings measured by a process of its own: what torch leaves in a GPU's memory makes kernels of
the same process slower, by 8 % once.

`main` prints them as one line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence

from tilec.bench.ceilings import NO_TORCH, ceilings_json, measure_ceilings, read_rates
from tilec.bench.libraries import open_library
from tilec.bench.work import Ceilings
from tilec.compile.own import own_command
from tilec_runtime.device.devices import driver_of, find_device
from tilec_runtime.errors import MissingError, TilecError

PATIENCE = 300  # seconds, most of which importing torch may take


def measured_apart(device: str, command: Sequence[str] = ()) -> Ceilings:
    """The ceilings of a GPU; none where the process gives none, and why is said.

    Args:
        device: its name, `cuda:0`.
        command: what measures them, by default `main`.
    """
    command = command or own_command("tilec.bench.apart")
    try:
        done = subprocess.run(
            [*command, device],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ceilings(missing=f"they cannot be measured: that takes longer than {PATIENCE} s")
    except OSError as error:
        return Ceilings(missing=f"they cannot be measured: {error}")
    try:
        return read_rates(json.loads(done.stdout.strip().rpartition("\n")[2]))
    except (ValueError, KeyError, TypeError):
        said = (
            done.stderr.strip().rpartition("\n")[2] or "the process that measures them says nothing"
        )
        return Ceilings(missing=f"they cannot be measured: {said}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the ceilings of a device, by default that of the process's arguments, and print them."""
    (name,) = sys.argv[1:] if arguments is None else arguments
    try:
        driver = driver_of(name)
        device = find_device(name, driver)
        why, torch = NO_TORCH, None
        try:
            torch = open_library("torch", device, time.perf_counter).module
        except MissingError as error:
            why = NO_TORCH if "not installed" in error.what else error.what
        found = ceilings_json(measure_ceilings(device, driver, torch, clock=time.perf_counter))
        sys.stdout.write(f"{json.dumps(found | ({'missing': why} if torch is None else {}))}\n")
    except TilecError as error:
        sys.stderr.write(f"{error.what}\n")
        return 1
    return 0
