"""Architectures and targets: names, order, compatibility."""

from __future__ import annotations

import pytest

from tilec_runtime.model.arch import ARCHS, Target, TargetKind, Version
from tilec_runtime.model.driver import cuda_of_ptx_isa

FORMS = [
    f"{kind}_{cc[0]}{cc[1]}{suffix}"
    for cc, arch in ARCHS.items()
    for kind in ("sm", "compute")
    for suffix, isa in (("", arch.ptx), ("a", arch.ptx_a), ("f", arch.ptx_f))
    if isa
]


@pytest.mark.parametrize("arch", ARCHS.values(), ids=lambda arch: str(arch.cc))
def test_rows_agree_with_themselves(arch) -> None:
    assert arch.ptx <= (arch.ptx_a or arch.ptx)
    assert arch.ptx <= (arch.ptx_f or arch.ptx)
    assert cuda_of_ptx_isa(arch.ptx) <= arch.toolkit
    assert arch.warps * 32 == arch.threads
    assert arch.threads in (1024, 1536, 2048)
    assert arch.shared_block + arch.shared_reserved == arch.shared
    assert arch.registers == 65536


@pytest.mark.parametrize("name", [*FORMS, "tileir"])
def test_names_round_trip(name: str) -> None:
    target = Target.parse(name)
    assert str(target) == name
    assert Target.parse(str(target)) == target
    if name != "tileir":
        assert target.ptx_isa >= target.arch.ptx
        assert target.number == name.split("_")[1]


@pytest.mark.parametrize(
    ("name", "kind", "cc", "suffix"),
    [
        ("sm_90a", TargetKind.CUBIN, (9, 0), "a"),
        ("compute_103f", TargetKind.PTX, (10, 3), "f"),
        ("sm_121", TargetKind.CUBIN, (12, 1), ""),
        ("tileir", TargetKind.TILEIR, (0, 0), ""),
    ],
)
def test_parse(name: str, kind: TargetKind, cc: Version, suffix: str) -> None:
    assert Target.parse(name) == Target(kind, cc, suffix)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "sm90",
            "unknown target 'sm90': targets are sm_NN (cubin), compute_NN (PTX), lto_NN (LTO-IR) and tileir; for example sm_90, compute_80",
        ),
        ("", "unknown target ''"),
        ("SM_90", "unknown target 'SM_90'"),
        ("sm_9", "unknown target 'sm_9'"),
        ("sm_90b", "unknown target 'sm_90b'"),
        ("ltoir_90", "unknown target 'ltoir_90'"),
        ("sm_70", "unknown architecture in target 'sm_70': known are sm_75, sm_80"),
        (
            "compute_101",
            "unknown architecture in target 'compute_101': known are compute_75, compute_80",
        ),
        ("sm_80a", "target 'sm_80a' does not exist: compute capability 8.0 has sm_80"),
        ("sm_90f", "target 'sm_90f' does not exist: compute capability 9.0 has sm_90, sm_90a"),
    ],
)
def test_parse_refuses(name: str, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        Target.parse(name)
    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(
    ("name", "runs", "not_on"),
    [
        ("sm_80", "8.0 8.6 8.9", "7.5 8.7 8.8 9.0"),
        ("sm_86", "8.6 8.9", "8.0 8.7 8.8"),
        ("sm_87", "8.7", "8.6 8.8 8.9"),
        ("sm_90a", "9.0", "10.0 12.0"),
        ("sm_100", "10.0 10.3 10.7", "9.0 11.0 12.0"),
        ("sm_100f", "10.0 10.3 10.7", "11.0 12.0"),
        ("sm_103f", "10.3 10.7", "10.0 11.0"),
        ("sm_100a", "10.0", "10.3"),
        ("sm_110f", "11.0", "12.0 10.3"),
        ("sm_120", "12.0 12.1", "11.0"),
        ("compute_80", "8.0 8.6 8.7 9.0 12.1 13.0", "7.5"),
        ("compute_90a", "9.0", "10.0 12.0"),
        ("compute_100f", "10.0 10.3", "12.0"),
        ("tileir", "8.0 9.0 12.1", "7.5 13.0"),
    ],
)
def test_runs_on(name: str, runs: str, not_on: str) -> None:
    target = Target.parse(name)

    def capabilities(text: str) -> list[Version]:
        return [
            (int(major), int(minor))
            for major, minor in (dotted.split(".") for dotted in text.split())
        ]

    assert [cc for cc in capabilities(runs) if not target.runs_on(cc)] == []
    assert [cc for cc in capabilities(not_on) if target.runs_on(cc)] == []


def test_a_form_that_does_not_exist_has_no_isa() -> None:
    with pytest.raises(ValueError, match="has no such form"):
        _ = Target(TargetKind.CUBIN, (8, 0), "a").ptx_isa
