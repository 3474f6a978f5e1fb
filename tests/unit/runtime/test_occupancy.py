"""What the device holds of a launch at once, and the refusals that count with it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.runtime_samples import ADD, Array, image, loaded
from tilec.testing.fake_driver import H200
from tilec_runtime.model.kernel import LaunchInfo

Z, X, Y = (Array(1000, ptr=0x100000 * k + 4) for k in (1, 2, 3))


def test_what_is_held_of_a_launch() -> None:
    module, driver = loaded(ADD, active_blocks=6)
    held = module.add.residency(Z, X, Y)
    assert (held.threads, held.max_active_blocks, held.max_cooperative_grid) == (256, 6, 6 * 132)
    assert driver.launches == []
    assert driver.loads, "the driver counts by the image"


def test_a_device_without_clusters_and_cooperative_launches() -> None:
    device = dataclasses.replace(H200, cluster=False, cooperative=False)
    held = loaded(ADD, devices=(device,))[0].add.residency(Z, X, Y)
    assert (held.max_cooperative_grid, held.max_cluster_size, held.max_active_clusters) == (0, 1, 0)


def test_the_suggestion_keeps_most_threads_resident(monkeypatch: pytest.MonkeyPatch) -> None:
    module, driver = loaded(ADD)

    def active(ordinal: int, function: Any, threads: int, shared: int) -> int:
        return 1536 // threads  # of 1024 threads one block fits, of 768 two

    monkeypatch.setattr(driver, "active_blocks", active)
    assert module.add.residency(Z, X, Y).suggest_block_size == 768


@pytest.mark.parametrize(
    ("facts", "size"),
    [({"max_threads": 128}, 128), ({"required_block": (256,)}, 256)],
    ids=["launch bounds", "a fixed block"],
)
def test_the_suggestion_keeps_to_what_was_compiled(facts: dict[str, Any], size: int) -> None:
    launch = LaunchInfo(grid=("1",), block=("128",) if size == 128 else ("256",))
    variant = dataclasses.replace(ADD.variants[1], images=(image("bounded", **facts),))
    module, _ = loaded(dataclasses.replace(ADD, launch=launch, variants=(variant,)))
    assert module.add.residency(Z, X, Y).suggest_block_size == size
