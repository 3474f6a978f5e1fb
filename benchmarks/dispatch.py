"""What choosing among variants adds to a launch: a kernel with many variants and a tuning table
against one with a single variant.

Both launch the same code. Without `--device` the fake driver takes the launches, so that it runs
anywhere; with it a GPU does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from launch_ways import compiled

from tilec.package.write import write_bundle
from tilec_runtime import Module, Tensor, load
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device.seam import LaunchCall
from tilec_runtime.errors import Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, LaunchInfo, PackageInfo, VariantInfo
from tilec_runtime.model.signature import AbiSlot, Assumption, Param, ParamKind
from tilec_runtime.model.table import TableDevice, TableEntry, TuningTable

Timed = Callable[[int], float]

BLOCKS = (32, 64, 128, 256, 512)
# As many launches as a GPU queues without making the host wait.
LAUNCHES = 480


def kernel(name: str, blocks: tuple[int, ...], device: str, image: ImageInfo) -> KernelInfo:
    """A kernel with a variant for each block size, with and without assumptions, and a table; with
    one size, just that.
    """
    several = len(blocks) > 1
    sets = (
        (tuple(Assumption(param=p, shape=(16,), align=16) for p in "yxz"), ()) if several else ((),)
    )
    abi = (
        *(AbiSlot(type="ptr", expr=f"{p}.ptr", size=8, align=8) for p in "yxz"),
        AbiSlot(type="i32", expr="y.shape[0]", size=4, align=4),
    )
    variants = tuple(
        VariantInfo(
            id=f"{name}-B{b}{'-div16' if assume else ''}",
            axes=(("B", b),),
            assume=assume,
            abi=abi,
            images=(image,),
        )
        for b in blocks
        for assume in sets
    )
    entries = tuple(
        TableEntry(ranges=((1 << k, (2 << k) - 1),), point=(("B", blocks[k % len(blocks)]),))
        for k in range(30)
    )
    row = TableDevice(name=device, cc=(9, 0), multiprocessors=132, entries=entries)
    return KernelInfo(
        name=name,
        language="cuda",
        location=Location(file="k.cu", line=1),
        params=tuple(
            Param(name=p, kind=ParamKind.TENSOR, dtype="f32", rank=1, out=p == "y") for p in "yxz"
        ),
        axes=(("B", blocks),),
        default=(("B", blocks[0]),),
        launch=LaunchInfo(
            grid=("cdiv(y.shape[0], B)",),
            block=("B",),
            requires=("x.shape == y.shape", "z.shape == y.shape"),
        ),
        variants=variants,
        table=TuningTable(source="tuning/many.json", sizes=("y.shape[0]",), devices=(row,))
        if several
        else None,
    )


def loaded(ordinal: int | None) -> tuple[Module, Any]:
    """Both kernels on a device: that of the fake driver, or a GPU; and the driver."""
    data = compiled()
    image = ImageInfo(
        target=Target.parse("compute_80"),
        digest=sha256(data),
        size=len(data),
        symbol="scale",
        ptx_isa=(7, 0),
        cuda=(11, 0),
    )
    if ordinal is None:
        from tilec.testing.fake_driver import H200, FakeDriver, FakeKernel

        class Quiet(FakeDriver):
            """Takes launches without a look at them: what is timed is all that comes before."""

            def bind_launch(self, *_: Any, **__: Any) -> LaunchCall:
                return lambda _parameters, _extra: (0,)

        driver: Any = Quiet(
            (H200,), {"scale": FakeKernel(abi=kernel("one", (256,), "", image).variants[0].abi)}
        )
    else:
        from tilec_runtime.device.driver import driver as real

        driver = real()
    name = driver.device(ordinal or 0).name
    kernels = (kernel("one", (256,), name, image), kernel("many", BLOCKS, name, image))
    info = BundleInfo(
        package=PackageInfo(name="dispatch", version="1", module="dispatch"), kernels=kernels
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dispatch.tilec"
        write_bundle(path, info, lambda _: data)
        bundle = Bundle.open(path.read_bytes())
        return load(bundle, ordinal or 0, driver=driver, jit_fallback="allow"), driver


def timed(statement: str, **names: Any) -> Timed:
    """Return a function that times a number of runs of a statement; the collector stays on."""
    return timeit.Timer(statement, "import gc; gc.enable()", globals=names).timeit


def ways(module: Module, driver: Any, ordinal: int) -> dict[str, tuple[Timed, Timed, int]]:
    """By name: what launches the kernel with one variant, what does so with many, and how many
    launches a turn of these is.
    """

    def tensors(size: int) -> tuple[Tensor, ...]:
        return tuple(
            Tensor.uninitialized((size,), "f32", driver=driver, ordinal=ordinal, stream=0)
            for _ in range(3)
        )

    same, shapes = tensors(4096), [tensors(1 << (8 + k % 8)) for k in range(16)]
    one, many = module.kernels["one"].launch, module.kernels["many"].launch
    once, turn, choice = (
        "f(0, values, ())",
        "for each in values: f(0, each, ())",
        "f(0, values, (64,))",
    )
    return {
        "the same arguments": (
            timed(once, f=one, values=same),
            timed(once, f=many, values=same),
            1,
        ),
        "sixteen sets of arguments in turn": (
            timed(turn, f=one, values=shapes),
            timed(turn, f=many, values=shapes),
            16,
        ),
        "an axis that the caller gives": (
            timed(once, f=one, values=same),
            timed(choice, f=many, values=same),
            1,
        ),
    }


def main() -> None:
    """Measure in pairs, and print what the many variants add."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--device", type=int, help="ordinal of a GPU; without it the fake driver takes the launches"
    )
    parser.add_argument(
        "--rounds", type=int, default=200, help="pairs of measurements; their median counts"
    )
    parser.add_argument(
        "--most", type=float, help="fail where any way adds more than so many nanoseconds"
    )
    parser.add_argument("--json", type=Path, help="write the numbers there too")
    asked = parser.parse_args()
    ordinal = asked.device or 0
    module, driver = loaded(asked.device)
    arguments = [
        Tensor.uninitialized((4096,), "f32", driver=driver, ordinal=ordinal, stream=0)
        for _ in range(3)
    ]
    print(module.kernels["many"].explain(*arguments).reasons[0])
    rows = {}
    for name, (one, many, each) in ways(module, driver, ordinal).items():
        one(2), many(2)  # the plans are made
        times: list[tuple[float, float]] = []
        for number in range(asked.rounds):
            pair = {}
            for way in (one, many) if number % 2 else (many, one):
                pair[way] = 1e9 * way(LAUNCHES // each) / LAUNCHES
                driver.synchronize_device(ordinal)
            times.append((pair[one], pair[many]))
        rows[name] = {
            "one": statistics.median(a for a, _ in times),
            "adds": statistics.median(b - a for a, b in times),
        }
        print(
            f"{name}: {rows[name]['one']:.0f} ns a launch of one variant; many variants add {rows[name]['adds']:+.0f} ns"
        )
    if asked.json:
        asked.json.write_text(
            json.dumps({"device": str(module.kernels["one"].site.device), "ways": rows}, indent=1)
            + "\n"
        )
    if asked.most is not None and max(row["adds"] for row in rows.values()) > asked.most:
        sys.exit(f"more than {asked.most:.0f} ns")


if __name__ == "__main__":
    main()
