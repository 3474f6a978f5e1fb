"""SIMT kernels in Python to images with no GPU: parameters, constants, options, targets, checks of
indices.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_python
from tests.toolchain.simt_jobs import KERNELS, Z, frontend, job, scalar, tensor, write
from tilec.frontends.simt.entry import NAMES
from tilec.model.job import Source
from tilec_runtime.bundle.cubin import read_cubin
from tilec_runtime.errors import CompileError
from tilec_runtime.model.signature import AbiSlot, Param

pytestmark = pytest.mark.toolchain
pytest.importorskip("numba_cuda")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("simt"))


def test_declarations(root: Path) -> None:
    found = {d.name: d for d in frontend().declare(Source(root=str(root), path="k/a.py"))}
    assert list(found) == [
        "add",
        "cube",
        "pair",
        "tiled",
        "checked",
        "plain",
        "optioned",
        "meeting",
        "pairs",
    ]
    add = found["add"]
    assert (add.location.file, add.location.line, add.location.column, add.doc) == (
        "k/a.py",
        13,
        5,
        "z = a x + 1.",
    )
    rows = [(p.name, p.kind, p.type, p.dtype, p.rank, p.out) for p in add.params]
    assert rows == [
        ("z", "tensor", "simt.Mut[T]", "T", 1, True),
        ("x", "tensor", "simt.Ref[T]", "T", 1, False),
        ("a", "scalar", "T", "T", -1, None),
    ]
    assert [(use.name, use.dtype, use.where) for use in add.axes] == [("T", True, "z: simt.Mut[T]")]
    assert [(p.kind, p.dtype, p.rank, p.size) for p in found["pair"].params] == [
        ("tensor", "f32", 1, 0),
        ("struct", "", -1, 24),
        ("scalar", "bool", -1, 0),
    ]
    assert {use.name for use in found["tiled"].axes} == {"T", "SPAN"}
    assert (found["tiled"].params[1].kind, found["tiled"].params[1].default) == ("constant", 8)
    assert [(p.kind, p.type, p.out) for p in found["plain"].params] == [
        ("tensor", "", True),
        ("tensor", "", None),
        ("tensor", "", None),
    ]
    assert found["optioned"].max_threads == 128


def packed(image: Any) -> list[tuple[str, str, int]]:
    return [(slot.type, slot.expr, slot.size) for slot in image.abi]


def test_an_array_is_its_address_and_its_extents(root: Path) -> None:
    image = frontend().compile(job(root, "cube"))
    assert packed(image) == [
        ("ptr", "z.ptr", 8),
        *(("i64", f"z.shape[{axis}]", 8) for axis in range(3)),
        ("ptr", "x.ptr", 8),
        ("i64", "x.shape[0]", 8),
        ("i64", "x.shape[1]", 8),
        ("i32", "n", 4),
    ]
    compiled = read_cubin(image.data).kernel("cube").params
    assert [(p.offset, p.size) for p in compiled] == [*((8 * i, 8) for i in range(7)), (56, 4)]


def test_strides_that_are_free_are_passed_and_fixed_ones_are_constants(root: Path) -> None:
    params = (
        tensor("z", rank=3, out=True),
        tensor("x", rank=2, stride=(None, 1)),
        scalar("n", "i32"),
    )
    image = frontend().compile(job(root, "cube", params=params))
    assert [slot.expr for slot in image.abi if slot.expr.startswith("x.")] == [
        "x.ptr",
        "x.shape[0]",
        "x.shape[1]",
        "x.stride[0]",
    ]


@pytest.mark.parametrize("dtype", sorted(NAMES))
def test_every_dtype_is_packed_as_it_is_compiled(root: Path, dtype: str) -> None:
    if dtype == "bool":
        image = frontend().compile(job(root, "pair"))
        assert packed(image)[-1] == ("bool", "last", 1)
        return
    image = frontend().compile(job(root, axes={"T": dtype}))
    assert packed(image)[-1][:2] == (dtype, "a")
    assert read_cubin(image.data).kernel("add").params[-1].size == image.abi[-1].size


def test_a_struct_is_one_parameter_with_its_padding(root: Path) -> None:
    image = frontend().compile(job(root, "pair"))
    assert packed(image)[2] == ("struct", "small", 24)
    assert image.abi[2].align == 8
    assert [(p.offset, p.size) for p in read_cubin(image.data).kernel("pair").params] == [
        (0, 8),
        (8, 8),
        (16, 24),
        (40, 1),
    ]


def test_an_array_of_structs_is_an_array_of_their_bytes(root: Path) -> None:
    made = job(root, "pairs")
    held = made.spec.decl.params[1]
    assert (held.kind, held.dtype, held.rank, held.out) == ("tensor", "u8", 3, True)
    assert made.spec.decl.requires == ("held.shape[2] == 24", "held.ptr % 8 == 0")
    image = frontend().compile(made)
    assert packed(image)[3:] == [
        ("ptr", "held.ptr", 8),
        ("i64", "held.shape[0]", 8),
        ("i64", "held.shape[1]", 8),
    ]


@pytest.mark.parametrize(
    ("held", "what"),
    [
        (tensor("held", "u8", rank=3, stride=(None,) * 3), "which lie one behind the other"),
        (tensor("held", "u8", rank=3), "whose fields numba lets the kernel store to"),
    ],
    ids=["with strides", "only read"],
)
def test_an_array_of_structs_that_there_is_not(root: Path, held: Param, what: str) -> None:
    params = (tensor("z", rank=2, out=True), held)
    with pytest.raises(CompileError) as caught:
        frontend().compile(job(root, "pairs", params=params))
    assert f"'held' is an array of structs, {what}" in caught.value.diagnostics[0].message


def test_arguments_of_the_manifest(root: Path) -> None:
    abi = (
        AbiSlot(type="ptr", expr="out.ptr", size=8, align=8),
        AbiSlot(type="ptr", expr="x.ptr", size=8, align=8),
        AbiSlot(type="i32", expr="x.size", size=4, align=4),
    )
    image = frontend().compile(
        job(root, "plain", params=(tensor("x"), tensor("out", out=True)), abi=abi)
    )
    assert [slot.expr for slot in image.abi] == [
        "out.ptr",
        "out.shape[0]",
        "x.ptr",
        "x.shape[0]",
        "x.size",
    ]


def test_constants_and_axes_are_in_the_code(root: Path) -> None:
    made = [
        frontend().compile(job(root, "tiled", axes=axes))
        for axes in ({"T": "f32", "SPAN": 4, "N": 16}, {"T": "f64", "SPAN": 2})
    ]
    assert [image.info.resources.shared for image in made] == [16 * 4 * 4, 8 * 2 * 8]


def test_options_of_the_decorator(root: Path) -> None:
    made = frontend().compile(job(root, "optioned", "compute_80"))
    text = made.data.decode()
    assert ".maxntid 128" in text
    assert "div.approx.ftz.f32" in text
    assert made.info.max_threads == 128
    registers = frontend().compile(job(root, "optioned")).info.resources.registers
    assert registers is not None
    assert registers <= 24


@pytest.mark.parametrize("target", ["sm_75", "sm_90a", "sm_100f", "sm_120"])
def test_targets(root: Path, target: str) -> None:
    image = frontend().compile(job(root, target=target))
    assert image.data.startswith(b"\x7fELF")
    assert image.info.resources.registers
    assert image.info.symbol == "add"


def test_ptx_is_lowered_for_the_oldest_driver(root: Path) -> None:
    image = frontend().compile(job(root, target="compute_80", max_isa=(8, 0)))
    assert (image.info.ptx_isa, image.info.cuda) == ((8, 0), (12, 0))
    assert b".version 8.0" in image.data


def test_loads_and_stores_are_of_global_memory(root: Path) -> None:
    text = frontend().compile(job(root, target="compute_80")).data.decode()
    assert "ld.global.f32" in text
    assert "st.global.f32" in text


def test_images_do_not_depend_on_what_was_compiled_before(root: Path) -> None:
    alone = frontend().compile(job(root, target="compute_80"))
    worker = frontend()
    worker.compile(job(root, "tiled", "sm_120", bounds=True, lineinfo=True))
    worker.compile(job(root, target="compute_80", bounds=True))
    assert worker.compile(job(root, target="compute_80")) == alone


def test_symbols_of_structs_do_not_depend_on_types_of_the_process(root: Path) -> None:
    code = (
        "from pathlib import Path\nfrom numba.cuda import types\n"
        "from tests.toolchain.simt_jobs import frontend, job\n"
        "others = [types.UniTuple(types.int64, count) for count in range({}, 1000)]\n"
        "print(frontend().compile(job(Path({!r}), 'pair', 'compute_80')).info.digest)"
    )
    digests = {run_python(code.format(first, str(root)))[1] for first in (0, 999)}
    assert len(digests) == 1, digests


@pytest.mark.parametrize("dtype", ["f32", "f16"], ids=["alone", "linked with numba's CUDA C++"])
@pytest.mark.parametrize("debug", [False, True])
def test_lines_are_those_of_the_source(root: Path, dtype: str, debug: bool) -> None:
    wanted = job(
        root, target="compute_80", axes={"T": dtype, "SPAN": 4}, lineinfo=True, debug=debug
    )
    text = frontend().compile(wanted).data.decode()
    assert '"k/a.py"' in text
    assert str(root) not in text
    assert ".loc" not in frontend().compile(job(root, target="compute_80")).data.decode()


def test_indices_are_checked_where_the_profile_says(root: Path) -> None:
    checked, bare = (
        frontend().compile(job(root, "checked", "compute_80", bounds=on, lineinfo=on)).data.decode()
        for on in (True, False)
    )
    assert "trap;" in checked  # the exception
    assert "__assertfail" in checked  # the index
    assert "vprintf" in checked
    message = b"k/a.py:44: index %lld of axis 0 is out of bounds"
    assert ", ".join(map(str, message)) in checked.replace("\n", " ")
    assert not any(word in bare for word in ("trap", "vprintf", "__assertfail"))


ACCESSES = {
    "load": "z[0] = x[i]",
    "shared": "block = cuda.shared.array(8, float32)\n    block[i] = x[0]\n    z[0] = block[1]",
    "atomic": "cuda.atomic.add(z, i, 1)",
    "exchange": "cuda.atomic.cas(n, i, 1, 2)",
    "hinted": "cuda.stcg(z, i, cuda.ldca(x, 0))",
    "matrix": "z[0] = m[i, 1]",
    "in a function": "z[0] = common.get(x, i)",
}


@pytest.mark.parametrize("name", ACCESSES)
def test_every_kind_of_access_is_checked(name: str, tmp_path: Path) -> None:
    head = "from numba import cuda, float32, int32\nfrom tilec import simt\nfrom . import common\n\n@simt.kernel\n"
    signature = "def k(z: simt.Mut[float32], n: simt.Mut[int32], x: simt.Ref[float32], m: simt.Ref[float32, 2], i: int):\n    "
    helper = "from numba import cuda\n\n@cuda.jit(device=True)\ndef get(x, i):\n    return x[i]\n"
    write(
        tmp_path,
        {
            "k/__init__.py": "",
            "k/common.py": helper,
            "k/a.py": f"{head}{signature}{ACCESSES[name]}\n",
        },
    )
    params = (Z, tensor("n", "i32", out=True), tensor("x"), tensor("m", rank=2), scalar("i", "i32"))
    checked, bare = (
        frontend().compile(job(tmp_path, "k", "compute_80", params=params, bounds=on)).data
        for on in (True, False)
    )
    assert b"__assertfail" in checked
    assert b"__assertfail" not in bare


def test_a_kernel_may_do_without_checks_in_every_profile(root: Path) -> None:
    text = KERNELS.replace("@simt.kernel\ndef checked", "@simt.kernel(bounds=False)\ndef checked")
    assert text != KERNELS
    write(root, {"k/free.py": text})
    assert (
        b"__assertfail"
        not in frontend()
        .compile(job(root, "checked", "compute_80", path="k/free.py", bounds=True))
        .data
    )


def test_the_barrier_of_a_grid_is_in_the_image(root: Path) -> None:
    image = frontend().compile(job(root, "meeting", "compute_80", cooperative=True))
    assert image.info.symbol == "meeting"
    assert image.warnings == ()
    text = image.data.decode()
    assert ".extern" not in text
    assert "atom.add.release.gpu" in text


def test_a_barrier_of_the_grid_that_no_launch_can_pass_is_told(root: Path) -> None:
    (warned,) = frontend().compile(job(root, "meeting", "compute_80")).warnings
    line = KERNELS[: KERNELS.index("def meeting")].count("\n") + 1
    assert warned.render().splitlines() == [
        f"k/a.py:{line}:5: warning: the kernel waits for its whole grid, and its launches are not cooperative: they stop with an error",
        "    def meeting(z):",
        "        ^",
        "  hint: say launch.cooperative = true",
    ]
    assert frontend().compile(job(root, "plain", "compute_80")).warnings == ()


def test_the_environment_changes_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = frontend().compile(job(root, target="compute_80"))
    for name, value in (
        ("NUMBA_OPT", "0"),
        ("NUMBA_CUDA_DEBUGINFO", "1"),
        ("NUMBA_DUMP_ASSEMBLY", "1"),
    ):
        monkeypatch.setenv(name, value)
    assert frontend().compile(job(root, target="compute_80")) == before


def test_outputs_are_the_only_arrays_that_are_written(root: Path) -> None:
    with pytest.raises(CompileError, match="does not compile for sm_90") as caught:
        frontend().compile(
            job(root, "plain", params=(tensor("z"), tensor("x"), scalar("n", "i64")))
        )
    (told,) = caught.value.diagnostics
    assert (told.location.file, told.location.line) == ("k/a.py", 52)  # type: ignore[union-attr]
    assert told.hint == "the array is only read: annotate it with simt.Mut, or say out = true"
