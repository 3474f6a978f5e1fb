"""Tile kernels to images: ABI, facts, determinism, resources."""

from __future__ import annotations

import re
import sys
from dataclasses import replace

import pytest

from tests.toolchain.projects import SEARCH, run_tool, write
from tests.toolchain.tile_jobs import HEADER, SAMPLE, job, scalar, tensor, vectors
from tilec.frontends.tile import api
from tilec.frontends.tile.compiler import newest_bytecode
from tilec.frontends.tile.toolchain import find
from tilec.frontends.tools import run
from tilec_runtime.bundle.cubin import read_cubin
from tilec_runtime.model.arch import Target
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.signature import Assumption

pytestmark = pytest.mark.toolchain

ADD = vectors("a", "b", "c")


def _add(tile, **more):
    axes = more.pop("axes", {"TILE": 256})
    return tile.compile(
        job(tile, SAMPLE, "kernels/vector.py", "add", more.pop("params", ADD), axes=axes, **more)
    )


def test_a_cubin_records_what_it_is(tile):
    image = _add(tile, target="sm_90")
    info = image.info
    assert str(info.target) == "sm_90"
    assert info.exact
    assert info.cuda == (13, 0)
    assert info.ptx_isa is None
    assert info.symbol == "add_tile"
    assert (info.digest, info.size) == (sha256(image.data), len(image.data))
    assert image.warnings == ()
    assert info.required_block == (128, 1, 1)
    read = read_cubin(image.data)
    assert read.cc == (9, 0)
    entry = read.kernel("add_tile")
    assert info.resources.registers == entry.registers > 0
    assert info.resources.code == entry.code > 0
    assert (info.resources.spill_stores, info.resources.spill_loads, info.resources.stack) == (
        0,
        0,
        0,
    )
    assert info.resources.constant > 0


def test_portable_tile_ir_has_the_oldest_version_that_says_what_the_kernel_says(tile, tmp_path):
    text = (
        f"{HEADER}@ct.kernel\ndef copy(x, y):\n    ct.store(y, (0,), ct.load(x, (0,), (16,){{}}))\n"
    )
    write(tmp_path, {"plain.py": text.format(""), "newer.py": text.format(", check_bounds=False")})
    params = vectors("x", "y")
    images = [
        tile.compile(job(tile, tmp_path, path, "copy", params, target="tileir"))
        for path in ("plain.py", "newer.py")
    ]
    assert [image.data[8:10] for image in images] == [bytes((13, 3)), bytes((13, 4))]
    assert [image.info.cuda for image in images] == [(13, 3), (13, 4)]


def _f32_matmul(tile, target):
    params = (tensor("a", "f32", 2), tensor("b", "f32", 2), tensor("c", "f32", 2, out=True))
    axes = {"BM": 64, "BN": 64, "BK": 32}
    return tile.compile(
        job(tile, SAMPLE, "kernels/matrix.py", "gemm", params, axes=axes, target=target)
    ).info


def test_images_for_sm_100_are_marked_where_addresses_are_random(tile, monkeypatch):
    monkeypatch.setattr(
        run, "_personality", lambda: lambda _: 0
    )  # as where a seccomp profile refuses
    assert {target: _f32_matmul(tile, target).reproducible for target in ("sm_90", "sm_100")} == {
        "sm_90": True,
        "sm_100": False,
    }


SCALARS = (
    HEADER
    + "@ct.kernel\ndef fill(out, value, T: ct.Constant[int]):\n    ct.store(out, (0,), ct.full((T,), value, out.dtype))\n"
)


@pytest.mark.parametrize("dtype", ["bool", "u16", "f64"])
def test_scalars_of_every_size_lie_where_the_image_wants_them(tile, tmp_path, dtype):
    write(tmp_path, {"fill.py": SCALARS})
    params = (scalar("value", dtype), tensor("out", dtype, out=True))
    image = tile.compile(job(tile, tmp_path, "fill.py", "fill", params, axes={"T": 16}))
    # The order is the kernel's, not the launcher's.
    assert [s.expr for s in image.abi] == ["out.ptr", "out.shape[0]", "out.stride[0]", "value"]
    assert image.abi[-1].size == DTYPES[dtype].bytes


def test_wide_indices_and_annotated_scalars(tile):
    params = (tensor("x"), tensor("out", out=True), scalar("n", "i64"))
    image = tile.compile(job(tile, SAMPLE, "kernels/vector.py", "wide", params, axes={"TILE": 128}))
    assert [(s.expr, s.type) for s in image.abi] == [
        ("x.ptr", "ptr"),
        ("x.shape[0]", "i64"),
        ("x.stride[0]", "i64"),
        ("n", "i64"),
        ("out.ptr", "ptr"),
        ("out.shape[0]", "i64"),
        ("out.stride[0]", "i64"),
    ]


