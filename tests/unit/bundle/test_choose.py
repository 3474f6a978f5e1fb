"""Which image a device gets, over capabilities, drivers and kinds of images, with the reasons."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tests.bundle_samples import row
from tilec_runtime.bundle.choose import Candidate, DeviceFacts, choose_image, require_image
from tilec_runtime.errors import NoImageError
from tilec_runtime.model.arch import ARCHS, TargetKind, Version
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.jit import JitBy, JitFallback

CUDA_13_0, CUDA_13_4 = (13, 0), (13, 4)
# A capability that no release of tilec knows, and the newest PTX that such a GPU can run.
UNKNOWN = (99, 0)
NEWEST_PTX = "compute_{}{}".format(*max(ARCHS))
ALLOW = (
    'let it be compiled at load: jit-fallback = "allow" in [targets], or TILEC_JIT_FALLBACK=allow'
)

# (images, capability, driver, chosen): an image is target, "tile" for a tile cubin, "@9.4" for its
# ISA, ">=13.4" for its oldest CUDA.
TABLE: list[tuple[str, Version, Version, str]] = [
    # Architecture-specific cubins run on one capability.
    ("sm_90a", (9, 0), CUDA_13_0, "sm_90a"),
    ("sm_90a", (10, 0), CUDA_13_0, ""),
    ("sm_90a", (8, 9), CUDA_13_0, ""),
    ("sm_100a", (10, 0), CUDA_13_0, "sm_100a"),
    ("sm_100a", (10, 3), CUDA_13_0, ""),
    ("sm_120a", (12, 1), CUDA_13_0, ""),
    # Family-specific cubins run on later members of the family.
    ("sm_100f", (10, 0), CUDA_13_0, "sm_100f"),
    ("sm_100f", (10, 3), CUDA_13_0, "sm_100f"),
    ("sm_100f", (10, 7), CUDA_13_4, "sm_100f"),
    ("sm_100f", (11, 0), CUDA_13_0, ""),
    ("sm_100f", (12, 0), CUDA_13_0, ""),
    ("sm_103f", (10, 0), CUDA_13_0, ""),
    ("sm_120f", (12, 1), CUDA_13_0, "sm_120f"),
    # SIMT cubins run on the same major and later minor capabilities.
    ("sm_80", (8, 0), CUDA_13_0, "sm_80"),
    ("sm_86", (8, 9), CUDA_13_0, "sm_86"),
    ("sm_89", (8, 6), CUDA_13_0, ""),
    ("sm_80", (9, 0), CUDA_13_0, ""),
    ("sm_100", (10, 3), CUDA_13_0, "sm_100"),
    ("sm_120", (12, 1), CUDA_13_0, "sm_120"),
    ("sm_80 sm_86", (8, 9), CUDA_13_0, "sm_86"),
    ("sm_86 sm_80 sm_89", (8, 9), CUDA_13_0, "sm_89"),
    ("sm_80 sm_89", (8, 6), CUDA_13_0, "sm_80"),
    # Systems on a chip share no machine code with other capabilities.
    ("sm_80", (8, 7), CUDA_13_0, ""),
    ("sm_86", (8, 7), CUDA_13_0, ""),
    ("sm_87", (8, 7), CUDA_13_0, "sm_87"),
    ("sm_87", (8, 9), CUDA_13_0, ""),
    ("sm_80 compute_80@8.0", (8, 7), CUDA_13_0, "compute_80"),
    # Tile cubins run on exactly their capability.
    ("sm_120:tile", (12, 0), CUDA_13_0, "sm_120"),
    ("sm_120:tile", (12, 1), CUDA_13_0, ""),
    ("sm_80:tile", (8, 6), CUDA_13_0, ""),
    ("sm_90:tile", (9, 0), CUDA_13_0, "sm_90"),
    # PTX runs on its capability and later ones, if the driver reads its ISA.
    ("compute_80@8.0", (8, 0), CUDA_13_0, "compute_80"),
    ("compute_80@8.0", max(ARCHS), CUDA_13_0, "compute_80"),
    ("compute_80@8.0", (7, 5), CUDA_13_0, ""),
    ("compute_80@9.0", (9, 0), CUDA_13_0, "compute_80"),
    ("compute_80@9.4", (9, 0), CUDA_13_0, "compute_80"),  # through nvJitLink
    ("compute_80@9.4", (9, 0), CUDA_13_4, "compute_80"),
    ("compute_80@9.4", (9, 0), (12, 9), ""),  # whose machine code such a driver does not load
    ("compute_80@8.0", (9, 0), (11, 8), ""),
    ("compute_80@7.8", (9, 0), (11, 8), "compute_80"),
    ("compute_80@8.0 compute_90@8.0", (10, 0), CUDA_13_0, "compute_90"),
    ("compute_80@8.0 compute_90@9.4", (10, 0), CUDA_13_0, "compute_80"),
    # PTX for an architecture's or a family's own features goes no further than they do.
    ("compute_90a@8.0", (9, 0), CUDA_13_0, "compute_90a"),
    ("compute_90a@8.0", (10, 0), CUDA_13_0, ""),
    ("compute_90a@8.0", (10, 3), CUDA_13_0, ""),
    ("compute_100f@8.8", (10, 3), CUDA_13_0, "compute_100f"),
    ("compute_100f@8.8", (12, 0), CUDA_13_0, ""),
    ("compute_90@8.0 compute_90a@8.0", (9, 0), CUDA_13_0, "compute_90a"),
    # Tile IR runs wherever it can be assembled, if the driver reads it.
    ("tileir@13.3>=13.3", (8, 0), CUDA_13_4, "tileir"),
    ("tileir@13.3>=13.3", (9, 0), CUDA_13_0, ""),
    ("tileir@13.3>=13.3", (7, 5), CUDA_13_4, ""),
    # LTO-IR is linked for its architecture and later ones, behind what the driver compiles, before
    # PTX that it does not read.
    ("lto_80@13.4>=13.0", (9, 0), CUDA_13_0, "lto_80"),
    ("lto_80@13.4>=13.0", (7, 5), CUDA_13_0, ""),
    ("lto_80@13.4>=13.0", (9, 0), (12, 9), ""),
    ("lto_90a@13.4>=13.0", (9, 0), CUDA_13_0, "lto_90a"),
    ("lto_90a@13.4>=13.0", (10, 0), CUDA_13_0, ""),
    ("lto_80@13.4>=13.0 compute_80@8.0", (9, 0), CUDA_13_0, "compute_80"),
    ("lto_80@13.4>=13.0 compute_80@9.4", (9, 0), CUDA_13_0, "lto_80"),
    ("lto_80@13.4>=13.0 lto_90@13.4>=13.0", (12, 0), CUDA_13_0, "lto_90"),
    ("lto_80@13.4>=13.0 sm_80", (8, 9), CUDA_13_0, "sm_80"),
    # The order of kinds.
    ("compute_90a@8.0 sm_90 sm_90a tileir@13.0>=13.0", (9, 0), CUDA_13_0, "sm_90a"),
    ("compute_90@8.0 sm_90 tileir@13.0>=13.0", (9, 0), CUDA_13_0, "sm_90"),
    ("sm_100 sm_103 sm_100f", (10, 3), CUDA_13_0, "sm_100f"),
    ("sm_100f sm_103a", (10, 3), CUDA_13_0, "sm_103a"),
    ("sm_100f sm_103f", (10, 3), CUDA_13_0, "sm_103f"),
    ("compute_80@8.0 tileir@13.0>=13.0", (9, 0), CUDA_13_0, "compute_80"),
    ("sm_120:tile tileir@13.0>=13.0", (12, 1), CUDA_13_0, "tileir"),
    # Any image may need a newer driver than there is.
    ("sm_90>=13.4", (9, 0), CUDA_13_0, ""),
    ("sm_90>=13.4 compute_80@8.0", (9, 0), CUDA_13_0, "compute_80"),
    # Capabilities that this table does not know yet.
    ("sm_120 compute_120@8.7", UNKNOWN, CUDA_13_4, "compute_120"),
    ("sm_121a compute_120f@8.8", (12, 5), CUDA_13_4, "compute_120f"),
    ("tileir@13.0>=13.0", UNKNOWN, CUDA_13_4, ""),
    ("", (9, 0), CUDA_13_0, ""),
]


def image(text: str) -> ImageInfo:
    text, _, cuda = text.partition(">=")
    text, _, isa = text.partition("@")
    target, _, tile = text.partition(":")

    def version(dotted: str) -> Version:
        major, minor = dotted.split(".")
        return int(major), int(minor)

    return row(
        target,
        exact=bool(tile),
        isa=version(isa) if isa else None,
        cuda=version(cuda) if cuda else (11, 0),
    )


def images(text: str) -> list[ImageInfo]:
    return [image(part) for part in text.split()]


@pytest.mark.parametrize(("given", "cc", "driver", "chosen"), TABLE)
def test_table(given: str, cc: Version, driver: Version, chosen: str) -> None:
    device = DeviceFacts(cc=cc, driver=driver, jit=JitFallback.ALLOW)
    choice = choose_image(images(given), device)
    assert (str(choice.image.target) if choice.image else "") == chosen
    assert len(choice.candidates) == len(given.split())
    assert all(candidate.reason for candidate in choice.candidates)
    reverse = choose_image(images(given)[::-1], device)
    assert reverse == choice
    if choice.image:
        assert choice.candidates[0].image is choice.image
        assert choice.candidates[0].accepted


@pytest.mark.parametrize(
    ("given", "cc", "driver", "reason"),
    [
        (
            "sm_90a",
            (10, 0),
            CUDA_13_0,
            "an architecture-specific cubin runs on compute capability 9.0 only, not on 10.0",
        ),
        (
            "sm_100f",
            (12, 0),
            CUDA_13_0,
            "a family-specific cubin runs on compute capability 10.0 and later 10.x only, not on 12.0",
        ),
        (
            "compute_90a@8.0",
            (10, 0),
            CUDA_13_0,
            "architecture-specific PTX runs on compute capability 9.0 only, not on 10.0",
        ),
        (
            "compute_100f@8.8",
            (12, 0),
            CUDA_13_0,
            "family-specific PTX runs on compute capability 10.0 and later 10.x only, not on 12.0",
        ),
        (
            "sm_120:tile",
            (12, 1),
            CUDA_13_0,
            "this cubin runs on compute capability 12.0 only, not on 12.1",
        ),
        (
            "sm_80",
            (9, 0),
            CUDA_13_0,
            "a cubin runs on compute capability 8.0 and later 8.x only, not on 9.0",
        ),
        (
            "sm_80",
            (8, 7),
            CUDA_13_0,
            "machine code for 8.0 does not run on 8.7: 8.7 is a system on a chip with its own",
        ),
        (
            "compute_90@8.0",
            (8, 9),
            CUDA_13_0,
            "PTX for compute capability 9.0 runs on 9.0 and later, not on 8.9",
        ),
        (
            "compute_80@9.0",
            (9, 0),
            CUDA_13_4,
            "PTX that the driver would compile, and jit-fallback is deny by default",
        ),
        (
            "tileir@13.4",
            (9, 0),
            CUDA_13_4,
            "Tile IR that the driver would compile, and jit-fallback is deny by default",
        ),
        (
            "lto_80@13.4>=13.0",
            (9, 0),
            CUDA_13_0,
            "LTO-IR that nvJitLink would link, and jit-fallback is deny by default",
        ),
        (
            "lto_80@13.4>=13.0",
            (7, 5),
            CUDA_13_0,
            "LTO-IR for compute capability 8.0 runs on 8.0 and later, not on 7.5",
        ),
        (
            "lto_100f@13.4>=13.0",
            (12, 0),
            CUDA_13_0,
            "family-specific LTO-IR runs on compute capability 10.0 and later 10.x only, not on 12.0",
        ),
        (
            "lto_80@13.4>=13.0",
            (9, 0),
            (12, 9),
            "this LTO-IR of CUDA 13.4 needs a driver of CUDA 13.0 (driver branch 580 or later), the driver serves CUDA 12.9",
        ),
        (
            "compute_80@9.4",
            (9, 0),
            CUDA_13_0,
            "PTX ISA 9.4 that nvJitLink would compile, since a driver of CUDA 13.0 does not read it, and jit-fallback is deny by default",
        ),
        (
            "compute_80@9.0",
            (9, 0),
            (12, 9),
            "PTX ISA 9.0 needs a driver of CUDA 13.0 (driver branch 580 or later), the driver serves CUDA 12.9",
        ),
        (
            "tileir@13.4>=13.4",
            (9, 0),
            CUDA_13_0,
            "this Tile IR 13.4 needs a driver of CUDA 13.4 (driver branch 615 or later), the driver serves CUDA 13.0",
        ),
        (
            "tileir@13.4",
            (7, 5),
            CUDA_13_4,
            "Tile IR cannot be assembled for compute capability 7.5",
        ),
        (
            "sm_100>=12.8",
            (10, 0),
            (12, 4),
            "this cubin needs a driver of CUDA 12.8 (driver branch 570 or later), the driver serves CUDA 12.4",
        ),
        (
            "sm_90>=14.2",
            (9, 0),
            CUDA_13_4,
            "this cubin needs a driver of CUDA 14.2, the driver serves CUDA 13.4",
        ),
    ],
)
def test_reasons_of_refusal(given: str, cc: Version, driver: Version, reason: str) -> None:
    (candidate,) = choose_image([image(given)], DeviceFacts(cc=cc, driver=driver)).candidates
    assert not candidate.accepted
    assert candidate.reason == reason


def test_require_lists_every_candidate() -> None:
    device = DeviceFacts(cc=(9, 0), driver=CUDA_13_0, name="NVIDIA H200")
    with pytest.raises(NoImageError) as caught:
        require_image(
            choose_image(images("sm_100f compute_80@9.4 sm_80:tile"), device),
            device,
            kernel="gemm-f16-BM128",
        )
    assert str(caught.value) == (
        "gemm-f16-BM128: no image runs on NVIDIA H200 (compute capability 9.0, driver of CUDA 13.0)\n"
        "  compute_80: PTX ISA 9.4 that nvJitLink would compile, since a driver of CUDA 13.0 does not read it, "
        "and jit-fallback is deny by default\n"
        "  sm_100f: a family-specific cubin runs on compute capability 10.0 and later 10.x only, not on 9.0\n"
        "  sm_80: this cubin runs on compute capability 8.0 only, not on 9.0\n"
        f"  fix: add sm_90 to [targets] and build again; or {ALLOW}"
    )
    assert caught.value.kernel == "gemm-f16-BM128"
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    ("given", "cc", "driver", "fix"),
    [
        ("sm_80", (9, 0), CUDA_13_4, "add sm_90 to [targets] and build again"),
        ("", (8, 7), CUDA_13_4, "add sm_87 to [targets] and build again"),
        (
            "sm_120",
            UNKNOWN,
            CUDA_13_4,
            f"add {NEWEST_PTX} to [targets] and build again: PTX is what GPUs newer than tilec run",
        ),
        ("sm_80", (6, 1), CUDA_13_4, "use a GPU of compute capability 7.5 or later"),
        ("sm_80:tile", (9, 0), CUDA_13_4, "add sm_90 to [targets] and build again"),
        (
            "sm_90:tile sm_80:tile",
            UNKNOWN,
            CUDA_13_4,
            "add tileir to [targets] and build again: Tile IR is what GPUs newer than tilec run",
        ),
        ("sm_80:tile", (7, 5), CUDA_13_4, "use a GPU of compute capability 8.0 or later"),
        (
            "compute_80@9.0",
            (9, 0),
            CUDA_13_4,
            f"add sm_90 to [targets] and build again; or {ALLOW}",
        ),
        (
            "sm_80:tile tileir@13.0",
            (9, 0),
            CUDA_13_4,
            f"add sm_90 to [targets] and build again; or {ALLOW}",
        ),
        ("compute_80@9.0", UNKNOWN, CUDA_13_4, ALLOW),
        (
            "lto_80@13.4>=13.0",
            (9, 0),
            CUDA_13_4,
            f"add sm_90 to [targets] and build again; or {ALLOW}",
        ),
        # Machine code is no way out where it waits for a driver itself.
        (
            "sm_90>=13.4",
            (9, 0),
            CUDA_13_0,
            "install a driver of CUDA 13.4 (driver branch 615 or later)",
        ),
        (
            "compute_80@9.0",
            (9, 0),
            (12, 8),
            "install a driver of CUDA 13.0 (driver branch 580 or later); or rebuild with a lower min-driver in [targets]",
        ),
        (
            "sm_90>=13.4 compute_80@9.0",
            (9, 0),
            CUDA_13_0,
            f"{ALLOW}; or install a driver of CUDA 13.4 (driver branch 615 or later)",
        ),
    ],
)
def test_what_to_do(given: str, cc: Version, driver: Version, fix: str) -> None:
    device = DeviceFacts(cc=cc, driver=driver)
    with pytest.raises(NoImageError) as caught:
        require_image(choose_image(images(given), device), device)
    assert caught.value.fix == fix


CPU = DeviceFacts(interprets=((13, 1), (13, 4)))


def test_the_cpu_device_takes_tile_ir_whatever_its_driver_would_have_to_be() -> None:
    held = [
        image("sm_90:tile"),
        image("compute_80@8.0"),
        image("tileir@13.3>=99.0"),
        image("lto_80"),
    ]
    choice = choose_image(held, CPU)
    assert choice.image is held[2]
    assert [(str(c.image.target), c.reason) for c in choice.candidates] == [
        ("tileir", "Tile IR 13.3 that the cpu device interprets"),
        ("compute_80", "PTX, which only the driver of a GPU compiles"),
        ("lto_80", "LTO-IR, which nvJitLink links for a GPU"),
        ("sm_90", "machine code of a GPU"),
    ]


@pytest.mark.parametrize(
    ("given", "language", "words"),
    [
        (
            "sm_90 compute_80@8.0",
            "cuda",
            ["sm_90: machine code of a GPU", "it is a CUDA C++ kernel, compiled to code of a GPU"],
        ),
        ("sm_90", "", ["it is a SIMT kernel (such as CUDA C++)", "run it on a machine with a GPU"]),
        (
            "sm_90:tile",
            "tile",
            [
                "built without portable Tile IR",
                'add "tileir" to default in [targets], and build again',
            ],
        ),
        ("sm_90:tile", "", ["built without portable Tile IR"]),
        (
            "sm_90:tile",
            "triton",
            ["it is a Triton kernel, compiled to code of a GPU", "run it on a machine with a GPU"],
        ),
        (
            "tileir@14.0",
            "tile",
            ["tileir: Tile IR 14.0; the cpu device knows 13.1 to 13.4", "take a newer tilec"],
        ),
        ("", "tile", ["the bundle holds no image of it", 'add "tileir"']),
    ],
)
def test_says_why_no_image_runs_on_the_cpu_device(
    given: str, language: str, words: list[str]
) -> None:
    with pytest.raises(NoImageError) as caught:
        require_image(
            choose_image([image(text) for text in given.split()], CPU),
            CPU,
            kernel="k-f32",
            language=language,
        )
    message = str(caught.value)
    assert message.startswith("k-f32: no image runs on the cpu device\n")
    for word in words:
        assert word in message


TARGETS = ["tileir"] + [
    f"{kind}_{cc[0]}{cc[1]}{suffix}"
    for cc, arch in ARCHS.items()
    for kind in ("sm", "compute", "lto")
    for suffix, isa in (("", arch.ptx), ("a", arch.ptx_a), ("f", arch.ptx_f))
    if isa
]
RELEASES = [(11, 0), (11, 8), (12, 0), (12, 8), (13, 0), (13, 4), (14, 0)]


@st.composite
def drawn(draw: st.DrawFn) -> ImageInfo:
    target = draw(st.sampled_from(TARGETS))
    isa = (
        None
        if target.startswith("sm")
        else draw(st.sampled_from([(7, 8), (8, 0), (8, 8), (9, 0), (9, 4)]))
    )
    exact = target.startswith("sm") and target[-1].isdigit() and draw(st.booleans())
    return row(
        target,
        exact=exact,
        isa=isa,
        cuda=draw(st.sampled_from(RELEASES)),
        data=target.encode() + str((isa, exact)).encode(),
    )


DEVICES = st.builds(
    DeviceFacts,
    cc=st.sampled_from([*ARCHS, (6, 1), (10, 1), (12, 9), UNKNOWN]),
    driver=st.sampled_from(RELEASES),
    jit=st.sampled_from([None, *JitFallback]),
)


def kind(candidate: Candidate) -> int:
    image = candidate.image
    if image.target.kind is TargetKind.CUBIN:
        return (
            0
            if image.target.suffix == "a" or image.exact
            else 1
            if image.target.suffix == "f"
            else 2
        )
    if candidate.jit is JitBy.DRIVER:
        return 3 if image.target.kind is TargetKind.PTX else 4
    return 5 if image.target.kind is TargetKind.LTOIR else 6


@examples(150)
@given(st.lists(drawn(), max_size=8), DEVICES, st.randoms(use_true_random=False))
def test_choice(given_images: list[ImageInfo], device: DeviceFacts, random: object) -> None:
    choice = choose_image(given_images, device)
    taken = [candidate for candidate in choice.candidates if candidate.accepted]
    accepted = [candidate.image for candidate in taken]
    assert len(choice.candidates) == len(given_images)
    assert (choice.image is None) == (not accepted)
    if choice.image is not None:
        assert choice.image == accepted[0]
        assert choice.image in given_images
        assert choice.image.target.runs_on(device.cc, exact=choice.image.exact)
        assert choice.image.cuda <= device.driver or (
            kind(taken[0]) == 6 and choice.image.cuda[0] <= device.driver[0]
        )
        assert kind(taken[0]) == min(map(kind, taken))
    shuffled = list(given_images)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert choose_image(shuffled, device).image == choice.image
    assert [c.reason for c in choose_image(shuffled, device).candidates] == [
        c.reason for c in choice.candidates
    ]
    alone = [image for image in given_images if choose_image([image], device).image is not None]
    assert sorted(map(repr, alone)) == sorted(map(repr, accepted))


@examples(100)
@given(st.lists(drawn(), min_size=1, max_size=5), DEVICES)
def test_a_newer_driver_refuses_nothing_more(
    given_images: list[ImageInfo], device: DeviceFacts
) -> None:
    newer = dataclasses.replace(device, driver=(99, 0))
    for image in given_images:
        if choose_image([image], device).image is not None:
            assert choose_image([image], newer).image is not None


@examples(100)
@given(st.lists(drawn(), max_size=6), DEVICES)
def test_a_policy_is_about_what_is_no_machine_code(
    given_images: list[ImageInfo], device: DeviceFacts
) -> None:
    said = {
        policy: choose_image(given_images, dataclasses.replace(device, jit=policy))
        for policy in (None, *JitFallback)
    }
    taken = {
        policy: {repr(c.image) for c in choice.candidates if c.accepted}
        for policy, choice in said.items()
    }
    assert (
        taken[JitFallback.DENY]
        == taken[None]
        <= taken[JitFallback.ALLOW]
        == taken[JitFallback.WARN]
    )
    for policy, choice in said.items():
        for candidate in choice.candidates:
            compiled = candidate.accepted and candidate.image.target.kind is not TargetKind.CUBIN
            assert (candidate.jit is not None) == compiled
            assert policy in (JitFallback.WARN, JitFallback.ALLOW) or not compiled
            assert candidate.jit is not JitBy.NVJITLINK or candidate.image.target.kind in (
                TargetKind.PTX,
                TargetKind.LTOIR,
            )
    found = said[None].image
    if found is not None:
        assert said[JitFallback.ALLOW].image == found, (
            "to allow more changes nothing where something fits already"
        )
