"""PTX text: versions, lowering, marks, file names, what ptxas says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilec.frontends.tools import ptx
from tilec.frontends.tools.cpp.nvcc import _without_path_hash
from tilec.frontends.tools.ptxas import spills

TEXT = """//
.version 9.4
.target sm_80
.address_size 64

\t.file\t1 "/home/me/p/k/./a.cu"
\t.file\t2 "/opt/cuda/bin/../include/cuda_fp16.h"
"""


def test_versions() -> None:
    assert ptx.isa(TEXT) == (9, 4)
    lowered = ptx.with_isa(TEXT, (8, 0))
    assert ptx.isa(lowered) == (8, 0)
    assert lowered.replace("8.0", "9.4") == TEXT
    with pytest.raises(ValueError, match=r"no \.version"):
        ptx.isa("// nothing")


def test_what_ptxas_asks_for() -> None:
    log = (
        "ptxas k.ptx, line 9; error   : Feature 'fence.proxy' requires PTX ISA .version 8.3 or later\n"
        "ptxas k.ptx, line 12; error   : Feature '.sync_restrict' requires PTX ISA .version 8.6 or later\n"
    )
    assert ptx.needed_isa(log) == (8, 6)
    assert ptx.needed_isa("nothing") is None
    assert ptx.complaints(log)[0] == (
        "Feature 'fence.proxy' requires PTX ISA .version 8.3 or later",
        9,
    )


def test_parameters_of_an_entry() -> None:
    text = """.visible .entry _Z1k(
\t.param .u64 .ptr .align 1 _Z1k_param_0,
\t.param .u64 .ptr .global .align 16 _Z1k_param_1,
\t.param .align 64 .b8 _Z1k_param_2[128],
\t.param .u8 _Z1k_param_3,
\t.param .align 2 .b8 _Z1k_param_4[2]
)
.maxntid 256
{ ret; }
.visible .entry _Z4nonev() { ret; }
"""
    sizes = ((8, 8), (8, 8), (128, 64), (1, 1), (2, 2))
    assert ptx.entry_params(text, "_Z1k") == sizes
    assert ptx.entry_params(text, "_Z4nonev") == ()
    assert ptx.entry_params(text, "_Z") is None


def test_a_mark_is_read_and_taken_out() -> None:
    text = ".visible .entry _Z1kPf(\n)\n.global .align 8 .u64 tilec_entry = _Z1kPf;\n.visible .func f\n"
    assert ptx.take_mark(text, "tilec_entry") == (
        "_Z1kPf",
        ".visible .entry _Z1kPf(\n)\n.visible .func f\n",
    )
    assert ptx.take_mark("nothing\n", "tilec_entry") == ("", "nothing\n")


def test_file_names_lose_their_directories() -> None:
    text = ptx.relative_files(
        TEXT + '\t.file 3 "/usr/include/stdio.h"\n',
        (("/home/me/p", ""), ("/opt/cuda/include", "<cuda>")),
    )
    assert '"k/a.cu"' in text
    assert '"<cuda>/cuda_fp16.h"' in text
    assert '"<system>/stdio.h"' in text
    assert "/home" not in text


def test_file_names_are_read_and_written_with_their_escapes() -> None:
    text = '\t.file\t1 "/home/mein \\303\\274\\"b\\\\c/k/\\303\\244 a.cu"\n'
    assert (
        ptx.relative_files(text, (('/home/mein ü"b\\c', ""),)) == '\t.file\t1 "k/\\303\\244 a.cu"\n'
    )


def test_names_of_what_is_local_to_a_file_lose_the_hash_of_its_path() -> None:
    def text(hash_: str) -> str:
        name = f"_ZN43_INTERNAL_{hash_}_14_tilec_entry_cu__Z1kPi1fEi"
        codes = [str(b) for b in name.encode()]
        return f".func {name}()\n.b8 {','.join(codes[:18])}\n.b8 {','.join(codes[18:])}\n"

    first, second = (_without_path_hash(text(h), "k/a.cu") for h in ("5225cf54", "ece9655d"))
    assert first == second
    assert first != _without_path_hash(text("5225cf54"), "k/b.cu")
    assert first.count("\n") == 3


def test_spills_of_an_entry_and_of_what_it_may_call() -> None:
    log = """ptxas info    : Compiling entry function '_Z1a' for 'sm_90'
ptxas info    : Function properties for _Z1a
ptxas         .     8 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Compiling entry function '_Z1b' for 'sm_90'
ptxas info    : Function properties for _Z1b
    0 bytes stack frame, 100 bytes spill stores, 100 bytes spill loads
ptxas info    : Function properties for _Z6calleev
    0 bytes stack frame, 16 bytes spill stores, 32 bytes spill loads
"""
    assert spills(log, "_Z1a") == (20, 40)
    assert spills(log, "_Z1c") is None


def test_spills_of_functions_that_several_entries_call() -> None:
    """Each entry's own count where ptxas tells of a function behind every entry that calls it, the
    one count where it tells once.
    """
    log = """ptxas info    : Compiling entry function '_Z1a' for 'sm_90'
