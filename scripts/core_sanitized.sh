#!/usr/bin/env bash
# Builds the launch core with AddressSanitizer and UndefinedBehaviorSanitizer and runs its tests under them. Nothing in the checkout changes.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: scripts/core_sanitized.sh [PYTEST ARGUMENT...]

Environment: PYTHON (default: python3), with the dev group; CC (default: gcc).
Exit codes: 0 no finding, else pytest's. A finding ends the process and prints where it is.
TEXT
}
if [[ ${1:-} == -h || ${1:-} == --help ]]; then usage && exit 0; fi

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
cc=${CC:-gcc}
place=$(mktemp -d)
trap 'cat "$place"/finding.* >&2 2> /dev/null || true; rm -rf "$place"' EXIT

# A copy, so that the extension of the checkout stays as it is.
(cd "$root" && git ls-files -z --cached --others --exclude-standard -- tilec runtime tests pyproject.toml README.md LICENSE) |
    (cd "$root" && xargs -0 sh -c 'for f; do [ -e "$f" ] && printf "%s\0" "$f"; done' sh | tar c --null -T -) | tar x -C "$place"
cd "$place"
flags="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g"
(cd runtime && CFLAGS=$flags LDFLAGS=$flags TILEC_NATIVE_STRICT=1 "$python" setup.py -q build_ext --inplace)

# CPython keeps memory until it ends, so leaks are for the tests to find. Its own allocator would hide overruns of small blocks.
# Findings go to files: pytest captures what a process prints.
export ASAN_OPTIONS=detect_leaks=0:strict_string_checks=1:log_path=$place/finding UBSAN_OPTIONS=print_stacktrace=1:log_path=$place/finding
export LD_PRELOAD=$("$cc" -print-file-name=libasan.so) PYTHONMALLOC=malloc PYTHONPATH=$place:$place/runtime TILEC_NATIVE_STRICT=1
# The sanitizer keeps freed memory for a while, so how much the process has says nothing here.
"$python" -m pytest -q -n 0 -p no:cacheprovider --deselect tests/unit/runtime/core/test_table.py::test_launches_leave_nothing_behind \
    tests/unit/runtime/core "$@"
