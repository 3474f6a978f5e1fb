"""Attack campaigns: short in the gate, long with `TILEC_ATTACK=long`, which records its figures."""

import json
import os
import platform
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "attack.json"


class Campaign:
    """The length of one attack test, and where its figures go."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.long = os.environ.get("TILEC_ATTACK") == "long"

    def rounds(self, short: int, long: int) -> int:
        """Return how often to attack: `short` in the gate, `long` in a full campaign."""
        return long if self.long else short

    def record(self, **figures: object) -> None:
        """Write the figures of a long campaign to `benchmarks/results/attack.json`."""
        if not self.long:
            return
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        results[self.name] = {
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            **figures,
        }
        RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=2) + "\n")


@pytest.fixture
def campaign(request: pytest.FixtureRequest) -> Campaign:
    return Campaign(request.node.name)
