"""Cold build of Triton kernels against Triton's own compiler: the same variants for the same
targets through `triton.compile`.

What each job hands to Triton - types, constants, facts, options - is read from tilec's plan once.
Then take turns: `tilec build` with nothing cached, and one process that imports the kernels and
compiles all of it, with an empty cache of Triton's, no line information and the same ptxas. The
machine code of both is compared once: what is timed is the same work.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from common import ROOT, Spent, cores, median, options, save, spent, tilec, timed, toolkit

from tilec.compile.events import Observer
from tilec.frontends.base import ToolSearch
from tilec.frontends.triton.bind import bind
from tilec.frontends.triton.frontend import TritonFrontend
from tilec.model.job import Job
from tilec.planning import BuildRequest, plan_only
from tilec_runtime.bundle.cubin import section
from tilec_runtime.bundle.read import Bundle

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
# A measurement during which others had more than this share of the processors is left out: what
# they do hits two processes more than one.
DISTURBED = 0.1
HEAD = """edition = 1
[package]
name = "triton-build"
version = "1.0.0"
[targets]
default = ["sm_80", "sm_90", "sm_100", "sm_120"]
"""
# The kernels of examples/triton, with the matrices that make 20 variants of them: 4 of add, 4 of
# softmax, 12 of matmul.
KERNELS = """
[kernel.add]
source = "add.py:add_kernel"
language = "triton"
matrix = { T = ["f32", "f16"], BLOCK = [1024] }
params = { z = { dtype = "T", rank = 1, out = true }, x = { dtype = "T", rank = 1 }, y = { dtype = "T", rank = 1 } }
args = ["x.ptr", "y.ptr", "z.ptr", "i32(z.size)"]
launch = { grid = ["cdiv(z.size, BLOCK)"] }
assume = { sets = [{ divisible = { z = [16] }, aligned = 16 }, {}] }

[kernel.softmax]
source = "softmax.py:softmax_kernel"
language = "triton"
matrix = { COLS = [1024, 4096], num_warps = [4, 8] }
hints = { num_stages = 2 }
params = { y = { dtype = "f32", rank = 2, out = true }, x = { dtype = "f32", rank = 2 } }
args = ["y.ptr", "x.ptr", "i32(x.shape[0])", "i32(x.shape[1])", "i32(x.stride[0])", "i32(y.stride[0])"]
launch = { grid = ["min(x.shape[0], 1056)"] }
assume = { sets = [{ divisible = { x = [1, 16] }, stride = { x = [16, 1], y = [16, 1] }, aligned = 16 }] }

[kernel.matmul]
source = "matmul.py:matmul_kernel"
language = "triton"
matrix = { T = ["f16", "bf16"], BM = [128, 64], BN = [128], BK = [64, 32], GROUP = [8], include = [
    { T = "f16", BM = 64, BN = 64, BK = 64, GROUP = 8 }, { T = "bf16", BM = 64, BN = 64, BK = 64, GROUP = 8 },
    { T = "f16", BM = 64, BN = 64, BK = 32, GROUP = 8 }, { T = "bf16", BM = 64, BN = 64, BK = 32, GROUP = 8 },
] }
hints = { num_warps = 4, num_stages = 3, sm_120 = { num_stages = 2 } }
params = { c = { dtype = "T", rank = 2, out = true }, a = { dtype = "T", rank = 2 }, b = { dtype = "T", rank = 2 } }
args = [
    "a.ptr", "b.ptr", "c.ptr", "i32(c.shape[0])", "i32(c.shape[1])", "i32(a.shape[1])",
    "i32(a.shape[1])", "i32(b.shape[1])", "i32(c.shape[1])",
]
launch = { grid = ["cdiv(c.shape[0], BM) * cdiv(c.shape[1], BN)"] }
assume = { sets = [{ divisible = { a = [16, 16], b = [16, 16], c = [16, 16] }, aligned = 16 }] }
"""
# What whoever compiles with Triton alone would write: no part of tilec is imported.
THEIRS = """
import importlib, json, sys
from pathlib import Path
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

folder = Path(sys.argv[1])
sys.path.insert(0, str(folder / "project"))
for number, job in enumerate(json.loads((folder / "jobs.json").read_text())):
    kernel = getattr(importlib.import_module(job["module"]), job["kernel"])
    constants = {(int(place),): value for place, value in job["constants"].items()}
    source = ASTSource(kernel, job["types"], constants, {(place,): [["tt.divisibility", 16]] for place in job["divisible"]})
    made = triton.compile(source, target=GPUTarget("cuda", job["capability"], 32), options=job["options"])
    if len(sys.argv) > 2:
        Path(sys.argv[2], job["id"]).write_bytes(made.asm["cubin"])
