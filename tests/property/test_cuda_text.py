"""Reading CUDA C++ text never fails on what it does not understand, and never misses a plain
include.
"""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tilec.frontends.tools.cpp.diagnostics import read_log
from tilec.frontends.tools.cpp.includes import includes
from tilec.frontends.tools.cpp.parse import find_kernels
from tilec.frontends.tools.cpp.tokens import lex
from tilec.model.cpp import cut
from tilec_runtime.errors import CompileError, Location

PIECES = st.sampled_from(
    [
        *(
            "__global__",
            "void",
            "k",
            "(",
            ")",
            "{",
            "}",
            "<",
            ">",
            ",",
            ";",
            "*",
            "&",
            "const",
            "float",
            "int",
            "template",
            "typename T",
            "namespace n",
        ),
        *(
            "=",
            "::",
            "[",
            "]",
            "[[",
            "]]",
            "__launch_bounds__(",
            "#if 0\n",
            "#else\n",
            "#endif\n",
            "#define A B A\n",
            "A",
            "//",
            "/*",
            "*/",
            '"',
            "'",
        ),
        *(
            'R"(',
            ')"',
            "\\\n",
            "\n",
            " ",
            "1'000",
            "using X =",
            "typedef",
            "extern",
            '"C"',
            "#include",
            "<a.h>",
            "__has_include(",
        ),
    ]
)
TEXTS = st.one_of(
    st.text(max_size=80),
    st.lists(PIECES, max_size=40).map(" ".join),
    st.lists(PIECES, max_size=40).map("".join),
)


@examples(300)
@given(TEXTS)
def test_any_text_is_read(text: str) -> None:
    lex(text)
    list(includes(text))
    cut(text)
    with contextlib.suppress(CompileError):
        for found in find_kernels("__global__ " + text, "k.cu"):
            assert found.location.line >= 1


@examples(150)
@given(TEXTS)
def test_places_of_tokens_are_right(text: str) -> None:
    lines = text.split("\n")
    for token in lex(text).comments:
        assert lines[token.line - 1][token.column - 1 :].startswith(token.text.split("\n")[0])


NAMES = st.from_regex(r"[a-z][a-z0-9_/]{0,8}\.h", fullmatch=True)
FILLERS = st.sampled_from(
    [
        "\n",
        "int a;\n",
        "// c\n",
        "/* c\n c */\n",
        '#define S "x"\n',
        "#if X\n",
        "#endif\n",
        'auto r = R"d(\n#include "no"\n)d";\n',
    ]
)


@examples(200)
@given(
    st.lists(
        st.tuples(
            FILLERS,
            NAMES,
            st.sampled_from(
                [
                    '#include "{}"\n',
                    "#include <{}>\n",
                    "  # include <{}> // why\n",
                    '#include \\\n "{}"\n',
                ]
            ),
        )
    )
)
def test_no_plain_include_is_missed(parts: list[tuple[str, str, str]]) -> None:
    text = "".join(filler + form.format(name) for filler, name, form in parts)
    assert [i.name for i in includes(text) if not i.macro] == [name for _, name, _ in parts]


@examples(200)
@given(
    st.one_of(
        st.text(max_size=200),
        st.lists(
            st.sampled_from(
                [
                    "k.cu(3): error: x\n",
                    "  a\n",
                    "  ^\n",
                    "\n",
                    "ptxas fatal : y\n",
                    "a:1:2: error: z\n",
                ]
            )
        ).map("".join),
    )
)
def test_any_log_is_read(log: str) -> None:
    for diagnostic in read_log(
        log, "/nowhere", toolkit="/cuda", fallback=Location(file="k.cu", line=1, column=1)
    ).diagnostics:
        assert diagnostic.location is not None
        diagnostic.render()
