"""The architecture table against what the toolkit accepts: names, forms, ISAs, limits,
compatibility, occupancy.
"""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.toolchain.projects import SEARCH, run_tool, tool
from tilec.frontends.tools.search import find_tool
from tilec.model.occupancy import occupancy
from tilec_runtime.model.arch import ARCHS, Arch, Target, TargetKind, Version
from tilec_runtime.model.driver import ptx_isa_of_cuda

pytestmark = pytest.mark.toolchain

FORMS = [
    Target(TargetKind.CUBIN, cc, suffix)
    for cc, arch in ARCHS.items()
    for suffix, isa in (("", arch.ptx), ("a", arch.ptx_a), ("f", arch.ptx_f))
    if isa
]
PTX = (
    ".version {isa}\n.target {target}\n.address_size 64\n.visible .entry k() {bounds} {{ ret; }}\n"
)

Assemble = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def ptxas() -> str:
    return tool("ptxas")


@pytest.fixture
def assemble(ptxas: str, tmp_path: Path) -> Assemble:
    def run(
        target: object, isa: Version, *, bounds: str = "", chip: object = ""
    ) -> subprocess.CompletedProcess[str]:
        source = tmp_path / "k.ptx"
        source.write_text(PTX.format(isa=f"{isa[0]}.{isa[1]}", target=target, bounds=bounds))
        command = [
            ptxas,
            str(source),
            f"--gpu-name={chip or target}",
            "-o",
            str(tmp_path / "k.cubin"),
        ]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    return run


def before(isa: Version) -> Version:
    """The PTX ISA before one."""
    newest = {6: 5, 7: 8, 8: 8}
    return (isa[0], isa[1] - 1) if isa[1] else (isa[0] - 1, newest[isa[0] - 1])


def test_the_table_lists_every_architecture_of_the_toolkit() -> None:
    text = run_tool("ptxas", "--help")
    section = text[text.index("--gpu-name") :]
    section = section[section.index("Allowed values") : section.index("Default value")]
    listed = set(re.findall(r"'(sm_\w+)'", section))
    assert {str(target) for target in FORMS} == listed


@pytest.mark.parametrize("target", FORMS, ids=str)
def test_oldest_isa(target: Target, assemble: Assemble) -> None:
    accepted = assemble(target, target.ptx_isa)
    assert accepted.returncode == 0, accepted.stderr
    if target.ptx_isa > (6, 3):  # older ones are refused for other reasons
        refused = assemble(target, before(target.ptx_isa))
        assert refused.returncode != 0
        assert "version" in refused.stderr.lower()


def test_newest_isa_is_the_toolkits(assemble: Assemble) -> None:
    newest = ptx_isa_of_cuda(find_tool("ptxas", SEARCH).release)
    assert assemble("sm_80", newest).returncode == 0
    assert assemble("sm_80", (newest[0], newest[1] + 1)).returncode != 0