"""


def main() -> None:
    """Measure and save."""
    arguments = options(__doc__ or "", repeats=5).parse_args()
    ours: list[Spent] = []
    theirs: list[Spent] = []
    seen: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        project = folder / "project"
        shutil.copytree(
            ROOT / "examples" / "triton",
            project,
            ignore=shutil.ignore_patterns("__pycache__", "dist", ".tilec", "tilec.*"),
        )
        (project / "tilec.toml").write_text(HEAD + KERNELS, encoding="utf-8")
        jobs = plan_only(BuildRequest(manifest_path=project / "tilec.toml"), Observer()).jobs
        (folder / "jobs.json").write_text(json.dumps(handed(jobs)), encoding="utf-8")
        (folder / "theirs.py").write_text(THEIRS, encoding="utf-8")
        build(project, folder, arguments.jobs)  # both once, which reads the tools from the disk
        same, differing = compared(folder, jobs)
        ways = (
            (ours, lambda: build(project, folder, arguments.jobs)),
            (theirs, lambda: compile_theirs(folder)),
        )
        for turn in range(4 * arguments.repeats):
            for kept, work in ways:
                found, others = watched(work)
                name = "tilec" if kept is ours else "Triton"
                seen.append(
                    {
                        "turn": turn,
                        "of": name,
                        "wall": found.wall,
                        "cpu": found.cpu,
                        "others": others,
                    }
                )
                print(seen[-1], flush=True)
                if others <= DISTURBED and len(kept) < arguments.repeats:
                    kept.append(found)
            if min(len(ours), len(theirs)) == arguments.repeats:
                break
    if not ours or not theirs:
        sys.exit("others had the processors all the time: nothing was measured")
    wall, wall_theirs = (median([s.wall for s in them]) for them in (ours, theirs))
    cpu, cpu_theirs = (median([s.cpu for s in them]) for them in (ours, theirs))
    table = [
        ("jobs", f"{len(jobs)} ({len(jobs) // len(TARGETS)} variants x {', '.join(TARGETS)})"),
        (
            "machine code",
            f"{same} of {len(jobs)} equal"
            + (f"; others: {', '.join(differing)}" if differing else ""),
        ),
        ("tilec build, cold", f"{wall:.2f} s with {arguments.jobs} workers"),
        ("triton.compile, cold, one process", f"{wall_theirs:.2f} s"),
        (
            "measured with others having at most a tenth of the processors",
            f"{len(ours)} and {len(theirs)} times of {len(seen) // 2} each",
        ),
        ("tilec / Triton", f"{wall / wall_theirs:.3f} (wanted: at most 0.55 with 2 cores)"),
        (
            "processor time of tilec, of Triton",
            f"{cpu:.2f} s, {cpu_theirs:.2f} s ({(cpu / cpu_theirs - 1) * 100:+.1f} %)",
        ),
    ]
    rows = {
        "targets": TARGETS,
        "workers": arguments.jobs,
        "tilec": [{"wall": s.wall, "cpu": s.cpu} for s in ours],
        "triton": [{"wall": s.wall, "cpu": s.cpu} for s in theirs],
        "ratio": wall / wall_theirs,
        "ratio_cpu": cpu / cpu_theirs,
        "measured": seen,
        "same_code": same,
        "differing": differing,
    }
    save("triton_build", arguments.out, rows, table)


def watched(work: Callable[[], None]) -> tuple[Spent, float]:
    """What a piece of work takes, and the share of the processors that other work had meanwhile."""
    before = busy()
    found = spent(work)
    others = busy() - before - found.cpu
    return found, max(0.0, others) / (found.wall * cores())


def busy() -> float:
    """Seconds that the machine's processors have worked; 0 where the system does not say it."""
    path = Path("/proc/stat")
    if not path.is_file():
        return 0.0
    user, nice, system, _, _, irq, softirq, steal = map(
        int, path.read_text(encoding="utf-8").split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def handed(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    """What Triton gets of each job, as data."""
    frontend = TritonFrontend(ToolSearch())
    found = []
    for job in jobs:
        _, kernel = frontend._kernels.find(job)  # noqa: SLF001
        bound = bind(job, kernel)
        given = {
            "id": job.id,
            "module": Path(job.spec.source.path).stem,
            "kernel": job.spec.decl.name,
            "types": bound.types,
        }
        facts = {
            "constants": bound.constants,
            "divisible": bound.divisible,
            "capability": job.target.cc[0] * 10 + job.target.cc[1],
        }
        found.append({**given, **facts, "options": {"enable_fp_fusion": True, **dict(job.hints)}})
    return found


def build(project: Path, folder: Path, workers: int) -> None:
    """tilec's build, with nothing cached."""
    for path in (folder / "cache", project / ".tilec", project / "dist"):
        shutil.rmtree(path, ignore_errors=True)
    timed(
        [tilec(), "-C", str(project), "build", "-j", str(workers), "-q"],
        env={"TILEC_CACHE_DIR": str(folder / "cache")},
    )


def compile_theirs(folder: Path, *more: str) -> None:
    """Triton's compiler, with nothing cached."""
    shutil.rmtree(folder / "triton", ignore_errors=True)
    ptxas = str(toolkit() / "bin" / "ptxas")
    tools = dict.fromkeys(("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"), ptxas)
    own = {"TRITON_CACHE_DIR": str(folder / "triton"), "TRITON_DISABLE_LINE_INFO": "1", **tools}
    timed([sys.executable, str(folder / "theirs.py"), str(folder), *more], env=own)


def compared(folder: Path, jobs: Sequence[Job]) -> tuple[int, list[str]]:
    """How many jobs have the same machine code as Triton's own compiler makes, and which have not."""
    cubins = folder / "cubins"
    cubins.mkdir()
    compile_theirs(folder, str(cubins))
    bundle = Bundle.open(next((folder / "project" / "dist").glob("*.tilec")))
    built = {
        (v.id, str(i.target)): i for k in bundle.info.kernels for v in k.variants for i in v.images
    }
    differing = []
    for job in jobs:
        image = built[job.variant.id, str(job.target)]
        name = f".text.{image.symbol}"
        if section(bundle.image(image.digest), name) != section(
            (cubins / job.id).read_bytes(), name
        ):
            differing.append(job.id)
    return len(jobs) - len(differing), differing


if __name__ == "__main__":
    main()
