"""benchmarks/vendor_kernels.py: what it counts, chooses and records, without a GPU and without
torch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
try:
    import vendor_candidates as candidates
    import vendor_kernels as vendor
    import vendor_package as shipped
    import vendor_page as page
    import vendor_timing as timing
    from vendor_rows import ROWS
    from vendor_tasks import Task
finally:
    sys.path.pop(0)

PLAN = timing.Plan(sample=1e-3, choosing=3, rounds=9, most=27)


class Output:
    """As much of a tensor as is asked for."""

    def __init__(self, value):
        self.value = self.shape = value

    def float(self):
        return self

    def reshape(self, _):
        return self

    def __sub__(self, other):
        return Output(self.value - other.value)

    def norm(self):
        return self

    def clamp_min(self, least):
        return Output(max(self.value, least))

    def __truediv__(self, other):
        return self.value / other.value


class Clock:
    """Every run takes as long as it says."""

    def stream(self):
        return 0

    def once(self, run):
        run(0)

    def prepared(self, run, sets, sample):
        return lambda: run(0) * 10, 10


class Launcher:
    """As much of a launcher as is asked for: a function, and what is known of it."""

    def __init__(self, launch, **attributes):
        self.launch = launch
        vars(self).update(attributes)

    def __call__(self, *arguments, **axes):
        return self.launch(*arguments, **axes)


def kernels(seconds, wrong=()):
    """Kernels by name, whose variants take so many seconds; those of `wrong` write something else."""
    state = SimpleNamespace(found=None)

    def kernel(name):
        def launch(*_, **axes):
            size = axes["SIZE"]
            if size == 13:
                raise RuntimeError("unlucky\nand more")
            state.found = Output(2.0 if (name, size) in wrong else 1.0)
            return seconds[name][size]

        variants = [SimpleNamespace(axes=(("T", "f32"), ("SIZE", size))) for size in seconds[name]]
        return Launcher(
            launch, info=SimpleNamespace(variants=variants, params=[SimpleNamespace(dtype="T")])
        )

    return SimpleNamespace(kernels={name: kernel(name) for name in seconds}), state


def task(state, vendors):
    return Task(
        row="k",
        size="1",
        unit="TB/s",
        amount=1.0,
        sets=1,
        launches={"k": lambda i: ()},
        fits=lambda axes: axes["SIZE"] < 100,
        vendors=vendors,
        reset=lambda: None,
        found=lambda: [state.found],
        expected=lambda: [Output(1.0)],
    )


def refuses(_):
    raise ValueError("not this size")


def test_the_fastest_right_variant_is_held_against_the_fastest_vendor_and_its_twin():
    module, state = kernels(
        {"k": {1: 4.0, 2: 1.0, 3: 2.0, 13: 0.1, 500: 0.1}, "raw_k": {2: 0.99, 3: 5.0}},
        wrong={("k", 2)},
    )
    done = vendor.compared(
        task(
            state,
            {"slow": lambda i: 3.0, "fast": lambda i: 2.5, "copy": lambda i: 0.1, "none": refuses},
        ),
        module,
        Clock(),
        PLAN,
    )
    assert done["variant"] == "k[SIZE=3, T=f32]"
    assert done["against"] == {"name": "fast", "times": 1.25, "times_95": [1.25, 1.25]}
    assert done["against_raw"]["times"] == 2.5
    assert done["others"] == {"none": "ValueError: not this size"}
    assert {one["axes"]["SIZE"]: one.get("error") for one in done["candidates"]} == {
        1: None,
        2: "wrong: relative error 1, and 0.01 is allowed",
        3: None,
        13: "RuntimeError: unlucky",
    }


def test_not_a_number_is_never_right():
    assert not timing.relative_error(Output(float("nan")), Output(1.0)) <= 1e9


def test_every_row_has_its_candidates_and_every_kernel_its_row():
    needed = {name for row in ROWS for name in candidates.NEEDS.get(row, (row,))}
    assert needed == set(candidates.FAMILIES)
    with pytest.raises(SystemExit, match="no row 'gem': rows are add"):
        candidates.families("gem")


def test_the_page_shows_the_results_and_says_why_of_every_miss():
    found = json.loads(page.RESULT.read_text(encoding="utf-8"))
    text = page.PAGE.read_text(encoding="utf-8")
    for name, made in page.parts(found).items():
        assert page.filled(text, name, made) == text, "run benchmarks/vendor_page.py"
    assert [row for row in page.misses(found) if not page.reason(row)] == []
    assert {row["row"] for row in found["rows"]} == set(ROWS)
    assert page.written(found) == page.RESULT.read_text(encoding="utf-8")
    assert page.listing(found) == page.TABLE.read_text(encoding="utf-8")


def result(times, row="add", size="bf16 8", **more):
    against = {"name": "torch", "times": times, "times_95": [times - 0.01, times + 0.01]}
    vendors = {"torch": {"rate": 2.0}}
    return {
        "row": row,
        "size": size,
        "unit": "TB/s",
        "safe": {"rate": 2 * times},
        "variant": "v",
        "vendors": vendors,
        "against": against,
        **more,
    }


def test_a_row_reaches_what_its_interval_holds():
    assert [page.reached(result(times)) for times in (1.0, 0.991, 0.989)] == [
        "yes",
        "by its interval",
        "no",
    ]
    assert page.reached(result(0.5, "gemm", "2048 x 2048 x 2048")) == ""
    rows = [result(1.0), result(0.995), result(0.9), result(0.5, "gemm", "2048 x 2048 x 2048")]
    said = page.device(
        {"machine": {"gpu": "H200", "driver": "1", "torch": "2", "python": "3"}, "rows": rows}
    )
    assert said.endswith(
        "2 of 3 rows reach their aim: 1 by their median, 1 by their interval alone.\n"
    )
    lines = page.table({"rows": rows}).split("\n")
    assert [line.split(" | ")[6] for line in lines[2:5]] == ["yes", "by its interval", "no"]


def test_the_summary_has_the_ranges_of_each_kernel():
    twin = {"times": 1.001, "times_95": [1.0, 1.002]}
    rows = [result(1.0), result(1.5, "gemm"), result(2.0, size="f32 8", against_raw=twin)]
    assert page.summary({"rows": rows}).split("\n")[2:] == [
        "| add bf16, f32 | 2 | 2 to 4 TB/s | 1.000 to 2.000 | torch |",
        "| gemm bf16 | 1 | 3 TB/s | 1.500 | torch |",
        "",
        "Over the twins in cuda.tile: 1.001.",
        "",
    ]


def test_what_is_below_is_named_with_its_reason(monkeypatch):
    monkeypatch.setattr(page, "REASONS", (("attention", "x 128", "one block fits"),))
    rows = [
        result(0.95),
        result(0.995),
        result(0.78, "attention", "8 x 1024 x 128"),
        result(0.97, "gemm"),
    ]
    lines = page.missed({"rows": rows}).strip().split("\n")
    assert lines == [
        "- add, bf16 8: 0.950 [0.940, 0.960] of 1.00: .",
        "- attention, 8 x 1024 x 128: 0.780 [0.770, 0.790] of 0.80: one block fits.",
    ]
    assert page.missed({"rows": [result(1.0)]}) == "Nothing.\n"
    slower = page.missed(
        {"rows": [result(1.0, against_raw={"times": 0.98, "times_95": [0.97, 0.985]})]}
    )
    assert slower == "- add, bf16 8: 0.980 [0.970, 0.985] of its twin in cuda.tile: .\n"


def test_runs_are_put_together_without_what_lost():
    machine = {"gpu": "H200"}

    def run(*rows, of="package", causes=(), machine=machine):
        return {"machine": machine, "rows": list(rows), "of": of, "causes": list(causes)}

    first, again = result(0.9, candidates=[1]), result(1.1, others={})
    slow, fast = ({"cause": "pitch", "size": "1", "us": {"one": us}} for us in (2.0, 1.0))
    merged = page.merged([run(first, causes=[slow]), run(again, causes=[fast])])
    assert [row["against"]["times"] for row in merged["rows"]] == [1.1]
    assert not {"candidates", "others"} & set(merged["rows"][0])
    assert merged["causes"] == [fast]
    assert page.causes(merged) == "| pitch | one |\n|---|---|\n| 1 | 1.0 us |\n"
    assert json.loads(page.written(merged)) == json.loads(json.dumps(merged))
    with pytest.raises(SystemExit, match="different machines"):
        page.merged([run(), run(machine={})])
    with pytest.raises(SystemExit, match="measure with --package"):
        page.merged([run(of="candidates")])
    with pytest.raises(SystemExit, match="add 1: LookupError"):
        page.merged([run({"row": "add", "size": "1", "error": "LookupError: none"})])
    with pytest.raises(SystemExit, match="no marks of the part 'table'"):
        page.filled("a page", "table", "")


def packaged(seconds, chosen, wrong=False):
    """A package whose launchers take a variant by themselves, or the one that is asked for."""
    state = SimpleNamespace(found=None)

    def launcher(name):
        def variant(**asked):
            axes = {"T": "f32", **chosen[name], **asked}
            hints = (("sm_90", (("num_worker_warps", 8),)),)
            return SimpleNamespace(
                id=f"{name}-{axes['SIZE']}-whole", axes=tuple(axes.items()), hints=hints
            )

        def launch(*_, **asked):
            state.found = Output(2.0 if wrong else 1.0)
            return seconds[name][dict(variant(**asked).axes)["SIZE"]]

        return Launcher(
            launch, explain=lambda *_, **asked: SimpleNamespace(variant=variant(**asked))
        )

    return {name: launcher(name) for name in seconds}, state


def twins(name, *points):
    """Kernels in cuda.tile that take as many seconds as their size."""

    variants = [SimpleNamespace(axes=(("T", "f32"), *point.items())) for point in points]
    info = SimpleNamespace(variants=variants, params=[SimpleNamespace(dtype="T")])
    return SimpleNamespace(
        kernels={name: Launcher(lambda *_, **axes: float(axes["SIZE"]), info=info)}
    )


def test_the_package_is_measured_with_the_variant_that_it_chooses():
    package, state = packaged({"k": {1: 4.0, 2: 2.0}}, {"k": {"SIZE": 2}})
    same = {"SIZE": 2, "num_worker_warps": 8, "CHECK": False, "num_ctas": 1}
    others = (
        {**same, "SIZE": 1},
        {**same, "num_worker_warps": 4},
        {**same, "CHECK": True},
        {**same, "num_ctas": 2},
    )
    ways = {"torch": lambda i: 3.0, "copy": lambda i: 0.1}
    found = shipped.compared(
        task(state, ways), package, twins("raw_k", *others, same), Clock(), PLAN
    )
    assert found["variant"] == "k-2-whole"
    assert found["against"] == {"name": "torch", "times": 1.5, "times_95": [1.5, 1.5]}
    assert found["against_raw"]["times"] == 1.0
    assert found["safe"]["samples"] == PLAN.rounds
    assert "against_raw" not in shipped.compared(
        task(state, {}), package, twins("raw_k", *others), Clock(), PLAN
    )


def test_a_wrong_result_of_the_package_is_refused():
    package, state = packaged({"k": {2: 2.0}}, {"k": {"SIZE": 2}}, wrong=True)
    with pytest.raises(RuntimeError, match=r"wrong: relative error 1, and 0\.01 is allowed"):
        shipped.compared(task(state, {}), package, twins("raw_k"), Clock(), PLAN)
