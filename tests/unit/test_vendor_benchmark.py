"""benchmarks/vendor_kernels.py: what it counts, chooses and records, without a GPU and without
torch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
try:
    import vendor_candidates as candidates
    import vendor_page as page
    from vendor_rows import ROWS
finally:
    sys.path.pop(0)


def test_every_row_has_its_candidates_and_every_kernel_its_row():
    needed = {name for row in ROWS for name in candidates.NEEDS.get(row, (row,))}
    assert needed == set(candidates.FAMILIES)
    with pytest.raises(SystemExit, match="no row 'gem': rows are add"):
        candidates.families("gem")


def test_the_page_shows_the_results_and_says_why_of_every_miss():
    found = json.loads(page.RESULT.read_text(encoding="utf-8"))
    text = page.PAGE.read_text(encoding="utf-8")
    for name, made in page.parts(found).items():
        assert page.filled(text, name, made) == text, "run benchmarks/vendor_page.py"
    assert [row for row in page.misses(found) if not page.reason(row)] == []
    assert {row["row"] for row in found["rows"]} == set(ROWS)
    assert page.written(found) == page.RESULT.read_text(encoding="utf-8")
    assert page.listing(found) == page.TABLE.read_text(encoding="utf-8")
