"""PTX text: versions, lowering, marks, file names, what ptxas says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilec.frontends.tools import ptx
from tilec.frontends.tools.cpp.nvcc import _without_path_hash
from tilec.frontends.tools.ptxas import spills


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
