"""Bundles that are made to deceive or to exhaust: what they cost to read, and that a package takes
none but its own.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import importlib
import io
import json
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attack.conftest import Campaign
from tests.attack.mutants import CALLS, index_values, packed
from tests.bundle_samples import Sample, write_package
from tests.runtime_samples import ADD, GEMM, IMAGES, bundle_of, fake_driver
from tilec.inspection.container import open_container
from tilec.package.archive import ArchiveWriter
from tilec_runtime import load
from tilec_runtime.bundle import limits
from tilec_runtime.bundle.archive import Member
from tilec_runtime.bundle.format import images_of, index_digest, index_members
from tilec_runtime.errors import ArgumentError, BundleError
from tilec_runtime.model.image import ImageInfo

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
# Reads everything that a file declares, in a process of its own, and says what that took.
COST = """
import json, sys, time
from tests.attack.mutants import CALLS
from tests.runtime_samples import fake_driver
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import TilecError
from tilec_runtime import load
from tilec_runtime.launch.launcher import Launcher

def peak():  # of this program; getrusage has that of the process that started it as well
    text = open("/proc/self/status").read()
    return int(text.partition("VmHWM:")[2].split()[0]) / 1024

before, start, error, launched = peak(), time.process_time(), "", None
try:
    bundle = Bundle.open(sys.argv[1])
    bundle.verify()
    index = time.process_time() - start
    start = time.process_time()
    load(bundle, 0, driver=fake_driver()).kernels["add"](**CALLS["add"])
    launched = time.process_time() - start
except TilecError as found:
    error, index = str(found), time.process_time() - start