@pytest.mark.parametrize("arch", ARCHS.values(), ids=lambda arch: f"{arch.cc[0]}.{arch.cc[1]}")
def test_blocks_and_threads_per_multiprocessor(arch: Arch, assemble: Assemble) -> None:
    target = f"sm_{arch.cc[0]}{arch.cc[1]}"
    for threads, blocks in ((32, arch.blocks), (128, arch.threads // 128)):
        fits = assemble(target, arch.ptx, bounds=f".maxntid {threads} .minnctapersm {blocks}")
        assert fits.returncode == 0
        assert "out of range" not in fits.stderr
        assert (
            "out of range"
            in assemble(
                target, arch.ptx, bounds=f".maxntid {threads} .minnctapersm {blocks + 1}"
            ).stderr
        )


@pytest.mark.parametrize("target", [form for form in FORMS if form.suffix], ids=str)
def test_specific_ptx_goes_no_further_than_the_table_says(
    target: Target, assemble: Assemble
) -> None:
    """ptxas compiles PTX for an architecture exactly where a driver would."""
    ptx = Target(TargetKind.PTX, target.cc, target.suffix)
    isa = max(arch.ptx for arch in ARCHS.values())
    for cc in (cc for cc in ARCHS if cc >= (9, 0)):
        chip = f"sm_{cc[0]}{cc[1]}" + (
            target.suffix if ARCHS[cc].ptx_f or target.suffix == "a" else ""
        )
        assert (assemble(target, isa, chip=chip).returncode == 0) == ptx.runs_on(cc), chip


def test_tile_architectures() -> None:
    text = run_tool("tileiras", "--help")
    listed = {
        int(line.split()[0].removeprefix("=sm_"))
        for line in text.splitlines()
        if line.strip().startswith("=sm_")
    }
    assert listed == {cc[0] * 10 + cc[1] for cc, arch in ARCHS.items() if arch.tile}


ORACLE = r"""
#include <stdio.h>
#include <stddef.h>
#include <limits.h>
#include <cuda_occupancy.h>
int main(void) {
    int major, minor, threads, registers, statics, dynamics, per_sm, shared, optin, reserved;
    while (scanf("%d %d %d %d %d %d %d %d %d %d", &major, &minor, &threads, &registers, &statics, &dynamics, &per_sm, &shared, &optin,
                 &reserved) == 10) {
        cudaOccDeviceProp p; cudaOccFuncAttributes a; cudaOccDeviceState s; cudaOccResult r;
        memset(&p, 0, sizeof p); memset(&a, 0, sizeof a); memset(&s, 0, sizeof s);
        p.computeMajor = major; p.computeMinor = minor; p.maxThreadsPerBlock = 1024; p.maxThreadsPerMultiprocessor = per_sm;
        p.regsPerBlock = 65536; p.regsPerMultiprocessor = 65536; p.warpSize = 32; p.sharedMemPerBlock = 48 * 1024;
        p.sharedMemPerMultiprocessor = shared; p.numSms = 1; p.sharedMemPerBlockOptin = optin; p.reservedSharedMemPerBlock = reserved;
        a.maxThreadsPerBlock = 1024; a.numRegs = registers; a.sharedSizeBytes = statics;
        a.maxDynamicSharedSizeBytes = dynamics; a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        s.carveoutConfig = SHAREDMEM_CARVEOUT_DEFAULT;
        cudaOccError e = cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &s, threads, dynamics);
        printf("%d\n", e == CUDA_OCC_SUCCESS ? r.activeBlocksPerMultiprocessor : -1);
    }
    return 0;
}
"""


def test_occupancy_agrees_with_the_toolkits_header(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler for the toolkit's occupancy header")
    include = tool("headers")
    (tmp_path / "oracle.cpp").write_text("#include <string.h>\n" + ORACLE)
    subprocess.run(
        [compiler, "-O1", "-w", f"-I{include}", "-o", "oracle", "oracle.cpp"],
        cwd=tmp_path,
        check=True,
        timeout=120,
    )
    cases = list(
        itertools.product(
            ARCHS.values(),
            (1, 32, 33, 96, 128, 256, 384, 512, 1000, 1024),
            (1, 16, 24, 32, 33, 40, 63, 64, 65, 96, 128, 168, 200, 255),
            (
                (0, 0),
                (1, 0),
                (1024, 100),
                (4096, 0),
                (20_000, 0),
                (48 << 10, 0),
                (0, 64 << 10),
                (128, 99 << 10),
                (0, 200 << 10),
            ),
        )
    )
    lines = [
        f"{a.cc[0]} {a.cc[1]} {threads} {registers} {static} {dynamic} {a.threads} {a.shared} {a.shared_block} {a.shared_reserved}"
        for a, threads, registers, (static, dynamic) in cases
    ]
    done = subprocess.run(
        [str(tmp_path / "oracle")],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    wrong = []
    for (arch, threads, registers, (static, dynamic)), expected in zip(
        cases, done.stdout.split(), strict=True
    ):
        got = occupancy(
            arch,
            threads_per_block=threads,
            registers=registers,
            shared_static=static,
            shared_dynamic=dynamic,
        )
        if got.blocks_per_sm != int(expected):
            wrong.append(
                (arch.cc, threads, registers, static, dynamic, got.blocks_per_sm, int(expected))
            )
    assert wrong == []
