"""`tilec inspect`: bundles, what changed, pages, sizes, and why a launch takes what it takes."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bundle_samples import Sample, write_kernels, write_sample
from tests.conftest import Golden, Terminal
from tests.runtime_samples import ADD, GEMM, STRUCT, fake_driver, image, kernel, slot
from tests.unit.conftest import Cli
from tilec.package.write import write_bundle
from tilec_runtime.device import driver as _driver
from tilec_runtime.model.kernel import VariantInfo
from tilec_runtime.model.signature import Assumption, Param, ParamKind


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "acme.tilec"
    write_sample(path)
    return path


def test_verify_reads_every_image(cli, sample: Path) -> None:
    assert ", every image verified\n" in cli("inspect", "acme.tilec", "--verify").out
    assert json.loads(cli("inspect", "acme.tilec", "--verify", "--json").out)["verified"] is True
    assert "verified" not in json.loads(cli("inspect", "acme.tilec", "--json").out)
    data = bytearray(sample.read_bytes())
    data[200] ^= 1
    sample.write_bytes(data)
    done = cli("inspect", "acme.tilec", "--verify")
    assert done.code == 1
    assert done.err.startswith("error: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--diff", "nothing.tilec"), "nothing.tilec: no such file or directory"),
        (
            ("--select", "nope"),
            "error: --select: nothing matches 'nope'\n  fix: kernels are add, rmsnorm\n",
        ),
        (
            ("--tileir",),
            "error: --tileir: the bundle has no tileir image; it has cubin and ptx\n",
        ),
        (("--diff", "acme.tilec", "--ptx"), "--diff and --ptx cannot be combined"),
        (("--diff", "acme.tilec", "--safety"), "--diff and --safety cannot be combined"),
        *(
            ((option, ""), f"Invalid value for '{option}': the value is empty")
            for option in ("--diff", "--html", "--why")
        ),
        (("--deny-breaking",), "--deny-breaking needs --diff"),
        (
            ("--diff", "acme.tilec", "--select", "rmsnrm"),
            "nothing matches 'rmsnrm'; did you mean 'rmsnorm'",
        ),
        (("--html", "."), " is a directory\n  fix: name a file"),
        (
            ("--html", "acme.tilec"),
            "acme.tilec: not the name of a .html file\n  fix: end it in .html",
        ),
        (("--html", "out.html", "--json"), "--json and --html cannot be combined"),
        (("--html", "out.html", "--sass"), "--html and --sass cannot be combined"),
        (("--html", "out.html", "--diff", "acme.tilec"), "--diff and --html cannot be combined"),
        (("--html", "out.html", "--select", "ad"), "nothing matches 'ad'; did you mean 'add'"),
        (("--deny", "dead"), "--deny needs --sizes"),
        (("--sizes", "--coverage", "sm_90"), "--coverage and --sizes cannot be combined"),
        (("--coverage", "sm_91"), "no architecture 'sm_91'"),
        (("--coverage", ""), "the value is empty"),
        (("--coverage", ","), "the value is empty"),
    ],
)
def test_refusals(cli, sample: Path, options: tuple[str, ...], message: str) -> None:
    before = sample.read_bytes()
    done = cli("inspect", "acme.tilec", *options)
    assert done.code == (1 if "nothing.tilec" in options else 2)
    assert message in done.out + done.err
    assert [path.name for path in sample.parent.iterdir()] == ["acme.tilec"]
    assert sample.read_bytes() == before


# --- what changed
# ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """A later build: one parameter gone, one default changed, one image made anew."""
    sample = Sample()
    info = sample.info()
    add, norm = info.kernels
    add = replace(add, params=(*add.params[:2], replace(add.params[2], default=0.5)))
    first, *others = norm.variants
    data = b"\x7fELF" + bytes(100)
    used = replace(first.images[0].resources, registers=168, spill_stores=8)
    image = replace(
        first.images[0], digest=hashlib.sha256(data).hexdigest(), size=len(data), resources=used
    )
    sample.images[image.digest] = data
    slots = tuple(slot for slot in first.abi if slot.expr != "eps")
    variants = (replace(first, images=(image, *first.images[1:])), *others)
    norm = replace(
        norm, params=norm.params[:2], variants=tuple(replace(v, abi=slots) for v in variants)
    )
    package = replace(info.package, version="0.4.0")
    path = tmp_path / "new.tilec"
    write_bundle(
        path, replace(info, package=package, kernels=(add, norm)), sample.images.__getitem__
    )
    return path


def test_breaking_changes_can_be_denied(cli, sample: Path, new: Path) -> None:
    assert cli("inspect", "new.tilec", "--diff", "acme.tilec", "--deny-breaking").code == 1
    assert cli("inspect", "acme.tilec", "--diff", "acme.tilec", "--deny-breaking").code == 0
    assert (
        cli(
            "inspect", "new.tilec", "--diff", "acme.tilec", "--deny-breaking", "--select", "add"
        ).code
        == 0
    )
    body = json.loads(cli("inspect", "new.tilec", "--diff", "acme.tilec", "--json").out)
    assert (body["kind"], body["breaking"], body["images"]["same"]) == ("diff", 1, 23)
    assert body["changes"][0] == {
        "what": "parameter eps: f32 = 1e-06 removed",
        "breaking": True,
        "kernel": "rmsnorm",
    }


# --- a page
# ------------------------------------------------------------------------------------------------------------------------


def test_a_page(cli, sample: Path) -> None:
    # Nothing reads these images: what can be said without is on the page, and what is missing is
    # said.
    done = cli(
        "inspect",
        "acme.tilec",
        "--html",
        "out.html",
        "--select",
        "*-sm_*",
        env={"TILEC_CACHE_DIR": "off"},
    )
    assert done.code == 0
    assert re.fullmatch(r"wrote out\.html: 2 kernels, 16 images, [\d.]+ KiB\n", done.out)
    assert "warning: machine code is missing: " in done.err
    text = (sample.parent / "out.html").read_text()
    assert text.startswith("<!doctype html>")
    assert '<p class="dim">bundle acme.tilec, ' in text
    assert text.count('<tr data-kernel="') == 16


# --- how it looks
# ------------------------------------------------------------------------------------------------------------------

GOLDEN = Path(__file__).parents[2] / "golden" / "inspect"


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    ("name", "options"),
    [("bundle", ()), ("safety", ("--safety",)), ("diff", ("--diff", "acme.tilec"))],
)
def test_how_it_looks(
    cli,
    sample: Path,
    new: Path,
    terminal: Terminal,
    golden: Golden,
    width: int,
    name: str,
    options: tuple[str, ...],
) -> None:
    terminal(width)
    done = cli("inspect", "new.tilec", *options, "--color", "never")
    assert max(map(len, done.out.splitlines())) <= width
    # What a build of Python compresses to, and hence the digest of the whole, are its own.
    shown = re.sub(
        r"\bsha256 [0-9a-f]{64}",
        "sha256 …",
        re.sub(r"(new\.tilec, )[0-9.]+ KiB", r"\g<1>… KiB", done.out),
    )
    golden(GOLDEN / f"{name}-{width}.txt", shown)


# --- sizes and coverage

DEAD = kernel(
    "scale",
    (),
    (
        VariantInfo(
            id="scale",
            abi=(slot("i32", "1"),),
            images=(image("s", "sm_90"), image("s", "sm_90a"), image("s", "tileir")),
        ),
    ),
)


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    return write_kernels(tmp_path / "acme.tilec", ADD, DEAD)


TEXT = """\
target  images  size  packed  dead  taken by
sm_80        1  26 B    26 B     0  sm_80, sm_86, sm_89
sm_90        3  73 B    73 B     1  sm_90
sm_90a       1  21 B    21 B     0  sm_90
tileir       1  21 B    21 B     0  cpu; \
sm_80, sm_86, sm_87, sm_88, sm_89, sm_100, sm_103, sm_107, sm_110, sm_120, sm_121 where TILEC_JIT_FALLBACK=allow

