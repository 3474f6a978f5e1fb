"""Runs every case of a project on a GPU through its generated package, with torch tensors as
arguments, and writes the results as JSON.

Needs a driver, torch and the built package; no compiler. Exit codes: 0 every case passed, 1 one did
not, 3 there is no GPU or no package.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import platform
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilec.case.cases import BoundCase, expand_cases
from tilec.case.functions import Functions
from tilec.case.inputs import environment, make_inputs
from tilec.case.report import case_json
from tilec.case.run import CaseResult, run_case
from tilec.case.selection import parse_expression, select_cases
from tilec.compile.project import open_project
from tilec.frontends.base import ToolSearch
from tilec.inspection.container import open_container
from tilec.manifest.types import Manifest
from tilec_runtime.errors import ExpressionError, TilecError
from tilec_runtime.model import expr
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import BundleInfo
from tilec_runtime.tensors.host import numpy_dtype

REPEATS = 20


class TorchDevice:
    """A GPU whose tensors are torch's, and whose kernels are a generated package's launchers."""

    def __init__(self, module: Any, info: BundleInfo, device: str) -> None:
        import torch

        self.torch = torch
        self.module = module
        self.choices = {kernel.name: kernel.choices for kernel in info.kernels}
        self.device = torch.device(device)

    def refusal(self, case: BoundCase) -> str:  # noqa: ARG002 - of the protocol
        """A GPU refuses nothing."""
        return ""

    def to_device(self, array: np.ndarray, dtype: str) -> Any:
        """A torch tensor; dtypes that NumPy lacks travel as integers of the same width."""
        row = DTYPES[dtype]
        if hasattr(np, row.numpy):
            return self.torch.from_numpy(array).to(self.device)
        bits = {1: np.uint8, 2: np.int16}[row.bytes]
        return (
            self.torch.from_numpy(array.view(bits))
            .to(self.device)
            .view(getattr(self.torch, row.numpy))
        )

    def from_device(self, tensor: Any) -> np.ndarray:
        """The tensor's contents."""
        name = str(tensor.dtype).removeprefix("torch.")
        if hasattr(np, name):
            return tensor.cpu().numpy()
        row = next(row for row in DTYPES.values() if row.numpy == name)
        bits = {1: self.torch.uint8, 2: self.torch.int16}[row.bytes]
        return tensor.view(bits).cpu().numpy().view(numpy_dtype(row.name))

    def enqueue(self, case: BoundCase, arguments: Mapping[str, Any]) -> None:
        """Launch on torch's current stream; axes with one value are no arguments of launchers."""
        method = getattr(self.module, case.kernel)
        chosen = {n: value for n, value in case.choose if n in self.choices[case.kernel]}
        method(**arguments, **chosen, stream=self.torch.cuda.current_stream(self.device))

    def launch(self, case: BoundCase, arguments: Mapping[str, Any]) -> None:
        """Launch and synchronize."""
        self.enqueue(case, arguments)
        self.torch.cuda.synchronize(self.device)

    def seconds(self, case: BoundCase) -> float:
        """Median time of one launch on the device, from events around it; inputs stay in the cache
        where they fit.
        """
        inputs = make_inputs(case)
        types = {p.name: p.dtype for p in case.params}
        arguments = {
            n: self.to_device(v, types[n]) if isinstance(v, np.ndarray) else v
            for n, v in inputs.items()
        }
        events = [
            (self.torch.cuda.Event(enable_timing=True), self.torch.cuda.Event(enable_timing=True))
            for _ in range(REPEATS)
        ]
        for _ in range(3):
            self.enqueue(case, arguments)
        for begin, end in events:
            begin.record()
            self.enqueue(case, arguments)
            end.record()
        self.torch.cuda.synchronize(self.device)
        return statistics.median(begin.elapsed_time(end) for begin, end in events) / 1000


