"""Damaged and crafted inputs: bits of a file that are flipped, and values of a JSON document that
are replaced, copied and removed.
"""

from __future__ import annotations

import copy
import functools
import io
import json
import random
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.bundle_samples import members_from, plain_index
from tests.runtime_samples import ADD, GEMM, IMAGES, Array, fake_driver, image, kernel, slot
from tilec.package.archive import ArchiveWriter
from tilec_runtime import load
from tilec_runtime.bundle.format import index_members
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import InternalError, TilecError
from tilec_runtime.launch.launcher import Launcher
from tilec_runtime.model.digest import canonical_json
from tilec_runtime.model.kernel import BundleInfo, LaunchInfo, PackageInfo, VariantInfo
from tilec_runtime.model.safety import Checks, Fact, Guarantee, Region, Safety
from tilec_runtime.model.signature import AbiSlot, Assumption, Param, ParamKind
from tilec_runtime.model.table import DispatchRule, TableDevice, TableEntry, TuningTable

# A kernel with all that an index can say of one.
RICH_PARAMS = (
    Param(
        name="out",
        kind=ParamKind.TENSOR,
        dtype="T",
        rank=2,
        out=True,
        shape_divisible=(1, 8),
        stride_divisible=(8, 1),
        align=16,
    ),
    Param(name="x", kind=ParamKind.TENSOR, dtype="T", rank=2, stride=(None, 1)),
    Param(name="mask", kind=ParamKind.TENSOR, dtype="u8", rank=-1, optional=True),
    Param(name="cfg", kind=ParamKind.STRUCT, size=12),
    Param(name="raw", kind=ParamKind.PTR, align=16),
    Param(name="n", kind=ParamKind.SCALAR, dtype="i32", default=64),
    Param(name="eps", kind=ParamKind.SCALAR, dtype="f32", default=1e-6),
)
RICH_ABI = (
    slot("ptr", "out.ptr"),
    AbiSlot(type="tensormap:6:3:64x32", expr="x.ptr", size=128, align=64),
    AbiSlot(type="struct", expr="cfg", size=12, align=4),
    slot("ptr", "raw"),
    slot("i32", "cdiv(x.shape[1], BM)"),
    slot("i32", "n"),
    slot("f32", "eps"),
    AbiSlot(type="scratch:256", expr="0", size=8, align=8),
)
RICH = kernel(
    "rich",
    RICH_PARAMS,
    tuple(
        VariantInfo(
            id=f"rich-{dtype}-{block}{'-none' if absent else ''}",
            axes=(("T", dtype), ("BM", block)),
            assume=(
                Assumption(
                    param="x",
                    shape=(1, 16),
                    stride=(16, 1),
                    align=16,
                    extent=(None, None),
                    contiguous=True,
                ),
                *((Assumption(param="mask", absent=True),) if absent else ()),
            ),
            abi=RICH_ABI,
            images=(
                image(
                    f"rich_{dtype}_{block}",
                    "sm_90",
                    required_block=(128,),
                    cluster=(1,),
                    max_threads=1024,
                ),
                image(f"rich_{dtype}_{block}", "compute_80", ptx_isa=(8, 0)),
            ),
            hints=(("sm_90", (("num_ctas", 1),)),),
        )
        for dtype in ("f32", "f16")
        for block in (64, 128)
        for absent in (True, False)
    ),
    doc="All of it.",
    axes=(("T", ("f32", "f16")), ("BM", (64, 128))),
    dtype_axes=("T",),
    default=(("BM", 128),),
    launch=LaunchInfo(
        grid=("cdiv(out.shape[0], BM)", "max(1, n // 64)"),
        block=("128",),
        shared="BM * 16",
        cluster=(1,),
        requires=("out.shape == x.shape", "n > 0 and n % 2 == 0"),
    ),
    safety=Safety(
        facts=(Fact(guarantee=Guarantee.NONE, what="nothing is known"),),
        regions=(Region(param="out", tile=("BM", "64"), mapped=True),),
        checks=Checks.ON,
    ),
    table=TuningTable(
        source="tuning/rich.json",
        sizes=("x.shape[0]", "n"),
        devices=(
            TableDevice(
                name="Fake H200",
                cc=(9, 0),
                multiprocessors=132,
                entries=(TableEntry(ranges=((1, 127), (1, 99)), point=(("T", "f32"), ("BM", 64))),),
            ),
        ),
    ),
    rules=(DispatchRule(when="n < 32", take=(("BM", 64),)),),
)
KERNELS = (ADD, GEMM, RICH)
CALLS: dict[str, dict[str, Any]] = {
    "add": {"z": Array(64, ptr=0x10000), "x": Array(64, ptr=0x20000), "y": Array(64, ptr=0x30000)},
    "gemm": {
        name: Array(64, 64, dtype="f16", ptr=0x10000 * place) for place, name in enumerate("cab", 1)
    },
    "rich": {
        "out": Array(64, 64, ptr=0x10000),
        "x": Array(64, 64, ptr=0x20000),
        "mask": None,
        "cfg": bytes(12),
        "raw": 0x40000,
        "n": 48,
    },
}
VALUES: list[Any] = [
    *(0, -1, 1, 3, 64, 2**31, 2**32, 2**61, 2**63 - 1, 2**63, 2**64, -(2**63), 10**40),
    *(
        0.0,
        -0.5,
        1e308,
        5e-324,
        True,
        False,
        None,
        [],
        {},
        [0],
        [[]],
        [None],
        [-1, -1],
        {"float": "nan"},
        {"float": "inf"},
    ),
    *(
        "",
        "x",
        "x.ptr",
        "x.shape",
        "x.shape[0]",
        "x.shape[9]",
        "x.shape[-9]",
        "1 // 0",
        "n",
        "cfg",
        "raw",
        "eps",
        "nobody",
        "-1",
        "1.5",
    ),
    *(
        "(" * 40,
        "2 ** 9",
        "9223372036854775807 * 2",
        "next_pow2(-1)",
        "next_pow2(n * 4611686018427387904)",
        "'a' == 'b'",
        "nbytes(x)",
    ),
    *(
        "mask.shape[0]",
        "\x1b]0;x\x07",
        "\u202e",
        "a\nb",
        "../x",
        "/etc/passwd",
        "f32",
        "f4e2m1",
        "bool",
        "ptr",
        "struct",
        "tensor",
        "scalar",
    ),
    *(
        "scalar",
        "sm_90a",
        "tileir",
        "scratch:1",
        "scratch:1073741824",
        "scratch:-1",
        "tensormap:6:3:64x64",
        "tensormap:0:0:1",
        "allow",
        "\ud800",
    ),
]


