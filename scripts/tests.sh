#!/usr/bin/env bash
# The tests that need no GPU, as the gate runs them: none may hang. One that takes longer than TILEC_TEST_LIMIT seconds ends its worker, which
# says where all its threads are; the test has failed then, and another worker goes on with the rest. TILEC_TESTS=long adds the long tests,
# and all examples of the properties. Arguments are pytest's.
set -euo pipefail
cd "$(dirname "$0")/.."
unset PYTHONDONTWRITEBYTECODE  # a thousand commands are run: each would compile tilec anew
chosen="not gpu and not long"
if [[ ${TILEC_TESTS:-} == long ]]; then chosen="not gpu"; fi
exec python -m pytest -n "${TILEC_TEST_WORKERS:-2}" --dist worksteal --max-worker-restart 4 -m "$chosen" \
    -o faulthandler_timeout="${TILEC_TEST_LIMIT:-300}" -o faulthandler_exit_on_timeout=true "$@"
