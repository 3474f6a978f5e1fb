"""LLVM modules made into one: numbers, units, and what several of them have."""

from __future__ import annotations

from tilec.frontends.simt.merged import merged

FIRST = """\
; ModuleID = "one"
target triple = "nvptx64-nvidia-cuda"
@"text" = internal constant [3 x i8] c"!4\\00"
define void @"k"(i32 %"a") !dbg !3
{
entry:
  %"x" = call i32 @"f"(i32 %"a"), !dbg !4
  ret void
}

declare i32 @"f"(i32 %"a")
declare void @"llvm.dbg.value"(metadata %".1")
!nvvmir.version = !{ !0 }
!llvm.dbg.cu = !{ !2 }
!nvvm.annotations = !{ !5 }
!0 = !{ i32 2, i32 0, i32 3, i32 2 }
!1 = !DIFile(directory: "/p", filename: "a.py")
!2 = distinct !DICompileUnit(file: !1)
!3 = distinct !DISubprogram(name: "k", unit: !2)
!4 = !DILocation(line: 1, scope: !3)
!5 = !{ void (i32)* @"k", !"kernel", i32 1 }
"""
SECOND = """\
; ModuleID = "two"
target triple = "nvptx64-nvidia-cuda"
@"text" = internal constant [4 x i8] c"two\\00"
define linkonce_odr i32 @"f"(i32 %"a") !dbg !2
{
entry:
  %"t" = load i8, i8* @"text", !dbg !3
  ret i32 %"a"
}
define linkonce_odr i32 @"g"(i32 %"a")
{
  ret i32 1
}
declare void @"llvm.dbg.value"(metadata %".1")
!nvvmir.version = !{ !4 }
!llvm.dbg.cu = !{ !1 }
!nvvm.annotations = !{ !5 }
!0 = !DIFile(directory: "/p", filename: "b!1.py")
!1 = distinct !DICompileUnit(file: !0)
!2 = distinct !DISubprogram(name: "f", unit: !1)
!3 = !DILocation(line: 9, scope: !2)
!4 = !{ i32 2, i32 0, i32 3, i32 2 }
!5 = !{ i32 (i32)* @"f", !"maxntid", i32 64 }
"""
THIRD = """\
define linkonce_odr i32 @"g"(i32 %"a")
{
  ret i32 2
}
"""
MERGED = """\
; ModuleID = "one"
target triple = "nvptx64-nvidia-cuda"
declare void @"llvm.dbg.value"(metadata %".1")
@"text" = internal constant [3 x i8] c"!4\\00"
define void @"k"(i32 %"a") !dbg !3
{
entry:
  %"x" = call i32 @"f"(i32 %"a"), !dbg !4
  ret void
}
@"text.1" = internal constant [4 x i8] c"two\\00"
define linkonce_odr i32 @"f"(i32 %"a") !dbg !8
{
entry:
  %"t" = load i8, i8* @"text.1", !dbg !9
  ret i32 %"a"
}
define linkonce_odr i32 @"g"(i32 %"a")
{
  ret i32 1
}
!nvvmir.version = !{ !0 }
!llvm.dbg.cu = !{ !2 }
!nvvm.annotations = !{ !5, !11 }
!0 = !{ i32 2, i32 0, i32 3, i32 2 }
!1 = !DIFile(directory: "/p", filename: "a.py")
!2 = distinct !DICompileUnit(file: !1)
!3 = distinct !DISubprogram(name: "k", unit: !2)
!4 = !DILocation(line: 1, scope: !3)
!5 = !{ void (i32)* @"k", !"kernel", i32 1 }
!6 = !DIFile(directory: "/p", filename: "b!1.py")
!8 = distinct !DISubprogram(name: "f", unit: !2)
!9 = !DILocation(line: 9, scope: !8)
!10 = !{ i32 2, i32 0, i32 3, i32 2 }
!11 = !{ i32 (i32)* @"f", !"maxntid", i32 64 }
"""


def test_one_unit_and_each_thing_once() -> None:
    assert merged([FIRST, SECOND, THIRD]) == MERGED


def test_one_module_keeps_what_it_has() -> None:
    assert sorted(merged([FIRST]).splitlines()) == sorted(line for line in FIRST.splitlines() if line)
