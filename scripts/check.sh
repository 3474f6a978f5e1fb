#!/usr/bin/env bash
# Every check of the project, in the order in which failures are cheapest to see. Run from a checkout, in the project's environment.
set -euo pipefail
cd "$(dirname "$0")/.."
step() { printf '\n== %s\n' "$*"; }

# A step that hangs is stopped, and says so: `within LIMIT COMMAND`. The limits are many times what a slow machine of two cores takes.
within() {
    local limit=$1 code=0
    shift
    timeout --verbose --foreground --signal=INT --kill-after=60s "$limit" "$@" || code=$?
    if ((code == 124)); then echo "error: not done after $limit, so that it was stopped: $*" >&2; fi
    return "$code"
}

step "launch core: build without warnings"
export TILEC_NATIVE_STRICT=1
(cd runtime && within 5m python setup.py -q build_ext --inplace)

step "ruff"
within 5m python -m ruff check .
within 5m python -m ruff format --check .

step "import cycles and escape hatches (scripts/house.json)"
within 5m python scripts/house.py --gate

step "mypy (strict)"
within 15m python -m mypy

step "examples: tilec check, tilec build"
within 15m tilec check
within 15m tilec build

step "pyright on the generated launchers"
within 15m python -m pyright

step "pytest"
within 45m scripts/tests.sh "$@"