6 images, 141 B in the bundle, 20 B of it dead
  scale-sm_90  20 B, devices that could run it prefer sm_90a
"""


def test_sizes(cli: Cli, dead: Path) -> None:
    done = cli("inspect", str(dead), "--sizes")
    assert (done.code, done.out) == (0, TEXT)
    done = cli("inspect", str(dead), "--sizes", "--deny", "dead")
    assert (done.code, done.out) == (1, TEXT)
    document = json.loads(cli("inspect", str(dead), "--sizes", "--json").out)
    assert document["kind"] == "sizes"
    assert [row["target"] for row in document["targets"]] == ["sm_80", "sm_90", "sm_90a", "tileir"]
    assert [(row["id"], row["instead"]) for row in document["dead"]] == [
        ("scale-sm_90", ["sm_90a"])
    ]


def test_coverage(cli: Cli, dead: Path) -> None:
    done = cli("inspect", str(dead), "--coverage", "sm_90,sm_86")
    assert done.code == 1
    assert done.out == (
        "sm_90  machine code for 3 variants, with drivers from CUDA 11.8 (driver branch 520 or later)\n"
        "sm_86  2 of 3 variants have no machine code\n"
        "  sm_90: a cubin runs on compute capability 9.0 and later 9.x only, not on 8.6\n"
        "    add-a16\n"
        "  sm_90: a cubin runs on compute capability 9.0 and later 9.x only, not on 8.6; sm_90a: an architecture-specific cubin runs on"
        " compute capability 9.0 only, not on 8.6; tileir: Tile IR that the driver would compile, and jit-fallback is deny by default\n"
        "    scale\n"
        "  fix: add sm_86 to [targets] and build again\n"
    )
    assert cli("inspect", str(dead), "--coverage", "sm_90").code == 0
    document = json.loads(cli("inspect", str(dead), "--coverage", "sm_90", "--json").out)
    assert [(row["device"], row["complete"]) for row in document["devices"]] == [("sm_90", True)]


# --- why

TENSORS = ("z=f32[4096]", "x=f32[4096]", "y=f32[4096]")
# Tile IR and PTX beside cubins, in a variant with a long name.
WIDE = kernel(
    "attention",
    (
        Param(name="q", kind=ParamKind.TENSOR, dtype="f16", rank=2, stride=(None, 1)),
        Param(name="s", kind=STRUCT, size=16),
    ),
    tuple(
        VariantInfo(
            id=f"attention-f16-BM128-BN64-CAUSAL{causal}-STAGES4{suffix}",
            axes=(("CAUSAL", causal),),
            assume=assume,
            abi=(slot("ptr", "q.ptr"),),
            images=(
                image("a", "sm_80"),
                image("a", "sm_90"),
                image("a", "sm_100"),
                image("a", "compute_80", ptx_isa=(7, 0), cuda=(11, 0)),
                image("a", "compute_90", ptx_isa=(9, 4), cuda=(13, 4)),
            ),
        )
        for causal in (False, True)
        for suffix, assume in (
            ("-a16", (Assumption(param="q", shape=(16, 16), stride=(16, 1), align=16),)),
            ("", ()),
        )
    ),
    axes=(("CAUSAL", (False, True)),),
    default=(("CAUSAL", False),),
)
DENIED = "PTX that the driver would compile, and jit-fallback is deny by default"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_kernels(tmp_path / "acme.tilec", ADD, GEMM, WIDE)


def test_why_names_the_variant_that_a_launch_takes(
    cli: Cli, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = fake_driver(ADD, GEMM)
    monkeypatch.setattr(_driver, "driver", lambda: driver)
    done = cli(
        "inspect",
        str(bundle),
        "--why",
        "gemm",
        "c=f16[64,64]",
        "a=f16[64,64]/128,1",
        "b=f16[64,64]",
        "BM=64",
    )
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "gemm on Fake H200, compute capability 9.0, driver of CUDA 13.0"
    assert "  BM = 64, the caller's" in lines
    assert "  takes   gemm-f16-BM64    it assumes nothing" in lines
    assert not driver.launches, "nothing is launched or loaded"


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("call", ("q=f16[100,128]", "CAUSAL=true")),
        ("kernel", ()),
        ("none", ("q=f16[128,128]", "--device", "sm_75")),
    ],
)
def test_how_answers_look(
    cli: Cli,
    bundle: Path,
    terminal: Terminal,
    golden: Golden,
    width: int,
    name: str,
    arguments: tuple[str, ...],
) -> None:
    terminal(width)
    place = () if "--device" in arguments else ("--device", "sm_90")
    done = cli("inspect", str(bundle), "--why", "attention", *arguments, *place, "--color", "never")
    assert done.code == (1 if name == "none" else 0)
    assert max(map(len, done.out.splitlines())) <= width
    golden(GOLDEN / f"why-{name}-{width}.txt", done.out)


ACT = kernel(
    "act",
    (Param(name="q", kind=ParamKind.TENSOR, dtype="f16", rank=1),),
    tuple(
        VariantInfo(
            id=f"act-{name}",
            axes=(("ACT", act),),
            abi=(slot("ptr", "q.ptr"),),
            images=(image("a"),),
        )
        for name, act in (("none", ""), ("relu", "relu"))
    ),
    axes=(("ACT", ("", "relu")),),
)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("ACT=",), 0, "  ACT = '', the caller's\n"),
        (("ACT=''",), 0, "  ACT = '', the caller's\n"),
        (("ACT=relu",), 0, "ACT is '', and relu is the caller's"),
        ((), 1, "act: ACT has no default: choose one of '', relu\n"),
        (("ACT=gelu",), 2, "'ACT=gelu': ACT was built for '', relu\n"),
        (("q=",), 2, "'q=' is no argument"),
    ],
)
def test_an_axis_value_may_be_the_empty_text(
    cli: Cli, tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    path = write_kernels(tmp_path / "acme.tilec", ACT)
    tensor = () if "q=" in arguments else ("q=f16[8]",)
    asked = ("inspect", str(path), "--why", "act", *tensor, *arguments, "--device", "sm_90")
    done = cli(*asked)
    assert done.code == code
    assert words in done.out + done.err


def test_why_shows_denied_compilation_at_load(cli: Cli, bundle: Path) -> None:
    asked = ("inspect", str(bundle), "--why", "attention", "--device", "sm_120")
    done = cli(*asked, "--json")
    document = json.loads(done.out)
    assert (done.code, document["runs"]) == (1, False)
    assert document["fix"].startswith(
        "add sm_120 to [targets] and build again; or let it be compiled at load: jit-fallback = "
    )
    (first, *_) = document["variants"]
    assert {row["target"]: row["reason"] for row in first["images"]}["compute_80"] == DENIED
    shown = cli(*asked)
    assert (shown.code, "no image runs on this device" in shown.out) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--why", "addd"), 2, "no kernel 'addd' in the bundle; did you mean 'add'"),
        (("--why", "add", "x"), 2, "'x' is no argument\n  fix: take x=f32[4096,4096]@16"),
        (("--why", "add", "x=f32[4"), 2, "'x=f32[4': add takes a tensor for x"),
        (("--why", "add", "x=f23[4]"), 2, "'x=f23[4]': unknown dtype 'f23'; did you mean 'f32'"),
        (
            ("--why", "add", "x=f32[-4]"),
            2,
            "'x=f32[-4]': each extent is a whole number, and [-4] are not",
        ),
        (("--why", "add", "x=f32[4]@12"), 2, "an alignment is a power of two"),
        (("--why", "add", "x=f32[4]/1,1"), 2, "has 2 strides for 1 extents"),
        (("--why", "add", "x=f32[99999999999999999]"), 2, "no device has memory for it"),
        (("--why", "add", "x=f32[4]", "x=f32[5]"), 2, "x is given twice"),
        (
            ("--why", "add", "xx=f32[4]"),
            2,
            "kernel add has no parameter or axis 'xx'; did you mean 'x'",
        ),
        (("--why", "add", "alpha=much"), 2, "'alpha=much': add takes a number for alpha"),
        (("--why", "add", "x=f32[4]"), 1, "the arguments are missing: 'z', 'y'"),
        (("--why", "add", *TENSORS[:2], "y=f32[4095]"), 1, "requires y.shape[0] == z.shape[0]"),
        (
            ("--why", "gemm", "c=f32[4,4]", "a=f32[4,4]", "b=f32[4,4]"),
            1,
            "has dtype f32, and T was built for f16, bf16",
        ),
        (
            ("--why", "gemm", "c=f16[4]", "a=f16[4,4]", "b=f16[4,4]"),
            1,
            "output 'c' has 1 dimension (shape (4,)), the kernel takes 2",
        ),
        (("--why", "gemm", "BM=65"), 2, "BM was built for 64, 128"),
        (("--why", "attention", "s=3"), 2, "s is a struct, of which nothing is chosen by"),
        (
            ("--why", "add", "--device", "sm_91"),
            2,
            "--device: no architecture 'sm_91'; did you mean 'sm_90'",
        ),
        (
            ("--why", "add", "--device", "gpu"),
            2,
            "--device: 'gpu' is no device of this command\n  fix: use an architecture such as sm_90, cpu, cuda",
        ),
        (("--why", "add", "--sass"), 2, "--why and --sass cannot be combined"),
        (("x=f32[4]",), 2, "'x=f32[4]' needs --why KERNEL"),
        (("--device", "sm_90"), 2, "--device needs --why KERNEL"),
    ],
)
def test_questions_that_have_no_answer(
    cli: Cli, bundle: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    place = () if "--device" in arguments or "--why" not in arguments else ("--device", "sm_90")
    done = cli("inspect", str(bundle), *arguments, *place)
    assert (done.code, done.out) == (code, "")
    assert words in done.err


@pytest.mark.usefixtures("no_driver")
def test_without_a_gpu_one_has_to_be_named(cli: Cli, bundle: Path) -> None:
    done = cli("inspect", str(bundle), "--why", "add")
    assert done.code == 3
    assert "explaining a launch on this machine needs a GPU (cuda:0): the CUDA driver" in done.err
    assert "fix: pass --device sm_90" in done.err
    assert cli("inspect", str(bundle), "--why", "add", "--device", "cuda:0").code == 3
