"""The options of the cuda frontend: what is taken, what is refused and why."""

from __future__ import annotations

import re

import pytest

from tilec.errors import UsageError
from tilec.frontends._cuda_options import read_options
from tilec.model.job import Option


def test_defaults() -> None:
    options = read_options(())
    assert (options.compiler, options.std, options.arguments()) == ("nvrtc", "c++17", ["-std=c++17"])


def test_arguments_in_order() -> None:
    options = read_options(
        (("define", (("A", "1"), ("B", ""))), ("flags", ("--use_fast_math",)), ("include", ("include", "third party")), ("std", "c++20"))
    )
    assert options.arguments() == ["-std=c++20", "-Iinclude", "-Ithird party", "-DA=1", "-DB", "--use_fast_math"]


def test_flags_of_ptxas_are_taken_out() -> None:
    options = read_options((("flags", ("-maxrregcount=64", "--ptxas-options=-warn-spills,-O2", "-Xptxas", "-v", "--fmad=false")),))
    assert options.flags == ("--fmad=false",)
    assert options.ptxas == ("-maxrregcount", "64", "-warn-spills", "-O2", "-v")


@pytest.mark.parametrize(
    ("flag", "owner"),
    [
        ("-arch=sm_80", "the targets"),
        ("--gpu-architecture=sm_80", "the targets"),
        ("-gencode", "the targets"),
        ("-o", "where results go"),
        ("-ofile", "where results go"),
        ("-I/opt/include", "`include`"),
        ("-DX=1", "`define`"),
        ("-std=c++20", "`std`"),
        ("-lineinfo", "the profile's `lineinfo`"),
        ("-G", "the profile's `debug`"),
        ("--ptx", "the kind of output"),
        ("-rdc=true", "the kind of output"),
        ("--pch", "precompiled headers"),
    ],
)
def test_flags_that_tilec_sets_itself(flag: str, owner: str) -> None:
    with pytest.raises(UsageError, match="is not yours to set") as caught:
        read_options((("flags", (flag,)),))
    assert owner in caught.value.what


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("compiler", "clang", "one of nvrtc, nvcc"),
        ("std", "c++98", "one of c\\+\\+14"),
        ("include", ("/usr/include",), "relative to the project"),
        ("include", 3, "must be a list of texts"),
        ("define", (("A B", "1"),), "is no macro name"),
        ("define", (("A", "1\n2"),), "more than one line"),
        ("flags", ("-Xptxas",), "needs a value"),
        ("inlcude", ("x",), "known are compiler, std"),
    ],
)
def test_what_is_refused(key: str, value: Option, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_options(((key, value),))
    assert re.search(says, str(caught.value))
