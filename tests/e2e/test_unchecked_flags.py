"""Compiler flags that tilec does not know: refused at their place, or let through with everything
that this costs.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.harness import HEAD, TWICE, Cli, environment, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain]


def test_a_flag_is_refused_at_its_place(cli: Cli, tmp_path: Path) -> None:
    general = '[frontend.cuda]\nflags = ["--fmad=false", "-ccbin=/tmp/x"]\n'
    root = write(
        tmp_path,
        HEAD
        + general
        + TWICE.replace("params", 'define = { X = "$(id)" }\ncompiler = "nvcc"\nparams'),
    )
    done = cli(root, "build")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "tilec.toml:11:26: error: frontend.cuda: flags: '-ccbin=/tmp/x' runs a program that it names, which no cache key covers\n"
        '    flags = ["--fmad=false", "-ccbin=/tmp/x"]\n'
        "                             ^\n"
        "  hint: leave it out; the host compiler is the gcc of PATH\n"
        "error: 1 problem in the manifest and what it names\n"
    )
    assert not (root / "dist").exists()
    manifest = (root / "tilec.toml").read_text().replace(', "-ccbin=/tmp/x"', "")
    (root / "tilec.toml").write_text(manifest)
    done = cli(root, "check")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "tilec.toml:15:12: error: kernel.twice: define: the value of X has '$', which nvcc hands to a shell: '$(id)'\n"
        '    define = { X = "$(id)" }\n'
        "               ^\n"
        '  hint: define the macro in a header, or take compiler = "nvrtc"\n'
        "error: 1 problem in the manifest and what it names\n"
    )


def test_unchecked_flags_keep_images_out_of_the_cache(tmp_path: Path) -> None:
    """Each build compiles it, nothing of it is kept, and its images say so."""
    flags = 'unchecked-flags = true\nflags = ["--split-compile=1"]\nparams'
    other = TWICE.replace("kernel.twice", "kernel.other").replace(
        '"k/twice.cu"', '"k/twice.cu:twice"'
    )
    root = write(tmp_path / "project", HEAD + TWICE.replace("params", flags) + other)
    cache = tmp_path / "cache"
    cli = Cli(environment(cache))
    assert cli.good(root, "build").jobs == {"twice-sm_90", "other-sm_90"}
    again = cli.good(root, "build")
    assert again.jobs == {"twice-sm_90"}
    assert (
        "note: twice-sm_90: not reproducible, so another build may give other bytes: unchecked-flags is on\n"
        in again.err
    )
    assert len([path for path in cache.glob("v*/images/*/*") if path.is_file()]) == 1
    shown = cli.good(root, "inspect", "dist/acme-1.0.0.tilec")
    assert shown.out.count("not reproducible: another build may give other bytes") == 1
    told = json.loads(cli.good(root, "inspect", "dist/acme-1.0.0.tilec", "--json").out)
    images = {
        kernel["name"]: kernel["variants"][0]["images"][0]["reproducible"]
        for kernel in told["kernels"]
    }
    assert images == {"twice": False, "other": True}
