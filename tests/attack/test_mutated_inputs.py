"""Damaged files: every input is taken, or refused with an error of tilec's own, within time and
memory.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attack.conftest import Campaign
from tests.attack.mutants import (
    Watch,
    changed,
    flipped,
    index_values,
    launch_faithful,
    launch_same,
    packed,
)
from tests.cubin_samples import build_cubin
from tests.unit.bundle.test_tuning_file import TEXT as TUNING_FILE
from tilec.cli.main import run
from tilec.frontends.base import ToolSearch
from tilec.frontends.prebuilt.choose import members
from tilec.frontends.prebuilt.declare import declared
from tilec.frontends.prebuilt.tools import Opener
from tilec.frontends.tools.compiled_files import Prebuilt, kind_of
from tilec.manifest.load import load_text
from tilec.manifest.tuning_file import read_record
from tilec_runtime.foreign import printable
from tilec_runtime.model.digest import sha256

SECONDS = 2.0  # of the processor, for one input; the slowest takes some 0.05
GROWTH = 64.0  # MiB, of the whole campaign
MANIFESTS = [
    path.read_bytes()
    for path in sorted((Path(__file__).parents[1] / "samples" / "manifests").glob("*/*.toml"))
]
PTX = b"""//
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 add_param_0, .param .align 8 .b8 add_param_1[16], .param .f32 alpha)
.maxntid 256, 1, 1
{
  .reg .b64 %rd<4>; /* none */
  ld.param.u64 %rd1, [add_param_0];
  ret;
}
"""


def read_manifest(data: bytes) -> None:
    languages = {"tile": (".py",), "cuda": (".cu",)}
    load_text(
        data.decode("utf-8", "replace"),
        Path("/project/tilec.toml"),
        languages=languages,
        shown="tilec.toml",
    )


def inspect(name: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        file = Prebuilt(path=name, kind=kind_of(name, data), data=data, digest=sha256(data))
        opener = Opener(ToolSearch())
        declared(file, members((file,), opener), opener)

    return read


def read_tuning(data: bytes) -> None:
    read_record(data, "tuning/gemm.json")


KINDS: dict[str, tuple[Callable[[random.Random], bytes], Callable[[bytes], None], int, int]] = {
    "bits of bundles": (
        lambda chance: flipped(packed(index_values()), chance),
        launch_same,
        60,
        25_000,
    ),
    "indexes": (lambda chance: packed(changed(index_values(), chance)), launch_faithful, 80, 6_000),
    "bits of manifests": (
        lambda chance: flipped(chance.choice(MANIFESTS), chance),
        read_manifest,
        60,
        10_000,
    ),
    "bits of cubins": (
        lambda chance: flipped(build_cubin(), chance),
        inspect("a.cubin"),
        150,
        40_000,
    ),
    "bits of PTX": (lambda chance: flipped(PTX, chance), inspect("a.ptx"), 150, 40_000),
    "bits of tuning files": (
        lambda chance: flipped(TUNING_FILE.encode(), chance),
        read_tuning,
        100,
        10_000,
    ),
    "values of tuning files": (
        lambda chance: json.dumps(changed(json.loads(TUNING_FILE), chance)).encode(
            "utf-8", "surrogatepass"
        ),
        read_tuning,
        100,
        10_000,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_an_error_of_tilecs_own(campaign: Campaign, kind: str) -> None:
    mutant, attempt, short, long = KINDS[kind]
    watch = Watch(SECONDS)
    for seed in range(campaign.rounds(short, long)):
        watch.attack(attempt, mutant(random.Random(seed)), f"{kind}, seed {seed}")
    figures = watch.figures()
    assert watch.refused > watch.taken / 100
    assert float(str(figures["grown_mib"])) < GROWTH
    campaign.record(**figures)


def test_inspect_shows_or_refuses_changed_indexes(
    campaign: Campaign, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a report makes of strange numbers and texts ends in a report or an error, and never
    drives the terminal.
    """
    plain, refused = index_values(), 0
    rounds = campaign.rounds(20, 1_000)
    for seed in range(rounds):
        path = tmp_path / "a.tilec"
        path.write_bytes(packed(changed(plain, random.Random(seed))))
        code = run(
            [
                "inspect",
                str(path),
                *random.Random(seed).choice(((), ("--json",), ("--safety",), ("--verify",))),
            ],
            {},
            tmp_path,
        )
        shown = capsys.readouterr()
        assert code in (0, 1), (seed, shown.err)
        assert "this is a bug in tilec" not in shown.err, (seed, shown.err)
        assert printable(shown.out + shown.err) == shown.out + shown.err, seed
        refused += code
    campaign.record(inputs=rounds, refused=refused)
