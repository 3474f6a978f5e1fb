"""`tilec inspect --why`: what a device would take, described arguments, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Golden, Terminal
from tests.runtime_samples import ADD, GEMM, IMAGES, STRUCT, fake_driver, image, kernel, slot
from tests.unit.conftest import Cli
from tilec.package.write import write_bundle
from tilec_runtime.device import driver as _driver
from tilec_runtime.model.kernel import BundleInfo, PackageInfo, VariantInfo
from tilec_runtime.model.signature import Assumption, Param, ParamKind

GOLDEN = Path(__file__).parents[2] / "golden" / "inspect"
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
    info = BundleInfo(
        package=PackageInfo(name="acme", version="1.0", module="acme"), kernels=(ADD, GEMM, WIDE)
    )
    write_bundle(tmp_path / "acme.tilec", info, IMAGES.__getitem__)
    return tmp_path / "acme.tilec"


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
def test_how_it_looks(
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
    assert (shown.code, "no image runs there" in shown.out) == (1, True)


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
            "--device: 'gpu' is no device\n  fix: take sm_90 (a GPU that need not be here)",
        ),
        (("--why", "add", "--sass"), 2, "--why and --sass cannot be combined"),
        (("x=f32[4]",), 2, "'x=f32[4]' goes with --why KERNEL"),
        (("--device", "sm_90"), 2, "--device goes with --why KERNEL"),
    ],
)
def test_messages(
    cli: Cli, bundle: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    place = () if "--device" in arguments or "--why" not in arguments else ("--device", "sm_90")
    done = cli("inspect", str(bundle), *arguments, *place)
    assert (done.code, done.out) == (code, "")
    assert words in done.err


def test_without_a_gpu_one_has_to_be_named(
    cli: Cli, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilec_runtime.errors import NoDeviceError

    def none() -> None:
        raise NoDeviceError("no driver", cause="there is none")

    monkeypatch.setattr(_driver, "driver", none)
    done = cli("inspect", str(bundle), "--why", "add")
    assert (
        done.code,
        "--why: there is no GPU here to ask about" in done.err,
        "fix: name one: --device sm_90" in done.err,
    ) == (
        2,
        True,
        True,
    )
    assert cli("inspect", str(bundle), "--why", "add", "--device", "cuda:0").code == 3