print(json.dumps({"grown": peak() - before, "seconds": index, "launched": launched, "error": error}))
"""


def archive(index: dict[str, bytes], images: dict[str, bytes], *, pack: bool = False) -> bytes:
    """A bundle of these members; with `pack`, images are deflated however well that works."""
    file = io.BytesIO()
    writer = ArchiveWriter(file, Path("x.tilec"))
    writer.add("bundle.json", index["bundle.json"])
    for digest, data in sorted(images.items()):
        if not pack:
            writer.add(f"images/{digest}", data)
            continue
        stream = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
        deflated = stream.compress(data) + stream.flush()
        member = Member(
            f"images/{digest}", 8, zlib.crc32(data), len(deflated), len(data), writer.size
        )
        writer._put(member.local_header())
        writer._put(deflated)
        writer._members.append(member)
    for name in sorted(index.keys() - {"bundle.json"}):
        writer.add(name, index[name])
    writer.close()
    return file.getvalue()


def with_images(datas: list[bytes], *, pack: bool = False) -> bytes:
    """A bundle whose images are these."""
    images = {hashlib.sha256(data).hexdigest(): data for data in datas}
    like = ADD.variants[0].images[0]
    rows = tuple(
        dataclasses.replace(like, digest=digest, size=len(data)) for digest, data in images.items()
    )
    return archive(index_members(_one(rows)), images, pack=pack)


def _one(rows: tuple[ImageInfo, ...]) -> Any:
    info = bundle_of(ADD).info
    return dataclasses.replace(
        info,
        kernels=(
            dataclasses.replace(ADD, variants=(dataclasses.replace(ADD.variants[1], images=rows),)),
        ),
    )


def noise(size: int, packed_size: int) -> bytes:
    """Bytes that deflate to about `packed_size`."""
    piece = hashlib.shake_128(b"noise").digest(min(packed_size, size))
    return piece + bytes(size - len(piece))


def required(*texts: str) -> bytes:
    """A bundle whose kernel `add` requires all of these."""
    index = copy.deepcopy(index_values())
    index["kernels"]["add"]["launch"]["requires"] = list(texts)
    return packed(index)


def large() -> dict[str, bytes]:
    """The index of a bundle with 8,799 images, none of which are there."""
    info = Sample().info()
    kernel = info.kernels[1]
    variants = []
    for number in range(2_933):
        variant = kernel.variants[number % 4]
        digests = [hashlib.sha256(b"%d %d" % (number, place)).hexdigest() for place in range(3)]
        rows = tuple(
            dataclasses.replace(row, digest=digest)
            for row, digest in zip(variant.images, digests, strict=True)
        )
        variants.append(dataclasses.replace(variant, id=f"{variant.id}-{number}", images=rows))
    return index_members(
        dataclasses.replace(info, kernels=(dataclasses.replace(kernel, variants=tuple(variants)),))
    )


LONG = "x.shape[0] <= 0" + " + x.shape[0]" * 60
# What a bundle is made of, MiB of its largest image, and what is said of it (empty: it is sound).
BUNDLES: dict[str, tuple[Callable[[], bytes], int, str]] = {
    "a GiB of zeros": (
        lambda: with_images([bytes(64 * MIB)], pack=True),
        0,
        "claims 67108864 bytes",
    ),
    "an image that shrinks well": (lambda: with_images([noise(32 * MIB, MIB)], pack=True), 32, ""),
    "many images that shrink well": (
        lambda: with_images([noise(4 * MIB, 60_000 + number) for number in range(12)], pack=True),
        4,
        "",
    ),
    "an image that is stored": (lambda: with_images([noise(24 * MIB, 24 * MIB)]), 24, ""),
    "a deep index": (
        lambda: archive({"bundle.json": b"[" * limits.INDEX}, {}),
        0,
        "and 4194304 values, more than",
    ),
    "an index of many values": (
        lambda: archive({"bundle.json": b'{"kernels":[' + b'{"a":1},' * 199_000 + b"{}]}"}, {}),
        0,
        "schema version None",
    ),
    "the largest index": (lambda: archive(large(), {}), 0, "names image"),
    "many conditions": (
        lambda: required(*(f"x.shape[0] >= -{n}" for n in range(9_999))),
        0,
        "has 9999 items, more than 1000",
    ),
    "long conditions": (
        lambda: required(*(f"{LONG} + {n}" for n in range(999))),
        0,
        "expressions are too much to parse",
    ),
    "as many conditions as are allowed": (
        lambda: required(*(f"{LONG} + {n}" for n in range(100))),
        0,
        "",
    ),
    "as many short conditions as are allowed": (
        lambda: required(*(f"n>-{n}" for n in range(990))),
        0,
        "'n' has no value",
    ),
}


@pytest.mark.parametrize("kind", BUNDLES)
def test_what_a_bundle_costs(tmp_path: Path, campaign: Campaign, kind: str) -> None:
    make, image, says = BUNDLES[kind]
    path = tmp_path / "b.tilec"
    path.write_bytes(make())
    done = subprocess.run(
        [sys.executable, "-c", COST, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    cost = json.loads(done.stdout)
    assert says in cost["error"]
    assert bool(says) == bool(cost["error"]), cost["error"]
    assert cost["grown"] < 64 + image
    # 1 s for an index, and as much for each 100 MiB that images inflate to; twice that on a busy
    # machine.
    assert cost["seconds"] < 2 + image / 25
    assert (cost["launched"] or 0) < 2
    campaign.record(**cost | {"error": cost["error"].split("\n")[0][-80:]})


@pytest.fixture
def import_from(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], Any]]:
    def load(place: Path) -> Any:
        monkeypatch.syspath_prepend(place)
        importlib.invalidate_caches()
        return importlib.import_module("exchanged")

    yield load
    sys.modules.pop("exchanged", None)


@pytest.mark.parametrize("zipped", [False, True])
def test_a_package_takes_no_bundle_but_its_own(
    tmp_path: Path, import_from: Callable[[Path], Any], zipped: bool
) -> None:
    write_package(tmp_path / "exchanged", ADD, GEMM)
    own = index_digest(bundle_of(ADD, GEMM).info)
    changed = dataclasses.replace(ADD, launch=dataclasses.replace(ADD.launch, requires=()))
    write_package(tmp_path / "other", changed, GEMM)
    (tmp_path / "other" / "b.tilec").replace(tmp_path / "exchanged" / "b.tilec")
    place, name = tmp_path, str(tmp_path / "exchanged" / "b.tilec")
    if zipped:
        place, name = tmp_path / "packed.zip", "b.tilec in package exchanged"
        with zipfile.ZipFile(place, "w") as archive:
            for path in (tmp_path / "exchanged").iterdir():
                archive.write(path, f"exchanged/{path.name}")
    else:
        with pytest.raises(
            BundleError,
            match=r"b\.tilec: the bundle is not the one that its package was built with",
        ):
            open_container(tmp_path / "exchanged")
    package = import_from(place)
    with pytest.raises(BundleError) as caught:
        package._tilec_package_.on(fake_driver(ADD, GEMM), 0)
    other = index_digest(bundle_of(changed, GEMM).info)
    assert str(caught.value) == (
        f"{name}: the bundle is not the one that its package was built with: "
        f"its index has SHA-256 {other}, the package expects {own}\n"
        "  cause: the package holds files of two builds, or its bundle was exchanged\n"
        "  fix: install the package again, or build it again with `tilec build`"
    )


def test_an_image_is_hashed_when_it_is_loaded(
    tmp_path: Path, import_from: Callable[[Path], Any]
) -> None:
    """Start-up reads no images; the launch that needs one refuses other bytes."""
    write_package(tmp_path / "exchanged", ADD, GEMM)
    info = bundle_of(ADD, GEMM).info
    broken = {row.digest: IMAGES[row.digest][:-1] + b"!" for row in images_of(info)}
    (tmp_path / "exchanged" / "b.tilec").write_bytes(archive(index_members(info), broken))
    module = import_from(tmp_path)._tilec_package_.on(fake_driver(ADD, GEMM), 0)
    assert list(module.kernels) == ["add", "gemm"]
    with pytest.raises(BundleError, match="has other bytes under image"):
        module.add(**CALLS["add"])


def test_an_argument_of_another_type_than_its_parameter() -> None:
    """No index makes a launch an internal error, where the entry point takes a float as an address."""
    abi = (*ADD.variants[1].abi[:-1], dataclasses.replace(ADD.variants[1].abi[0], expr="alpha"))
    kernel = dataclasses.replace(ADD, variants=(dataclasses.replace(ADD.variants[1], abi=abi),))
    module = load(bundle_of(kernel), 0, driver=fake_driver())
    with pytest.raises(
        ArgumentError,
        match="add: a number does not fit the type in which the kernel's entry point takes it",
    ):
        module.add(**CALLS["add"], alpha=0.5)
