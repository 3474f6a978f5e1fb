#!/usr/bin/env bash
# The checks that take hours: everything of check.sh, then the launch core under sanitizers, long comparisons and long attacks. Run from a
# checkout, in the project's environment.
set -euo pipefail
cd "$(dirname "$0")/.."
step() { printf '\n== %s\n' "$*"; }

scripts/check.sh

step "launch core under AddressSanitizer and UndefinedBehaviorSanitizer"
PYTHON=python scripts/core_sanitized.sh

step "launch core against Python's path: 100,000 calls"
TILEC_CORE_CALLS=100000 python -m pytest -q -n 0 tests/unit/runtime/core/test_agreement.py

step "attacks (figures: benchmarks/results/attack.json)"
TILEC_ATTACK=long python -m pytest -q -n 0 tests/attack
