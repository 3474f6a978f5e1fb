"""The choice of an image is accepted, deterministic, independent of order, and no accepted one of
an earlier kind is passed over.
"""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tests.bundle_samples import row
from tilec_runtime.bundle.choose import Candidate, DeviceFacts, choose_image
from tilec_runtime.model.arch import ARCHS, TargetKind
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.jit import JitBy, JitFallback

TARGETS = ["tileir"] + [
    f"{kind}_{cc[0]}{cc[1]}{suffix}"
    for cc, arch in ARCHS.items()
    for kind in ("sm", "compute", "lto")
    for suffix, isa in (("", arch.ptx), ("a", arch.ptx_a), ("f", arch.ptx_f))
    if isa
]
RELEASES = [(11, 0), (11, 8), (12, 0), (12, 8), (13, 0), (13, 4), (14, 0)]


@st.composite
def images(draw: st.DrawFn) -> ImageInfo:
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
    cc=st.sampled_from([*ARCHS, (6, 1), (10, 1), (12, 9), (13, 0)]),
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
@given(st.lists(images(), max_size=8), DEVICES, st.randoms(use_true_random=False))
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
@given(st.lists(images(), min_size=1, max_size=5), DEVICES)
def test_a_newer_driver_refuses_nothing_more(
    given_images: list[ImageInfo], device: DeviceFacts
) -> None:
    newer = dataclasses.replace(device, driver=(99, 0))
    for image in given_images:
        if choose_image([image], device).image is not None:
            assert choose_image([image], newer).image is not None


@examples(100)
@given(st.lists(images(), max_size=6), DEVICES)
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
