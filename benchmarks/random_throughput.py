"""On a GPU: random numbers, fills and conversions of tilec_runtime.api against cuRAND, CuPy's
Philox generator and torch.

usage: python benchmarks/random_throughput.py OUT.json [--values 28]

Needs torch; CuPy is measured where it is installed. All rows but those of ops write to memory that
is there, and are enqueued while the device still works, so that it alone is measured. In turns in
one run: medians of 15 timed batches of 4 calls. `ratio` is tilec's speed over that of the fastest
other.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

BATCHES, CALLS, WARM = 15, 4, 3
SEED = 1234
# Numbers of f32 whose writing takes a GPU longer than the host takes to enqueue a batch.
AHEAD = 1 << 28
Way = Callable[[], object]
# What converts into what: those that programs use most.
PAIRS = (
    ("float32", "float16"),
    ("float16", "float32"),
    ("float32", "bfloat16"),
    ("bfloat16", "float32"),
    ("float32", "float8_e4m3fn"),
    ("float8_e4m3fn", "float32"),
    ("float16", "bfloat16"),
    ("float32", "float64"),
    ("float64", "float32"),
    ("int32", "float32"),
    ("float32", "int32"),
    ("int64", "int32"),
    ("uint8", "float32"),
    ("float32", "uint8"),
    ("bool", "float32"),
)


def main() -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("out", type=Path, help="where to write the JSON")
    parser.add_argument("--values", type=int, default=28, help="how many, as a power of two")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("torch is not installed: nothing was measured", file=sys.stderr)
        return 3
    if not torch.cuda.is_available():
        print("no GPU: nothing was measured", file=sys.stderr)
        return 3
    count = 1 << arguments.values
    rows = [
        *random_rows(torch, count),
        *fill_rows(torch, count),
        *convert_rows(torch, count),
        *op_rows(torch, count),
    ]
    document = {
        "schema_version": 1,
        "benchmark": "random_throughput",
        "machine": machine(torch),
        "values": count,
        "rows": rows,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for row in rows:
        others = ", ".join(f"{name} {speed:.0f}" for name, speed in row["gb_per_s"].items())
        print(f"{row['what']:24} ratio {row['ratio']:.2f}  GB/s: {others}")
    return 0


def random_rows(torch: Any, count: int) -> list[dict[str, Any]]:
    """rand and randn in f32, and randn in f16."""
    from tilec_runtime.kernels import CODES

    module, stream = own_kernels(torch)
    buffer = torch.empty(count, device="cuda")
    half = torch.empty(count, device="cuda", dtype=torch.float16)
    f32, f16 = CODES["f32"], CODES["f16"]
    uniform: dict[str, Way] = {
        "tilec": lambda: module.uniform(
            octets(torch, buffer), count, SEED, CODE=f32, stream=stream
        ),
        "torch": lambda: buffer.uniform_(),
    }
    normal: dict[str, Way] = {
        "tilec": lambda: module.normal(
            octets(torch, buffer), count, SEED, 0.0, 1.0, CODE=f32, stream=stream
        ),
        "torch": lambda: buffer.normal_(),
    }
    halves: dict[str, Way] = {
        "tilec": lambda: module.normal(
            octets(torch, half), count, SEED, 0.0, 1.0, CODE=f16, stream=stream
        ),
        "torch": lambda: half.normal_(),
    }
    with_cupy(torch, buffer, uniform, normal)
    bytes_ = 4 * count
    return [
        row(torch, "rand f32", uniform, bytes_),
        row(torch, "randn f32", normal, bytes_),
        row(torch, "randn f16", halves, bytes_ // 2),
    ]


def with_cupy(torch: Any, buffer: Any, uniform: dict[str, Way], normal: dict[str, Way]) -> None:
    """Add CuPy's ways: its Philox generator, and cuRAND's host interface with Philox and with
    XORWOW.
    """
    try:
        import cupy
        from cupy.cuda import curand
    except ImportError:
        return
    array = cupy.from_dlpack(buffer)
    stream, pointer, count = torch.cuda.current_stream().cuda_stream, array.data.ptr, array.size
    generator = cupy.random.Generator(cupy.random.Philox4x3210(SEED))
    outer = (
        cupy.cuda.Stream.from_external(torch.cuda.current_stream())
        if hasattr(cupy.cuda.Stream, "from_external")
        else cupy.cuda.ExternalStream(stream)
    )

    def on_stream(work: Way) -> Way:
        def run() -> None:
            with outer:
                work()

        return run

    uniform["cupy.random.Philox4x3210"] = on_stream(
        lambda: generator.random(out=array, dtype=cupy.float32)
    )
    normal["cupy.random.Philox4x3210"] = on_stream(
        lambda: generator.standard_normal(out=array, dtype=cupy.float32)
    )
    kinds = {
        "cuRAND Philox": curand.CURAND_RNG_PSEUDO_PHILOX4_32_10,
        "cuRAND XORWOW": curand.CURAND_RNG_PSEUDO_XORWOW,
    }
    for name, kind in kinds.items():
        handle = curand.createGenerator(kind)
        curand.setPseudoRandomGeneratorSeed(handle, SEED)
        curand.setStream(handle, stream)
        uniform[name] = lambda handle=handle: curand.generateUniform(handle, pointer, count)  # type: ignore[misc]
        normal[name] = lambda handle=handle: curand.generateNormal(handle, pointer, count, 0.0, 1.0)  # type: ignore[misc]


def fill_rows(torch: Any, count: int) -> list[dict[str, Any]]:
    """Fills of all widths whose bytes differ."""
    module, stream = own_kernels(torch)
    rows = []
    for dtype, value, pattern in (
        (torch.float32, 1.5, 0x3FC000003FC00000),
        (torch.float16, 1.5, 0x3E003E003E003E00),
        (torch.float64, 1.5, 0x3FF8000000000000),
        (torch.uint8, 3, 0x0303030303030303),
    ):
        buffer = torch.empty(count // 2, device="cuda", dtype=dtype)
        nbytes = buffer.numel() * buffer.element_size()
        ways: dict[str, Way] = {
            "tilec": lambda b=buffer, n=nbytes, p=pattern: module.fill(
                octets(torch, b), n, p, stream=stream
            ),  # type: ignore[misc]
            "torch": lambda b=buffer, v=value: b.fill_(v),  # type: ignore[misc]
        }
        rows.append(row(torch, f"fill {str(dtype).removeprefix('torch.')}", ways, nbytes))
    return rows


def convert_rows(torch: Any, count: int) -> list[dict[str, Any]]:
    """Conversions that programs use most."""
    from tilec_runtime.kernels import CODES, held_of
    from tilec_runtime.model.dtype import BY_NUMPY

    module, stream = own_kernels(torch)
    rows = []
    for given, wanted in PAIRS:
        source = torch.ones(count // 2, device="cuda").to(getattr(torch, given))
        target = torch.empty(count // 2, device="cuda", dtype=getattr(torch, wanted))
        of, to = BY_NUMPY[given].name, BY_NUMPY[wanted].name
        held, codes = held_of(of, to), (CODES[to], CODES[of])

        def own(
            target: Any = target,
            source: Any = source,
            codes: tuple[int, int] = codes,
            held: int = held,
        ) -> None:
            module.convert(
                octets(torch, target),
                octets(torch, source),
                target.numel(),
                *codes,
                HELD=held,
                stream=stream,
            )

        ways: dict[str, Way] = {"tilec": own, "torch": lambda t=target, s=source: t.copy_(s)}  # type: ignore[misc]
        nbytes = count // 2 * (source.element_size() + target.element_size())
        rows.append(row(torch, f"convert {of} {to}", ways, nbytes))
    return rows


def op_rows(torch: Any, count: int) -> list[dict[str, Any]]:
    """The ops themselves, with memory as it comes: out of tilec's pool, against torch with its own.
    Both keep what is freed for later.
    """
    from tilec_runtime import Device, api
    from tilec_runtime.device.streams import Stream

    device = Device(0)
    stream = Stream.borrow_raw(torch.cuda.current_stream().cuda_stream, device)
    ways: dict[str, dict[str, Way]] = {
        "op api.rand f32": {
            "tilec": lambda: api.rand(count, seed=SEED).enqueue_on(stream),
            "torch": lambda: torch.rand(count, device="cuda"),
        },
        "op api.randn f32": {
            "tilec": lambda: api.randn(count, seed=SEED).enqueue_on(stream),
            "torch": lambda: torch.randn(count, device="cuda"),
        },
    }
    return [row(torch, what, found, 4 * count, held=False) for what, found in ways.items()]


def own_kernels(torch: Any) -> tuple[Any, Any]:
    """The kernels behind `api`, and torch's stream."""
    from tilec_runtime.device.driver import driver
    from tilec_runtime.kernels import PACKAGE

    return PACKAGE.on(driver(), 0), torch.cuda.current_stream()


