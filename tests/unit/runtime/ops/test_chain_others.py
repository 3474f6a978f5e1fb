"""Steps of a chain whose launches are known, while somebody else does something with its tensors,
or watches.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.runtime.ops.chain_samples import Gpu, chained, on, owned
from tilec_runtime.errors import BorrowError


@pytest.mark.parametrize("at", range(9))
def test_a_claim_that_a_step_makes_is_in_the_way_of_its_launch(gpu: Gpu, at: int) -> None:
    module, driver = gpu
    kept: list[Any] = []
    count = iter(range(100))

    def claims(found: tuple[Any, ...]) -> bool:
        if next(count) == at:
            kept.append(found[1].view(512))
        return True

    before = module.lazy.add(*on(driver, 512, 512, 512)).sync()
    with pytest.raises(BorrowError, match="the view"):
        chained(
            module.lazy.add(*before), 12, lambda found: claims(found) and module.lazy.add(*found)
        ).sync()
    kept.clear()
    assert owned(*before[:3])
