from __future__ import annotations

from tests.page_samples import PTX
from tilec.inspection.lines import ptx_listing, tileir_listing
from tilec_runtime.cpu.tileir.ir import Loc

INLINED = """\
.entry k()
{
\t.loc 1 10 5
\t.loc 2 18 9, function_name $L__info_string0, inlined_at 1 14 5
\tmov.u32 %r1, %tid.x;
\t.loc 2 20 13, function_name $L__info_string0, inlined_at 1 14 5
\t.loc 2 7 32, function_name $L__info_string1, inlined_at 2 20 13
\tmov.u32 %r2, %r1;
\t.loc 2 0 9
\tmov.u32 %r3, %r1;
\t.loc 3 1 1
\tmov.u32 %r4, %r1;
}
.func f()
{
\tret;
}
\t.file 1 "a.cu"
\t.file\t2 "b.cuh", 1234, 99
"""


def test_ptx_is_shown_without_what_debuggers_read() -> None:
    found = ptx_listing(PTX)
    at = dict(zip(found.lines, found.places, strict=True))
    assert at["\tmul.f32 %f2, %f1, 0f40000000;"] == (("scale.cu", 3),)
    assert at["\tret;"] == (("scale.cu", 4),)
    assert at["\t.reg .b32 %r<4>;"] == at["}"] == ()
    assert not any(".loc" in line or "debug" in line or ".b8" in line for line in found.lines)
    assert found.lines[-1] == '\t.file 1 "scale.cu"'


def test_ptx_of_inlined_calls() -> None:
    found = ptx_listing(INLINED)
    at = dict(zip(found.lines, found.places, strict=True))
    assert at["\tmov.u32 %r1, %tid.x;"] == (("b.cuh", 18), ("a.cu", 14))
    assert at["\tmov.u32 %r2, %r1;"] == (("b.cuh", 7), ("b.cuh", 20), ("a.cu", 14))
    assert at["\tmov.u32 %r3, %r1;"] == ()  # of no line
    assert at["\tmov.u32 %r4, %r1;"] == ()  # of a file that has no name
    assert at["\tret;"] == ()  # of another function than the last `.loc`


def test_ptx_whose_calls_go_in_circles_has_an_end() -> None:
    rows = (
        ".loc 1 1 1, function_name a, inlined_at 1 2 1",
        ".loc 1 2 1, function_name a, inlined_at 1 1 1",
        "ret;",
        '.file 1 "a"',
    )
    text = "\n".join((".entry k()", "{", *rows, "}"))
    assert 0 < len(ptx_listing(text).places[2]) < 100


def test_tile_ir(monkeypatch) -> None:
    rows = [
        ("entry @k() {", Loc("k.py", 2, 0)),
        ("  %1 = iota", Loc("lib.py", 9, 4, Loc("k.py", 3, 0))),
        ("}", None),
    ]
    monkeypatch.setattr("tilec.inspection.lines.located", lambda module: iter(rows))
    found = tileir_listing(None)  # type: ignore[arg-type]
    assert found.lines == ("entry @k() {", "  %1 = iota", "}")
    assert found.places == ((("k.py", 2),), (("lib.py", 9), ("k.py", 3)), ())