def octets(torch: Any, tensor: Any) -> Any:
    """A tensor's bytes."""
    return tensor.view(torch.uint8)


def row(
    torch: Any, what: str, ways: dict[str, Way], nbytes: int, *, held: bool = True
) -> dict[str, Any]:
    """Speeds of all ways, and the ratio to the best of the others."""
    found = measured(torch, ways, held=held)
    speeds = {name: round(nbytes / seconds / 1e9, 1) for name, seconds in found.items()}
    best = max(speed for name, speed in speeds.items() if name != "tilec")
    milliseconds = {name: round(seconds * 1e3, 4) for name, seconds in found.items()}
    return {
        "what": what,
        "device_alone": held,
        "ratio": round(speeds["tilec"] / best, 3),
        "gb_per_s": speeds,
        "ms": milliseconds,
    }


def measured(torch: Any, ways: dict[str, Way], *, held: bool) -> dict[str, float]:
    """Median seconds of one call of each, in turns; of the device alone where other work holds it
    up until all calls are enqueued.
    """
    before = torch.empty(AHEAD if held else 0, device="cuda")
    times: dict[str, list[float]] = {name: [] for name in ways}
    for call in ways.values():
        for _ in range(WARM):
            call()
    torch.cuda.synchronize()
    for _ in range(BATCHES):
        for name, call in ways.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            for _ in range(2):
                before.zero_()
            start.record()
            for _ in range(CALLS):
                call()
            end.record()
            end.synchronize()
            times[name].append(start.elapsed_time(end) / 1e3 / CALLS)
    return {name: statistics.median(found) for name, found in times.items()}


def machine(torch: Any) -> dict[str, Any]:
    """Where it ran."""
    found = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
    try:
        import cupy
    except ImportError:
        return found
    return {**found, "cupy": cupy.__version__}


if __name__ == "__main__":
    sys.exit(main())
