#!/usr/bin/env bash
# Everything that the tests on a GPU take, built where there is none: a copy of this checkout with all bundles in their places, to be carried over.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: scripts/gpu_builds.sh DIR [--wheels DIR]

Copies what git tracks (and new files that it does not ignore) to DIR, which must not exist, and builds there, with tilec[all] and no GPU:
  dist/                   tilec.toml: bundle, package, fatbins; dispatch/ and softmax.tune, which tests measure; debug/ for debuggers
  examples/*/dist/        the other examples
  benchmarks/programs/    the kernels of the launch benchmarks, and build/c_loop.so
  tests/samples/corpus_*/ the corpus; tests/samples/operators/ the operators
  tests/samples/needs_project/ lists of arrays
  build/                  SIMT kernels with checks, a Python link, prebuilt kernels in every form, kernels with bugs
Carry DIR to a machine with a GPU; there: bash scripts/gpu_tests.sh

  --wheels DIR   copied to dist/wheels: what the machine with the GPU lacks

Environment: PYTHON (default: python3), with tilec[all] and setuptools, of the Python release that the other machine has; TILEC_CACHE_DIR.
Exit codes: 0 all built, 2 usage, else those of `tilec build`.
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-python3}
out=
wheels=
while (($#)); do
    case $1 in
        -h | --help) usage && exit 0 ;;
        --wheels) wheels=$(realpath "${2:?}") && shift 2 ;;
        -*) echo "unknown option: $1" >&2 && usage >&2 && exit 2 ;;
        *) out=$(realpath -m "$1") && shift ;;
    esac
done
if [[ -z $out || -e $out ]]; then
    echo "${out:-no DIR}: give the name of a directory that does not exist" >&2
    exit 2
fi

cd "$root"
mkdir -p "$out"
git ls-files -z --cached --others --exclude-standard | xargs -0 sh -c 'for f; do [ -e "$f" ] && printf "%s\0" "$f"; done' sh |
    tar c --null -T - | tar x -C "$out"
cd "$out"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export PYTHONPATH="$out:$out/runtime${PYTHONPATH:+:$PYTHONPATH}"

built() {
    echo "== tilec $*"
    "$python" -m tilec "$@" > "$log" 2>&1 || { local code=$?; cat "$log" >&2; exit "$code"; }
    tail -n 1 "$log"
}

# Of a project that is built again afterwards, for release: what it made, in another place.
debug() {
    built -C "$1" build --profile debug --targets "$2" --emit bundle
    mkdir -p "$3"
    mv "$1"/dist/*.tilec "$3"
    rm -rf "$1/dist"
}

for project in . examples/simt examples/triton; do debug "$project" sm_90 build/debug; done
debug examples/simt sm_90,compute_80 build/simt-debug
(cd runtime && "$python" setup.py -q build_ext --inplace && rm -rf build)
built build --emit bundle,package,fatbin
for project in triton simt inter_kernel linking tile_cpp kernels; do built -C "examples/$project" build; done
built -C benchmarks/programs build
mkdir -p build && "$python" benchmarks/c_loop.py
mv build/debug dist/debug
built -C examples/pipelines build --targets sm_90
for corpus in tests/samples/corpus_*; do built -C "$corpus" build; done
for made in prebuilt endless; do
    "$python" -m "tests.gpu.test_$made" "build/${made/_/-}"
    built -C "build/${made/_/-}" build
done
cp -r tests/samples/planted build/planted
built -C build/planted build --targets sm_90 --emit bundle
built -C tests/samples/operators build --targets gpu
built -C tests/samples/needs_project build --targets sm_90 --select 'grouped_gemm*' --emit bundle
cp -r tests/samples/dispatch_project dist/dispatch
built -C dist/dispatch build
built -C tests/samples/tuning tune --prepare softmax --target sm_90 -o "$out/dist/softmax.tune"
if [[ -n $wheels ]]; then cp -r "$wheels" dist/wheels; fi
find . -name .tilec -type d -prune -exec rm -rf {} +
du -sh "$out"
