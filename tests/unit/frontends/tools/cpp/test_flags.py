"""Compiler flags of the manifest: which are taken, which are refused and why."""

from __future__ import annotations

import pytest

from tilec.frontends.tools.cpp.flags import KNOWN, OptionError, read_flags

RUNS = "runs a program that it names, which no cache key covers"
PASSES = "hands options on to another program, where tilec cannot look at them, which no cache key covers"
WRITES = "writes files, which no cache key covers"
READS = "reads files that it names, which no cache key covers"
DECIDES = "is not yours to set: tilec decides "

REFUSED = {
    "-ccbin=/tmp/evil": RUNS,
    "--compiler-bindir": RUNS,
    "-B/tmp/evil": RUNS,
    "-run": RUNS,
    "-Xcompiler=-wrapper,/tmp/evil": PASSES,
    "-Xcompiler": PASSES,
    "--forward-unknown-to-host-compiler": PASSES,
    "-Xnvlink=-v": PASSES,
    "-Xtileiras=-o=x": PASSES,
    "-fdevice-time-trace=/abs": WRITES,
    "--fdevice-time-trace=/abs": WRITES,
    "-MF=/abs": WRITES,
    "-MD": WRITES,
    "-keep": WRITES,
    "--keep-dir=/abs": WRITES,
    "-time=/abs": WRITES,
    "-save-temps": WRITES,
    "-optf=/etc/flags": READS,
    "--options-file": READS,
    "@/etc/flags": READS,
    "-L/usr/lib": READS,
    "-lcuda": READS,
    "-idp=/abs": READS,
    "-arch=sm_80": DECIDES + "the targets",
    "--gpu-architecture=sm_80": DECIDES + "the targets",
    "-gencode": DECIDES + "the targets",
    "-o": DECIDES + "where results go",
    "-ofile": DECIDES + "where results go",
    "-I/opt/include": DECIDES + "`include`",
    "-include=/etc/passwd": DECIDES + "`include`",
    "-DX=1": DECIDES + "`define`",
    "-std=c++20": DECIDES + "`std`",
    "-lineinfo": DECIDES + "the profile's `lineinfo`",
    "-G": DECIDES + "the profile's `debug`",
    "--ptx": DECIDES + "the kind of output",
    "-rdc=true": DECIDES + "the kind of output",
    "-dryrun": DECIDES + "the kind of output",
    "--pch": DECIDES + "precompiled headers",
    "-frandom-seed=1": DECIDES + "the seed of local names",
}


@pytest.mark.parametrize("flag", REFUSED)
def test_refuses_flags_with_other_effects(flag: str) -> None:
    """Whatever the compiler, and though flags that tilec does not know are let through."""
    for compiler in ("nvrtc", "nvcc"):
        for unchecked in (False, True):
            with pytest.raises(OptionError) as caught:
                read_flags(["--fmad=false", flag], compiler=compiler, unchecked=unchecked)
            assert caught.value.what == f"flags: {flag!r} {REFUSED[flag]}"
            assert caught.value.path == ("flags", 1)
            assert caught.value.fix.startswith(("take it out", "leave it out"))


@pytest.mark.parametrize(
    "value",
    [
        "-o=/abs",
        "-o,/abs",
        "--output-file=/abs",
        "--options-file=/abs",
        "-optf,/abs",
        "-v,-o,/abs",
        "-ias=x",
    ],
)
def test_refuses_such_flags_of_ptxas(value: str) -> None:
    for flags in ([f"-Xptxas={value}"], ["--ptxas-options", value]):
        with pytest.raises(
            OptionError, match=r"where results go|reads files that it names"
        ) as caught:
            read_flags(flags, compiler="nvrtc", unchecked=True)
        assert caught.value.path == ("flags", 0)


STRANGE = "is no flag of {} that tilec knows: it may read or write files that no cache key covers"
UNKNOWN = "  fix: correct it; a flag of a newer toolkit needs unchecked-flags = true beside `flags`, and its kernels are then never cached"


