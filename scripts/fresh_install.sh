#!/usr/bin/env bash
# Installs a new project as its user does, and calls it: `pip install .` and `pip install -e .` in a
# fresh environment with torch for CPUs, builds isolated. tilec is on no index: pip finds wheels of
# this checkout in a folder. Needs the network, 2 GB and minutes. TORCH names another wheel.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git -C "$root" archive HEAD | tar -x -C "$work" --one-top-level=source
python -m pip wheel -q --no-deps -w "$work/wheels" "$work/source" "$work/source/runtime"
python -m venv "$work/env"
pip=("$work/env/bin/python" -m pip --disable-pip-version-check)
export PIP_FIND_LINKS="$work/wheels ${PIP_FIND_LINKS:-}"
"${pip[@]}" install -q "${TORCH:-torch==2.13.0+cpu}" numpy

cd "$work"
python -m tilec new demo
cat > call.py <<'P'
import demo
import numpy as np
import torch

kernels = demo.load("cpu")
for x in (np.arange(5000, dtype="f4"), torch.arange(5000, dtype=torch.float32)):
    y = 0 * x
    kernels.scale(y, x, factor=3.0)
    assert (y == 3 * x).all(), y
    print(type(x).__module__, "y =", y[:5])
P
cd demo
"${pip[@]}" install -q .
"$work/env/bin/python" ../call.py
! "${pip[@]}" list | grep -E '^(tilec|nvidia-|cuda-tile) ' || { echo "the build half is in the user's environment"; exit 1; }

"${pip[@]}" uninstall -q -y demo
"${pip[@]}" install -q -C targets=tileir -e .
"$work/env/bin/python" ../call.py
sed -i 's/ \* factor/ * (factor + 1.0)/' kernels.py
python -m tilec build --targets tileir
if "$work/env/bin/python" ../call.py 2> /dev/null; then echo "the rebuilt kernel was not called"; exit 1; fi
echo "1 passed, 0 failed"