def main() -> int:
    """Run the cases that were asked for."""
    options = parse()
    try:
        manifest = open_project(options.manifest.resolve(), ToolSearch()).manifest
        package = options.dist / manifest.package.module
        info = open_container(package).bundle.info
    except TilecError as error:
        print(
            f"{error}\n  build the package where the compilers are, with `tilec build`, and carry {options.dist} here",
            file=sys.stderr,
        )
        return 3
    module = load_package(options, manifest)
    if module is None:
        return 3
    device = TorchDevice(module, info, options.device)
    results = []
    for case in select_cases(cases(manifest, info), parse_expression(options.expression)):
        result = run_case(case, device, Functions(manifest.root), clock=time.perf_counter)
        row = case_json(result)
        if result.status == "passed" and case.bench is not None and not options.no_time:
            row |= throughput(device, case)
        print(line(result, row), flush=True)
        results.append(row)
    passed = sum(row["status"] == "passed" for row in results)
    print(
        f"{passed} of {len(results)} cases passed on {device.torch.cuda.get_device_name(device.device)}"
    )
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "schema_version": 1,
            "kind": "gpu_cases",
            "machine": machine(device),
            "passed": passed,
            "cases": results,
        }
        options.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0 if results and passed == len(results) else 1


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    root = Path(__file__).resolve().parents[1]
    parser.add_argument(
        "--manifest", type=Path, default=root / "tilec.toml", help="the project's tilec.toml"
    )
    parser.add_argument(
        "--dist", type=Path, default=root / "dist", help="where the generated package lies"
    )
    parser.add_argument("--device", default="cuda:0", help="torch's name of the GPU")
    parser.add_argument(
        "-k",
        dest="expression",
        default="",
        metavar="EXPR",
        help="cases to run, such as 'gemm and not f16'",
    )
    parser.add_argument("--out", type=Path, help="where to write the results")
    parser.add_argument(
        "--no-time", action="store_true", help="do not measure cases that say what work they do"
    )
    return parser.parse_args()


def load_package(options: argparse.Namespace, manifest: Manifest) -> Any:
    """The generated package's launchers on the device; None, with words, where there is no GPU."""
    try:
        import torch
    except ImportError:
        print("torch is not installed: it makes the tensors", file=sys.stderr)
        return None
    if not torch.cuda.is_available():
        print("no GPU: torch finds no CUDA device", file=sys.stderr)
        return None
    torch.zeros(1, device=options.device)  # makes the device's context, which launches then share
    sys.path.insert(0, str(options.dist.resolve()))
    package = importlib.import_module(manifest.package.module)
    return package.load(options.device)


def cases(manifest: Manifest, info: BundleInfo) -> Iterator[BoundCase]:
    """The bound cases of every kernel that was built."""
    built = {kernel.name: kernel for kernel in info.kernels}
    for kernel in manifest.kernels:
        if kernel.name in built:
            yield from expand_cases(kernel, built[kernel.name], locate=manifest.locate)


def throughput(device: TorchDevice, case: BoundCase) -> dict[str, Any]:
    """Device time of one launch, and what the case's `bench` makes of it."""
    seconds = device.seconds(case)
    row: dict[str, Any] = {"device_us": round(seconds * 1e6, 2)}
    env = environment(case, make_inputs(case))
    assert case.bench is not None
    for name, text, unit in (
        ("gb_per_s", case.bench.bytes, 1e9),
        ("tflop_per_s", case.bench.flops, 1e12),
    ):
        if text:
            try:
                row[name] = round(float(expr.parse(text).evaluate(env)) / seconds / unit, 2)
            except ExpressionError as error:
                row[f"{name}_error"] = str(error)
    return row


def line(result: CaseResult, row: Mapping[str, Any]) -> str:
    """One case for people."""
    text = f"{result.status:7} {result.case.name:32}"
    for output in result.outputs:
        found = output.comparison
        text += f" {output.name}: max abs {found.max_abs:.3g} rel {found.max_rel:.3g}"
        if not found.ok:
            text += f", {found.mismatches} of {found.total} off, first at {list(found.first_index or ())}: "
            text += f"{found.first_actual!r} for {found.first_expected!r}"
    if "gb_per_s" in row:
        text += f"  {row['device_us']} us, {row['gb_per_s']} GB/s"
    if row.get("tflop_per_s", 0) >= 1:
        text += f", {row['tflop_per_s']} TFLOP/s"
    return text + (f"\n        {result.error}" if result.error else "")


def machine(device: TorchDevice) -> dict[str, Any]:
    """Where the results come from."""
    facts = device.torch.cuda.get_device_properties(device.device)
    versions = {"python": platform.python_version()}
    for name in (
        "tilec",
        "tilec-runtime",
        "torch",
        "numpy",
        "ml_dtypes",
        "cuda-bindings",
        "cuda-core",
    ):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    driver = Path("/proc/driver/nvidia/version")
    return {
        "device": facts.name,
        "compute_capability": [facts.major, facts.minor],
        "multiprocessors": facts.multi_processor_count,
        "memory": facts.total_memory,
        "driver": driver.read_text(encoding="utf-8").splitlines()[0]
        if driver.is_file()
        else "unknown",
        "versions": versions,
    }


if __name__ == "__main__":
    sys.exit(main())