def test_assumptions_change_the_code_and_not_the_abi(tile):
    facts = tuple(Assumption(param=n, shape=(16,), align=16) for n in "abc")
    plain, assumed = _add(tile), _add(tile, assume=facts)
    assert plain.data != assumed.data
    assert plain.abi == assumed.abi
    assert assumed.info.resources.code < plain.info.resources.code
    fixed = _add(tile, params=vectors("a", "b", "c", shape_divisible=(16,), align=16))
    assert fixed.data == assumed.data


def test_hints_and_levels(tile):
    plain = _add(tile, axes={"TILE": 1024}, target="tileir").data
    assert _add(tile, axes={"TILE": 1024}, target="tileir", hints={"occupancy": 4}).data != plain
    slow, fast = (_add(tile, opt=level).info.resources.code for level in (0, 3))
    assert slow > fast
    assert _add(tile, opt=3, hints={"opt_level": 0}).info.resources.code == slow
    assert _add(tile, opt=0, hints={"opt_level": 3}).info.resources.code == fast


def test_the_authors_own_hints_survive(tile, tmp_path):
    body = "def k(a, T: ct.Constant[int]):\n    ct.store(a, (0,), ct.load(a, (0,), (T,)) + 1)\n"
    write(
        tmp_path,
        {
            "mine.py": HEADER
            + "@ct.kernel(occupancy=ct.ByTarget(sm_80=2, default=1), opt_level=1)\n"
            + body
        },
    )
    write(tmp_path, {"plain.py": HEADER + "@ct.kernel\n" + body})
    params = (tensor("a", out=True),)
    mine = job(tile, tmp_path, "mine.py", "k", params, axes={"T": 64}, target="tileir")
    assert tile.compile(mine).data != tile.compile(replace(mine, hints=(("occupancy", 4),))).data
    plain = job(
        tile, tmp_path, "plain.py", "k", params, axes={"T": 64}, opt=1, hints={"occupancy": 2}
    )
    mine = replace(mine, target=Target.parse("sm_80"))
    assert tile.compile(mine).info.resources == tile.compile(plain).info.resources


def test_bytes_do_not_depend_on_where_a_library_is_installed(tile, tmp_path, monkeypatch):
    images = []
    for n in ("one", "two"):
        write(tmp_path / n, {"tile_library/ops.py": HEADER + "def twice(t):\n    return t + t\n"})
        use = (
            HEADER
            + "from tile_library.ops import twice\n@ct.kernel\ndef k(x):\n    ct.store(x, (0,), twice(ct.load(x, (0,), (16,))))\n"
        )
        root = write(tmp_path / n / "project", {"k.py": use})
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(tmp_path / n))
            images.append(
                tile.compile(
                    job(tile, root, "k.py", "k", (tensor("x", out=True),), target="tileir")
                )
            )
        for name in [m for m in sys.modules if m.startswith("tile_library")]:
            del sys.modules[name]
    assert images[0].data == images[1].data
    assert str(tmp_path).encode() not in images[0].data
    assert b"tile_library/ops.py" in images[0].data


@pytest.mark.parametrize("target", ["sm_80", "sm_120"])
def test_spills_are_what_the_disassembler_shows(tile, tmp_path, target):
    params = (tensor("a", "f32", 2), tensor("b", "f32", 2), tensor("c", "f32", 2, out=True))
    axes = {"BM": 64, "BN": 64, "BK": 32}
    image = tile.compile(
        job(tile, SAMPLE, "kernels/matrix.py", "gemm", params, axes=axes, opt=0, target=target)
    )
    used = image.info.resources
    assert used.stack > 0
    (tmp_path / "image.cubin").write_bytes(image.data)
    listing = run_tool("nvdisasm", "-c", "-ndf", tmp_path / "image.cubin")
    widths = {"": 4, "64": 8, "128": 16}
    shown = {
        name: sum(widths[w] for w in re.findall(rf"\s{name}(?:\.LU)?(?:\.(64|128))?\s", listing))
        for name in ("STL", "LDL")
    }
    assert (used.spill_stores, used.spill_loads) == (shown["STL"], shown["LDL"])
    assert used.spill_stores > 0


def test_the_newest_bytecode_that_both_know_is_written():
    listed = run_tool("tileiras", "--list-versions").split()
    newest = max(tuple(map(int, v.split("."))) for v in listed)
    assert newest_bytecode(find(SEARCH)["tileiras"]) == min(newest, api.BYTECODES[-1])
