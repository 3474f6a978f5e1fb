"""Ids of jobs, by which the files of single images are named."""

from __future__ import annotations

from tests.unit.plan.test_plan import cuda_kernel
from tilec.model.job import Job, Variant
from tilec.plan.checks import check_names
from tilec_runtime.model.arch import Target


def test_ids_that_are_too_long_for_a_file_are_refused() -> None:
    def told(length: int) -> list[tuple[str, tuple[str | int, ...]]]:
        variant = Variant(
            kernel="scale", id="scale-" + "N" * (length - len("scale-") - len("-sm_90")), axes=()
        )
        job = Job(spec=None, variant=variant, target=Target.parse("sm_90"))  # type: ignore[arg-type]
        found: list[tuple[str, tuple[str | int, ...]]] = []
        check_names(cuda_kernel(), [job], lambda what, path, column=0: found.append((what, path)))
        return found

    assert told(240) == []
    ((what, path),) = told(241)
    assert what.startswith(
        "a job's id has 241 characters, the most is 240: files are named by it (scale-NNN"
    )
    assert path == ("kernel", "scale", "matrix")
