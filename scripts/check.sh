#!/usr/bin/env bash
# Every check of the project, in the order in which failures are cheapest to see. Run from a checkout, in the project's environment.
set -euo pipefail
cd "$(dirname "$0")/.."
step() { printf '\n== %s\n' "$*"; }

step "ruff"
python -m ruff check .
python -m ruff format --check .

step "mypy (strict)"
python -m mypy

step "examples: tilec check, tilec build"
tilec check
tilec build

step "pyright on the generated launchers"
python -m pyright

step "pytest"
python -m pytest -n "${TILEC_TEST_WORKERS:-2}" -m "not gpu" "$@"
