#!/usr/bin/env bash
# Every check of the project, the cheapest first. Run it in the project's environment.
#
#   scripts/check.sh [PYTEST ARGUMENT...]   the gate
#   scripts/check.sh --full                 the gate with long tests, then sanitizers, comparisons and attacks
set -euo pipefail
cd "$(dirname "$0")/.."
full=false
if [[ ${1:-} == --full ]]; then
    full=true
    export TILEC_TESTS=long
    shift
fi

# step LIMIT TITLE COMMAND...: a command that takes longer than its limit is stopped and fails. The
# limits are many times what a slow machine with two cores takes.
step() {
    local limit=$1 title=$2 code=0
    shift 2
    printf '\n== %s\n' "$title"
    timeout --verbose --foreground --signal=INT --kill-after=60s "$limit" "$@" || code=$?
    if ((code == 124)); then echo "error: stopped after $limit: $*" >&2; fi
    return "$code"
}

step 5m "launch core: build without warnings" \
    env -C runtime TILEC_NATIVE_STRICT=1 python setup.py -q build_ext --inplace
step 5m "ruff: rules" python -m ruff check .
step 5m "ruff: format" python -m ruff format --check .
step 5m "import cycles and escape hatches (scripts/house.json)" python scripts/house.py --gate
step 15m "mypy (strict)" python -m mypy
step 15m "examples: check" tilec check
step 15m "examples: build" tilec build
step 15m "pyright on the generated launchers" python -m pyright
step 90m "pytest" scripts/tests.sh "$@"
if ! $full; then exit; fi

step 15m "documentation: build the site without warnings" \
    python -m sphinx -q -W -n --keep-going -b html docs build/site
step 2h "launch core under AddressSanitizer and UndefinedBehaviorSanitizer" \
    env PYTHON=python scripts/core_sanitized.sh
step 2h "launch core against Python's path: 100,000 calls" \
    env TILEC_CORE_CALLS=100000 \
    python -m pytest -q -n 0 tests/unit/runtime/core/test_agreement.py
step 1h "torch operators, in an environment without the build half" scripts/frameworks_tests.sh
step 2h "attacks (figures: benchmarks/results/attack.json)" \
    env TILEC_ATTACK=long python -m pytest -q -n 0 tests/attack
