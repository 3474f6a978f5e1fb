"""Keys: stable, sensitive to everything that a compile depends on and to nothing else, and
explained by the rows that are hashed.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from typing import Any

import pytest

from tilec.compile import keys
from tilec.compile.keys import EXEMPT, Change, KeyMaker, declaration_key, explain_change, recall
from tilec.model.alike import Alike
from tilec.model.declaration import AxisUse, KernelDecl, ParamDecl
from tilec.model.job import InputFile, Job, KernelSpec, Member, Source, Variant
from tilec_runtime.errors import Diagnostic, Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.kernel import ToolInfo
from tilec_runtime.model.safety import Checks, Safety
from tilec_runtime.model.signature import AbiSlot, Assumption, Param, ParamKind

TOOL = ToolInfo(name="nvrtc", version="13.4.92", digest="aa" * 32)
INPUT = InputFile(name="kernels/add.cu", digest="bb" * 32)
HEADER = InputFile(name="include/common.h", digest="cc" * 32)
PLACE = Location(file="kernels/add.cu", line=4, column=17)
DECL = KernelDecl(
    name="add",
    qualified="ns::add",
    location=PLACE,
    doc="Adds.",
    params=(
        ParamDecl(name="x", type="const T*", kind="tensor", dtype="T", out=False, location=PLACE),
    ),
    template=("T",),
    max_threads=256,
    cluster=(2, 1, 1),
)
SPEC = KernelSpec(
    name="add",
    language="cuda",
    source=Source(
        root="/home/one/project",
        path="kernels/add.cu",
        options=(("define", (("N", "1"),)), ("std", "c++17")),
    ),
    decl=DECL,
    symbol="add<{T}>",
    params=(Param(name="x", kind=ParamKind.TENSOR, dtype="T", rank=1, doc="what is added"),),
    abi=(AbiSlot(type="ptr", expr="x.ptr", size=8, align=8),),
    cluster=(2, 1, 1),
    max_isa=(8, 0),
)
VARIANT = Variant(
    kernel="add",
    id="add-f16",
    axes=(("T", "f16"), ("N", 4)),
    assume=(Assumption(param="x", shape=(16,), align=16),),
)
GROUP = (
    Member(symbol="add<{T}>", axes=VARIANT.axes),
    Member(symbol="add<{T}>", axes=(("T", "f32"), ("N", 4))),
)
JOB = Job(
    spec=SPEC,
    variant=VARIANT,
    target=Target.parse("sm_90a"),
    hints=(("occupancy", 2),),
    group=GROUP,
)


def maker(*, inputs: Any = (INPUT, HEADER)) -> KeyMaker:
    return KeyMaker(tools={"cuda": (TOOL,)}, inputs={"add": inputs, "sub": inputs})


def key_of(job: Job) -> str:
    return maker().key(job)


# Another value for every field below a job; a field that is in neither table makes the test below
# fail.
CHANGED: dict[type, dict[str, Any]] = {
    Source: {"path": "kernels/other.cu", "options": (("std", "c++20"),)},
    KernelSpec: {
        "name": "sub",
        "source": dataclasses.replace(SPEC.source, path="x.cu"),
        "decl": dataclasses.replace(DECL, max_threads=128),
        "symbol": "add<float>",
        "params": (dataclasses.replace(SPEC.params[0], rank=2),),
        "abi": (),
        "cluster": (),
        "cooperative": True,
        "opt": 0,
        "lineinfo": True,
        "debug": True,
        "bounds": True,
        "max_isa": None,
        "language": "tile",
        "checks": Checks.OFF,
    },
    KernelDecl: {
        "name": "other",
        "qualified": "add",
        "params": (),
        "template": (),
        "max_threads": 0,
        "cluster": (),
        "captures": (ParamDecl(name="factor", kind="scalar"),),
    },
    ParamDecl: {
        "name": "y",
        "type": "T*",
        "kind": "scalar",
        "dtype": "f32",
        "out": None,
        "size": 4,
        "default": 1,
        "rank": 2,
    },
    Param: {
        "name": "y",
        "kind": ParamKind.PTR,
        "dtype": "f32",
        "rank": 2,
        "out": True,
        "stride": (None,),
        "shape_divisible": (16,),
        "stride_divisible": (16,),
        "align": 16,
        "default": 1.0,
        "size": 8,
    },
    AbiSlot: {"type": "i64", "expr": "x.size", "size": 4, "align": 4},
    Variant: {
        "kernel": "sub",
        "id": "add-f32",
        "axes": (("N", 4), ("T", "f16")),
        "assume": (),
        "let": (("WIDE", 8),),
    },
    Assumption: {
        "param": "y",
        "shape": (),
        "stride": (16,),
        "align": 1,
        "extent": (4,),
        "contiguous": True,
        "absent": True,
    },
    Job: {
        "target": Target.parse("sm_90"),
        "hints": (),
        "spec": dataclasses.replace(SPEC, opt=1),
        "variant": dataclasses.replace(VARIANT, id="z"),
        "group": (Member(symbol="add<{T}>", axes=(("T", "f16"),)),),
    },
    Member: {"symbol": "mul<{T}>", "axes": (("T", 1),)},
}
HARMLESS: dict[type, dict[str, Any]] = {
    Source: {"root": "/somewhere/else"},
    KernelSpec: {"timeout": 1.0},
    KernelDecl: {
        "location": Location(file="/abs/add.cu", line=9),
        "doc": "Adds two arrays.",
        "together": 16,
        "axes": (AxisUse(name="T", dtype=True, where="x: tl.Ref[T, 1]"),),
        "grid": ("1",),
        "grid_free": True,
        "requires": ("x.size > 0",),
        "alike": (Alike(one=("x", 0), other=("z", 0)),),
        "safety": Safety(),
        "unproven": (Diagnostic(message="checked"),),
        "unfollowed": (("x", "k.py:9: x.load_tile"),),
        "refused": (Diagnostic(message="cannot be compiled"),),
        "named": False,
        "simt": True,
        "block": (128, 1, 1),
        "kinds": ("cubin",),
        "typed": True,
        "note": "compiled with nvcc",
        "configs": ((("BLOCK", 64),),),
    },
    ParamDecl: {
        "location": None,
        "read": True,
        "reads": ("n",),
        "formula": "n // 2",
        "address": True,
    },
    Param: {"doc": "another text", "optional": True},
}


def with_field(kind: type, name: str, value: Any) -> Job:
    """JOB with a field of its parts of one kind replaced."""
    return changed(JOB, kind, {name: value})  # type: ignore[no-any-return]


def changed(part: Any, kind: type, change: dict[str, Any]) -> Any:
    if type(part) is kind:
        return dataclasses.replace(part, **change)
    if isinstance(part, tuple):
        return tuple(changed(each, kind, change) for each in part)
    if type(part) in CHANGED:
        inner = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
        return dataclasses.replace(
            part, **{key: changed(each, kind, change) for key, each in inner.items()}
        )
    return part


def reachable(kind: Any, found: set[type]) -> set[type]:
    """Every dataclass that values of `kind` may hold."""
    if (
        dataclasses.is_dataclass(kind)
        and isinstance(kind, type)
        and kind not in found
        and kind not in (Target, Location)
    ):
        found.add(kind)
        for name, hint in typing.get_type_hints(kind).items():
            if name not in EXEMPT.get(kind, ()):
                reachable(hint, found)
    for part in typing.get_args(kind):
        reachable(part, found)
    return found


def test_every_field_below_a_job_is_in_the_key_or_exempt() -> None:
    kinds = reachable(Job, set())
    assert kinds == set(CHANGED)
    for kind in kinds:
        names = {field.name for field in dataclasses.fields(kind)}
        assert names == set(CHANGED[kind]) | set(HARMLESS.get(kind, ())), (
            f"{kind.__name__}: say here whether the new field changes keys"
        )
        assert set(HARMLESS.get(kind, ())) == EXEMPT.get(kind, frozenset()), kind


def all_changes(table: dict[type, dict[str, Any]]) -> list[Any]:
    return [
        pytest.param(kind, name, value, id=f"{kind.__name__}.{name}")
        for kind, row in table.items()
        for name, value in row.items()
    ]


@pytest.mark.parametrize(("kind", "name", "value"), all_changes(CHANGED))
def test_a_changed_field_changes_the_key_and_is_explained(
    kind: type, name: str, value: Any
) -> None:
    other = with_field(kind, name, value)
    tools = {"cuda": (TOOL,), "tile": (TOOL,)}
    both = KeyMaker(tools=tools, inputs={"add": (INPUT, HEADER), "sub": (INPUT, HEADER)})
    assert both.key(other) != key_of(JOB)
    assert (
        explain_change(both.explain(JOB), both.explain(other)) or name == "axes"
    )  # the order of axes counts too


@pytest.mark.parametrize(("kind", "name", "value"), all_changes(HARMLESS))
def test_a_harmless_field_changes_nothing(kind: type, name: str, value: Any) -> None:
    other = with_field(kind, name, value)
    assert key_of(other) == key_of(JOB)
    assert maker().explain(other) == maker().explain(JOB)


def test_values_that_print_alike_have_different_keys() -> None:
    points = [
        1,
        1.0,
        True,
        "1",
        "true",
        0,
        -0.0,
        0.0,
        False,
        "",
        float("inf"),
        float("nan"),
        "inf",
        "\ud800",
        "1:1",
    ]
    found = {key_of(with_field(Variant, "axes", (("N", point),))) for point in points}
    assert len(found) == len(points)
    options = [
        (),
        (("a", ""),),
        (("a", "b"),),
        (("a", ("b",)),),
        (("a", (("b", "c"),)),),
        (("a", ("b", "c")),),
        (("a b", ""),),
        (("a", 1), ("b", 1)),
    ]
    assert len({key_of(with_field(Source, "options", option)) for option in options}) == len(
        options
    )


def test_explain_names_changed_inputs() -> None:
    old = maker().explain(JOB)
    new = maker(inputs=(INPUT, dataclasses.replace(HEADER, name="include/new.h"))).explain(
        with_field(Job, "hints", (("occupancy", 4),))
    )
    assert explain_change(old, new) == (
        Change(label="input include/new.h", before=None, after="cc" * 32),
        Change(label="hint occupancy", before="2", after="4"),
        Change(label="input include/common.h", before="cc" * 32, after=None),
    )
    assert explain_change(old, old) == ()


def test_a_snapshot_remembers_every_job_and_shares_what_is_equal() -> None:
    jobs = [
        Job(
            spec=SPEC,
            variant=dataclasses.replace(VARIANT, id=f"add-{n}", axes=(("N", n),)),
            target=Target.parse(target),
        )
        for n in range(20)
        for target in ("sm_80", "sm_90")
    ]
    one = maker()
    snapshot = json.loads(json.dumps(one.snapshot(jobs)))
    for job in jobs:
        assert recall(snapshot, job.id) == one.explain(job)
    assert len(snapshot["parts"]) == 1 + 20 + 2  # the kernel, the variants, the targets


def test_declaration_keys_follow_source_files_and_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    source = SPEC.source
    base = declaration_key("cuda", source, inputs=(INPUT,), tools=(TOOL,))
    assert (
        declaration_key(
            "cuda", dataclasses.replace(source, root="/else"), inputs=(INPUT,), tools=(TOOL,)
        )
        == base
    )
    others = [
        declaration_key("tile", source, inputs=(INPUT,), tools=(TOOL,)),
        declaration_key(
            "cuda", dataclasses.replace(source, path="b.cu"), inputs=(INPUT,), tools=(TOOL,)
        ),
        declaration_key(
            "cuda", dataclasses.replace(source, options=()), inputs=(INPUT,), tools=(TOOL,)
        ),
        declaration_key("cuda", source, inputs=(HEADER,), tools=(TOOL,)),
        declaration_key("cuda", source, inputs=(INPUT,), tools=()),
    ]
    monkeypatch.setattr(keys, "RECIPE", keys.RECIPE + 1)
    others.append(declaration_key("cuda", source, inputs=(INPUT,), tools=(TOOL,)))
    assert len({base, *others}) == 7
