#!/usr/bin/env bash
# Operators in torch on the cpu device, in an environment without the build half, which torch's own pins of CUDA and Triton could not share:
# tests/frameworks; hub packages: tests/e2e/test_hub.py; and the runtime's tests that need torch. TORCH_PYTHON is the Python of such an environment
# (torch, numpy, ml_dtypes, cuda-bindings, kernels, pytest, pytest-xdist, hypothesis); without it, one is made in build/frameworks, with torch's
# CPU wheel. Arguments are pytest's. Run it in the project's environment, which builds the package.
set -euo pipefail
cd "$(dirname "$0")/.."

made=$PWD/build/frameworks
rm -rf "$made/project"
mkdir -p "$made"
cp -r tests/samples/operators "$made/project"
python -m tilec -C "$made/project" build --targets tileir

python=${TORCH_PYTHON:-}
if [[ -z $python ]]; then
    python=$made/env/bin/python
    if [[ ! -x $python ]]; then
        python3 -m venv "$made/env"
        "$python" -m pip install --quiet --upgrade pip
        "$python" -m pip install --quiet torch --index-url https://download.pytorch.org/whl/cpu ||
            "$python" -m pip install --quiet torch
        "$python" -m pip install --quiet pytest pytest-xdist hypothesis
    fi
fi
"$python" -m pip install --quiet --no-deps --force-reinstall ./runtime
"$python" -m pip install --quiet numpy ml_dtypes cuda-bindings "kernels==0.17.*"
# Built here, and loaded there by Hugging Face's own library.
TILEC_TORCH_PYTHON=$python python -m pytest -q -n 0 tests/e2e/test_hub.py
PYTHONPATH=$PWD:$PWD/runtime "$python" -m pytest -q -n 0 -p no:cacheprovider \
    tests/unit/runtime/core/test_torch.py tests/unit/runtime/tensors/test_libraries.py
tests=$PWD/tests/frameworks
cd "$made" # not the checkout, which holds the build half
TILEC_OPERATORS_DIST=$made/project/dist exec "$python" -m pytest -c "$tests/pytest.ini" --rootdir "$tests" "$tests" "$@"
