"""The options of the cuda frontend: what is taken, what is refused and why."""

from __future__ import annotations

import re

import pytest

from tilec.frontends.tools.cpp.flags import OptionError
from tilec.frontends.tools.cpp.options import read_options
from tilec.model.job import Option


def test_arguments_in_order() -> None:
    options = read_options(
        (
            ("define", (("A", "1"), ("B", ""))),
            ("flags", ("--use_fast_math",)),
            ("include", ("include", "third party")),
            ("std", "c++20"),
        )
    )
    assert options.arguments() == [
        "-std=c++20",
        "-Iinclude",
        "-Ithird party",
        "-DA=1",
        "-DB",
        "--use_fast_math",
    ]


@pytest.mark.parametrize("value", ["$(touch x)", "`touch x`", "a\\b"])
def test_nvcc_gets_no_text_that_a_shell_expands(value: str) -> None:
    options: dict[str, Option] = {"define": (("GOOD", "1"), ("BAD", value))}
    assert read_options(tuple(options.items())).define[1] == ("BAD", value)  # NVRTC runs in process
    with pytest.raises(OptionError) as caught:
        read_options((*options.items(), ("compiler", "nvcc")))
    assert caught.value.path == ("define", "BAD")
    shown = re.search(r"[$`\\]", value)
    assert shown is not None
    assert str(caught.value) == (
        f"define: the value of BAD has {shown[0]!r}, which nvcc hands to a shell: {value!r}\n"
        '  fix: define the macro in a header, or take compiler = "nvrtc"'
    )
    for folder in (f"inc{value}", "a,b", 'a"b'):
        with pytest.raises(
            OptionError, match=r"nvcc hands to a shell or takes for two names"
        ) as caught:
            read_options((("compiler", "nvcc"), ("include", ("inc", folder))))
        assert caught.value.path == ("include", 1)


def test_a_comma_in_a_macro_defines_no_other() -> None:
    options: tuple[tuple[str, Option], ...] = (("define", (("A", "1,B=2"), ("C", '"x,y",z'))),)
    assert read_options(options).arguments()[1:] == ["-DA=1,B=2", '-DC="x,y",z']
    nvcc = read_options((("compiler", "nvcc"), *options))
    assert nvcc.arguments()[1:] == ["-DA=1\\,B=2", '-DC="x,y"\\,z']