def info() -> BundleInfo:
    """The index of the kernels above."""
    return BundleInfo(
        package=PackageInfo(name="acme", version="1.0", module="acme"),
        kernels=KERNELS,
        builder="tilec",
    )


def packed(index: Any) -> bytes:
    """A bundle with an index, whatever its JSON values say, and all images."""
    file = io.BytesIO()
    writer = ArchiveWriter(file, Path("x.tilec"))
    images = {
        f"images/{i.digest}": IMAGES[i.digest]
        for k in KERNELS
        for v in k.variants
        for i in v.images
    }
    for name, data in sorted({**members_from(index, as_bytes), **images}.items()):
        writer.add(name, data)
    writer.close()
    return file.getvalue()


def flipped(data: bytes, chance: random.Random) -> bytes:
    """Some bits and bytes changed, a piece cut out, moved or doubled."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(out) or 1)
        match chance.randrange(6):
            case 0 | 1 | 2:
                out[at : at + 1] = bytes([out[at] ^ (1 << chance.randrange(8))]) if out else b""
            case 3:
                out[at : at + chance.choice((1, 4, 8))] = chance.choice(
                    (b"\0", b"\xff" * 4, b"\xff" * 8, b"\0" * 8, b"\x7f", b"\x80")
                )
            case 4:
                del out[at : at + chance.randrange(1, 40)]
            case 5:
                out[at:at] = out[at : at + chance.randrange(1, 40)]
    return bytes(out)


def changed(plain: Any, chance: random.Random) -> Any:
    """A JSON document of which one to three values are replaced, exchanged for values from
    elsewhere in it, removed or doubled.
    """
    plain = copy.deepcopy(plain)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = list(_places(plain))
        if not places:
            break
        holder, key = chance.choice(places)
        value = holder[key]
        match chance.randrange(8):
            case 0 | 1 | 2:
                holder[key] = copy.deepcopy(chance.choice(VALUES))
            case 3 | 4:
                alike = [h[k] for h, k in places if type(h[k]) is type(value)]
                holder[key] = copy.deepcopy(chance.choice(alike))
            case 5 if type(value) in (int, float):
                holder[key] = chance.choice(
                    (
                        value + 1,
                        value - 1,
                        -value,
                        value * 2,
                        value << 20 if type(value) is int else value / 0.3,
                    )
                )
            case 6 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(value))
            case _:
                del holder[key]
    return plain


def _places(plain: Any) -> Iterator[tuple[Any, Any]]:
    keys = (
        plain if isinstance(plain, dict) else range(len(plain)) if isinstance(plain, list) else ()
    )
    for key in list(keys):
        yield plain, key
        yield from _places(plain[key])


def launch_all(bundle: bytes) -> None:
    """Load a bundle and launch its kernels. Raises only what a user may see."""
    opened = Bundle.open(bundle, whole=False)
    driver = (
        fake_driver()
    )  # it knows no kernels, and so reads no arguments by an ABI that is not the bundle's
    module = load(opened, 0, driver=driver)
    for name in opened.kernels:
        try:
            launcher: Launcher = module.kernels[name]
            launcher(**CALLS.get(name, CALLS["add"]))
            str(launcher.explain(**CALLS.get(name, CALLS["add"])))
        except InternalError:  # a broken invariant of tilec, which no bundle may bring about
            raise
        except TilecError as error:
            str(error)
    Bundle.open(bundle).verify()


def launch_same(bundle: bytes) -> None:
    """Call `launch_all` on damaged bytes; whatever is read equals what was written."""
    launch_all(bundle)
    assert Bundle.open(bundle).info == info()


def launch_faithful(bundle: bytes) -> None:
    """Call `launch_all` with another index; all of it is read, and nothing else."""
    launch_all(bundle)
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        names = [name for name in archive.namelist() if not name.startswith("images/")]
        written = {name: archive.read(name) for name in names}
    assert index_members(Bundle.open(bundle).info) == written


class Watch:
    """Attacks with many inputs, and holds what happens to the limits: tilec's own errors, time,
    memory.
    """

    def __init__(self, seconds: float) -> None:
        self.most = seconds
        self.refused = self.taken = 0
        self.slowest = 0.0
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        self.before = _peak()

    def attack(self, attempt: Callable[[Any], object], given: Any, name: object) -> None:
        """Try one input.

        Raises:
            AssertionError: it raised another error than tilec's own, or took too long; the message
                names the input.
        """
        start = time.process_time()
        try:
            attempt(given)
            self.taken += 1
        except InternalError as error:
            raise AssertionError(f"input {name}: an internal error: {error}") from error
        except TilecError as error:
            str(error)
            self.refused += 1
        except Exception as error:
            raise AssertionError(f"input {name}: {type(error).__name__}: {error}") from error
        spent = time.process_time() - start
        self.slowest = max(self.slowest, spent)
        assert spent < self.most, f"input {name} took {spent:.1f} s"

    def figures(self) -> dict[str, object]:
        """What a campaign records; memory in MiB that the process has grown by at most."""
        grown = _peak() - self.before
        return {
            "inputs": self.refused + self.taken,
            "refused": self.refused,
            "slowest_s": round(self.slowest, 3),
            "grown_mib": round(grown, 1),
        }


def _peak() -> float:
    """MiB that the process had at most."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


@functools.cache
def index_values() -> Any:
    """The index as JSON values; not to be changed."""
    return plain_index(info())


def as_bytes(plain: Any) -> bytes:
    """JSON as an index has it; what canonical JSON cannot say is said as Python does."""
    try:
        return canonical_json(plain)
    except ValueError:
        return json.dumps(plain, sort_keys=True, separators=(",", ":")).encode(
            "utf-8", "surrogatepass"
        )