@pytest.mark.parametrize(
    ("flags", "compiler", "text"),
    [
        (
            ["--use_fast_maths"],
            "nvrtc",
            f"flags: '--use_fast_maths' {STRANGE.format('nvrtc')}; did you mean '--use_fast_math'\n{UNKNOWN}",
        ),
        (
            ["-Xptxas=--zzz"],
            "nvcc",
            f"flags: '--zzz' {STRANGE.format('ptxas')}\n{UNKNOWN}",
        ),
        (
            ["other.cu"],
            "nvcc",
            f"flags: 'other.cu' {STRANGE.format('nvcc')}\n{UNKNOWN}",
        ),
    ],
)
def test_a_flag_that_is_not_known(flags: list[str], compiler: str, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_flags(flags, compiler=compiler)
    assert str(caught.value) == text
    let_through = read_flags(flags, compiler=compiler, unchecked=True)
    assert (*let_through[0], *let_through[1]) == (flags[0].removeprefix("-Xptxas="),)


@pytest.mark.parametrize(
    ("flags", "compiler", "text"),
    [
        (
            ["--extended-lambda"],
            "nvrtc",
            "flags: '--extended-lambda' is a flag of nvcc, and these are for nvrtc\n  fix: take it out, or say compiler = \"nvcc\"",
        ),
        (
            ["-dlcm=ca"],
            "nvcc",
            "flags: '-dlcm=ca' is a flag of ptxas, and these are for nvcc\n  fix: write \"-Xptxas=-dlcm=ca\"",
        ),
        (
            ["-Xptxas=-ftz=true"],
            "nvrtc",
            "flags: '-ftz=true' is a flag of nvrtc, and these are for ptxas\n  fix: write it without -Xptxas",
        ),
        (
            ["--ftz=yes"],
            "nvrtc",
            "flags: --ftz takes true or false, not 'yes'\n  fix: correct its value",
        ),
        (
            ["--restrict=1"],
            "nvrtc",
            "flags: --restrict takes no value, not '1'\n  fix: correct its value",
        ),
        (
            ["-Ofast"],
            "nvcc",
            "flags: -O takes a number from 0 to 3, not 'fast'\n  fix: correct its value",
        ),
        (
            ["-U=A -o x"],
            "nvcc",
            "flags: -U takes a macro's name, not 'A -o x'\n  fix: correct its value",
        ),
        (
            ["--fmad"],
            "nvcc",
            "flags: '--fmad' needs a value: true or false\n  fix: write \"--fmad=…\"",
        ),
    ],
)
def test_a_flag_that_is_off(flags: list[str], compiler: str, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_flags(flags, compiler=compiler)
    assert str(caught.value) == text


def test_values_are_joined_to_their_flags() -> None:
    read = read_flags(["--fmad", "false", "-U", "A", "-O", "2", "-UB", "-O3"], compiler="nvcc")
    assert read[0] == ("--fmad=false", "-UA", "-O2", "-UB", "-O3")
    read = read_flags(["-Xptxas", "-dlcm,ca,-O2", "-maxrregcount", "32"], compiler="nvrtc")
    assert read[1] == ("-dlcm=ca", "-O2", "-maxrregcount", "32")


def test_no_known_flag_takes_a_path() -> None:
    """Values are of closed kinds: none can name a file, or hold another option."""
    for tool, name in KNOWN:
        through, compiler = ("-Xptxas=", "nvcc") if tool == "ptxas" else ("", tool)
        for value in ("/abs", "a.txt", "x -o y", "x,/abs", "true --o"):
            with pytest.raises(OptionError):
                read_flags([f"{through}{name}={value}"], compiler=compiler)


@pytest.mark.parametrize(
    "flag", [" -fdevice-time-trace=/abs", "\t-include=/abs", "-lineinfo ", "-Xptxas= -o"]
)
def test_refuses_white_space_around_a_flag(flag: str) -> None:
    """NVRTC passes over it: it would hide the flag."""
    with pytest.raises(
        OptionError, match="begins or ends with white space, which some tools pass over"
    ):
        read_flags([flag], compiler="nvrtc", unchecked=True)
