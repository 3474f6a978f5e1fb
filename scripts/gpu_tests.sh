#!/usr/bin/env bash
# Everything that needs a GPU, on a machine that has one and no compilers: the tests marked `gpu`, then every example's case.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: scripts/gpu_tests.sh [--dist DIR] [--wheels DIR] [--out DIR] [--device cuda:0] [-k EXPR]
                            [--sanitize memcheck|racecheck|initcheck|synccheck|all] [--sanitize-limit SECONDS]

Runs on any machine with an NVIDIA GPU and its driver; no CUDA toolkit is needed. There:
  1. pytest -m gpu tests/gpu
  2. every case of tilec.toml through the generated package, with torch tensors (scripts/gpu_cases.py)
and writes gpu_tests.xml, gpu_cases.json and gpu_tests.txt to the output directory.

The kernels are built elsewhere, on a machine that needs no GPU:
  python -m pip download --no-deps -d wheels pytest pluggy iniconfig hypothesis sortedcontainers ml_dtypes trio attrs sniffio outcome idna msgspec packaging   # what is missing there
  bash scripts/gpu_builds.sh carried --wheels wheels   # a copy of the checkout with all bundles: carry it over, and start this there
Tests whose bundle is not there are skipped: pytest -rs tells which.

  --dist DIR     directory of the built package (default: dist)
  --wheels DIR   wheels to install for this run only, into a temporary directory, without a package index
  --out DIR      where results go (default: benchmarks/results/gpu)
  --device NAME  torch's name of the GPU (default: cuda:0)
  -k EXPR        only these cases, such as 'gemm and not f16' (the tests run all the same)
  --sanitize T   run the tests that compute-sanitizer can follow under its tool T (all: its four, one after the other), and
                 nothing else, each file of tests in processes of its own, several at once: findings are in sanitizer-T-FILE.txt, the tests'
                 output in sanitizer-T-FILE-tests.txt, the numbers in sanitizer.json.
                 compute-sanitizer is COMPUTE_SANITIZER, that of a wheel in --wheels (nvidia-cuda-sanitizer-api), or the one in PATH.
                 TILEC_PROGRAMS says how many random programs it follows (8 here)
  --sanitize-limit S
                 seconds after which no test of a tool begins any more (default: 240); what was not run by then is said

Environment: PYTHON (default: python3), with numpy, torch, click, jinja2, cuda-bindings, cuda-core.
Exit codes: 0 all passed, 1 something failed or was found, 2 usage, 3 no GPU, no package or no compute-sanitizer,
4 nothing was found, but the limit came before the last test.
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
dist=$root/dist
out=$root/benchmarks/results/gpu
wheels=
device=cuda:0
sanitize=
limit=240
cases=()
while (($#)); do
    case $1 in
        -h | --help) usage && exit 0 ;;
        --dist) dist=$(realpath "${2:?}") && shift 2 ;;
        --wheels) wheels=$(realpath "${2:?}") && shift 2 ;;
        --out) mkdir -p "${2:?}" && out=$(realpath "$2") && shift 2 ;;
        --device) device=${2:?} && shift 2 ;;
        --sanitize) sanitize=${2:?} && shift 2 ;;
        --sanitize-limit) limit=${2:?} && shift 2 ;;
        -k) cases+=(-k "${2:?}") && shift 2 ;;
        *) echo "unknown option: $1" >&2 && usage >&2 && exit 2 ;;
    esac
done

case $sanitize in
    "") ;;
    memcheck | racecheck | initcheck | synccheck) tools=(--tool "$sanitize") ;;
    all) tools=(--tool memcheck --tool racecheck --tool initcheck --tool synccheck) ;;
    *) echo "unknown tool: $sanitize" >&2 && usage >&2 && exit 2 ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$out"
cd "$root"
export PYTHONPATH="$root:$root/runtime:$dist${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONDONTWRITEBYTECODE=1
if [[ -n $wheels ]]; then
    "$python" -m pip install --quiet --no-index --no-deps --target "$scratch/site" "$wheels"/*.whl
    export PYTHONPATH="$PYTHONPATH:$scratch/site"
fi
if ! "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2> "$scratch/torch"; then
    tail -n 1 "$scratch/torch" >&2
    echo "no GPU that torch can use: nothing was run" >&2
    exit 3
fi

if [[ -n $sanitize ]]; then
    tool=${COMPUTE_SANITIZER:-$(find "$scratch" -path '*/compute-sanitizer/compute-sanitizer' -type f | head -n 1)}
    tool=${tool:-$(command -v compute-sanitizer || true)}
    if [[ -z $tool ]]; then
        echo "there is no compute-sanitizer: nothing was run" >&2
        exit 3
    fi
    chmod +x "$tool" 2> /dev/null || true
    echo "== tests under compute-sanitizer: $sanitize"
    status=0
    "$python" scripts/gpu_sanitize.py --sanitizer "$tool" "${tools[@]}" --limit "$limit" --out "$out" || status=$?
    exit "$status"
fi

echo "== tests marked gpu"
tests=0
"$python" -m pytest -q -m gpu tests/gpu -p no:cacheprovider --junitxml "$out/gpu_tests.xml" 2>&1 | tee "$out/gpu_tests.txt" || tests=$?

echo "== cases of tilec.toml"
status=0
"$python" scripts/gpu_cases.py --dist "$dist" --device "$device" --out "$out/gpu_cases.json" "${cases[@]}" 2>&1 | tee -a "$out/gpu_tests.txt" || status=$?

echo "== summary"
echo "tests: $( ((tests == 0)) && echo passed || echo "failed (pytest exit $tests)"); cases: $( ((status == 0)) && echo passed || echo "failed (exit $status)")"
echo "results in $out"
if ((tests != 0)); then exit 1; fi
exit "$status"