ptxas info    : Function properties for _Z1a
    0 bytes stack frame, 1 bytes spill stores, 2 bytes spill loads
ptxas info    : Function properties for helper
    0 bytes stack frame, 10 bytes spill stores, 20 bytes spill loads
ptxas info    : Compiling entry function '_Z1b' for 'sm_90'
ptxas info    : Function properties for _Z1b
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for helper
    0 bytes stack frame, 30 bytes spill stores, 40 bytes spill loads
ptxas info    : Function properties for other
    0 bytes stack frame, 100 bytes spill stores, 100 bytes spill loads
"""
    assert spills(log, "_Z1a", {"helper"}) == (11, 22)
    assert spills(log, "_Z1b", {"helper", "other"}) == (130, 140)
    assert spills(log, "_Z1a", {"helper", "other"}) == (111, 122)
    assert spills(log, "_Z1b", set()) == (0, 0)
    assert spills(log, "_Z1a", None) == (111, 122)


def test_functions_that_an_entry_may_call() -> None:
    text = """.version 8.0
.func  (.param .b32 func_retval0) inner(
	.param .b32 inner_param_0
)
;
.func (.param .b32 func_retval0) outer
(
)
{
	call.uni (retval0),
	inner,
	(param0);
}
.func  (.param .b32 func_retval0) inner(
)
{
}
.func pointed()
{
	call (retval0), %rd5, (param0), prototype_0;
	prototype_0 : .callprototype (.param .b32 _) _ (.param .b32 _);
}
.visible .entry direct(
)
{
	call.uni outer, ();
}
.weak .entry none()
{
}
.entry through_a_pointer()
{
	call.uni pointed, ();
}
"""
    assert ptx.calls(text, "direct") == {"outer", "inner"}
    assert ptx.calls(text, "none") == set()
    assert ptx.calls(text, "through_a_pointer") is None
    assert ptx.calls(".visible .entry k()\n{\n}\n", "k") == set()


def test_a_text_keeps_the_entries_that_are_asked_for() -> None:
    text = """\
.version 9.4
.global .align 8 .u64 table[1] = {held};
.func shared();
.func shared()
{
	{ ret; } // }
}
.func alone()
{
	ret;
}
.func held()
{
	ret;
}
.visible .entry k(
	.param .u64 k_param_0
)
.maxntid 256, 1, 1
{
	call.uni shared, ();
}
.visible .entry other()
{
	call.uni shared, ();
	call.uni alone, ();
}
"""
    kept = ptx.only(text, ["k"])
    gone = text[text.index(".visible .entry other") :], text[text.index(".func alone") :][:23]
    assert kept == text.replace(gone[0], "").replace(gone[1], "") + "\n"
    assert ptx.only(kept, ["k"]) == kept
    assert ptx.only(text, ["k", "other"]) == text


def test_an_opcode_is_no_mention_of_an_entry_of_its_name() -> None:
    text = """\
.version 9.4
.visible .entry add()
{
	ret;
}
.func mul()
{
	ret;
}
.visible .entry k()
{
	add.s32 %r1, %r2, %r3;
	call.uni mul, ();
	mov.u64 %rd1, child;
	@%p1 mul.lo.s32 %r4, %r1, %r1;
}
.entry child()
{
	ret;
}
"""
    kept = ptx.only(text, ["k"])
    assert ptx.entries(kept) == ["k", "child"]
    assert ptx.calls(kept, "k") == {"mul", "child"}


def test_variables_that_kernels_of_other_images_have_copies_of() -> None:
    text = """\
.version 9.4
.visible .global .align 4 .u32 counter;
.visible .global .align 4 .u32 begun = 3;
.visible .global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.global .align 4 .b8 alone[8];
.global .align 1 .b8 $str[4];
.func reads()
{
	mov.u64 %rd1, counter;
}
.visible .entry reset()
{
	st.global.u32 [begun], %r1;
	mov.u64 %rd2, table;
	mov.u64 %rd3, $str;
	call.uni reads, ();
}
.visible .entry count()
{
	atom.global.add.u32 %r1, [counter], 1;
	ld.global.u32 %r2, [begun];
	mov.u64 %rd2, table;
	mov.u64 %rd3, $str;
	mov.u64 %rd4, alone;
}
"""
    assert ptx.apart(text, ["count"]) == {"counter": ["reset"], "begun": ["reset"]}
    assert ptx.apart(text, ["reset", "count"]) == {}


def test_names_do_not_depend_on_where_the_process_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A toolkit in a virtual environment below the working directory, which is where most have it."""
    monkeypatch.chdir(tmp_path)
    toolkit = tmp_path / ".venv" / "include"
    places = (("/project", ""), ("/proc/self/cwd", ""), (str(toolkit), "<cuda>"))
    assert ptx.relative(f"{toolkit}/cuda_fp16.hpp", places) == "<cuda>/cuda_fp16.hpp"
    assert ptx.relative("/proc/self/cwd/k/a.cu", places) == "k/a.cu"
