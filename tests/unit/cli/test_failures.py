from __future__ import annotations

import click
import pytest

from tilec.cli import failures
from tilec_runtime.errors import (
    BuildError,
    CompileError,
    Diagnostic,
    Location,
    TilecError,
    ToolchainError,
)


def text(exc: TilecError, **kwargs: object) -> str:
    return click.unstyle(failures.render(exc, **kwargs))  # type: ignore[arg-type]


UNDEFINED = Diagnostic(
    message='identifier "foo" is undefined',
    location=Location(file="kernels/gemm.cu", line=12, column=5),
    excerpt="    foo(x);",
    hint="include the header that declares it",
)


def failed(
    target: str, variant: str = "gemm-f16", *, kept: bool = True, **more: object
) -> CompileError:
    kwargs: dict[str, object] = {"diagnostics": (UNDEFINED,), "log": "words", **more}
    error = CompileError(
        f"{variant}-{target} does not compile", kernel=variant, target=target, **kwargs
    )  # type: ignore[arg-type]
    error.kept = f"/p/.tilec/failed/{variant}-{target}" if kept else ""
    return error


def test_the_same_error_of_many_jobs_is_shown_once() -> None:
    targets = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "compute_80")
    exc = BuildError(tuple(failed(target) for target in targets), total=10)
    assert text(exc, command="build", show=lambda path: str(path).removeprefix("/p/")) == (
        'kernels/gemm.cu:12:5: error: identifier "foo" is undefined\n'
        "        foo(x);\n"
        "        ^\n"
        "  hint: include the header that declares it\n"
        "  in 8 jobs: gemm-f16-sm_80, gemm-f16-sm_86, gemm-f16-sm_89, gemm-f16-sm_90, gemm-f16-sm_100, gemm-f16-sm_103 and 2 more\n"
        "  input, command and full log kept in .tilec/failed/gemm-f16-sm_80 (and 7 more)\n"
        "\n"
        "error: 8 of 10 jobs failed; nothing was written, earlier outputs are unchanged"
    )
    assert "gemm-f16-compute_80" in text(exc, verbose=True)


def test_an_error_without_places_shows_the_end_of_the_compilers_log() -> None:
    log = "\n".join(f"line {i}" for i in range(40))
    shown = text(
        BuildError(
            (
                failed(
                    "sm_80",
                    diagnostics=(),
                    log=log,
                    kept=False,
                    cause="it crashed",
                    fix="report it",
                ),
            ),
            total=1,
        )
    )
    assert shown.split("\n\n")[0] == "\n".join(
        [
            "error: gemm-f16-sm_80 does not compile",
            "    | … 28 lines before these (--verbose shows them)",
            *(f"    | line {i}" for i in range(28, 40)),
            "  cause: it crashed",
            "  fix: report it",
            "  in job gemm-f16-sm_80",
        ]
    )


def test_one_mistake_in_several_places_is_told_once() -> None:
    at = (Location(file=f"{name}.cu", line=3, column=9) for name in "abc")
    missing = [Diagnostic(message='cannot open "near.cuh"', location=place) for place in at]
    exc = BuildError(
        tuple(failed(f"sm_{i}", diagnostics=(d,), kept=False) for i, d in enumerate(missing)),
        total=3,
    )
    shown = text(exc)
    assert shown.count("cannot open") == 1
    assert "  2 more of this: b.cu:3, c.cu:3\n  in 3 jobs: " in shown
    (body,) = failures.as_json(exc)["failures"]
    assert [place["file"] for place in body["places"]] == ["b.cu", "c.cu"]


def test_json_of_a_failed_build() -> None:
    exc = BuildError(
        (failed("sm_80"), failed("sm_90"), ToolchainError("no ptxas", fix="install it")), total=3
    )
    body = failures.as_json(exc)
    assert (body["type"], body["what"], body["total"]) == ("BuildError", "3 of 3 jobs failed", 3)
    first, second = body["failures"]
    assert first["jobs"] == ["gemm-f16-sm_80", "gemm-f16-sm_90"]
    assert first["kept"] == ["/p/.tilec/failed/gemm-f16-sm_80", "/p/.tilec/failed/gemm-f16-sm_90"]
    assert first["diagnostics"] == [
        {
            "severity": "error",
            "message": 'identifier "foo" is undefined',
            "location": {"file": "kernels/gemm.cu", "line": 12, "column": 5},
            "excerpt": "    foo(x);",
            "hint": "include the header that declares it",
        }
    ]
    assert second == {
        "type": "ToolchainError",
        "what": "no ptxas",
        "fix": "install it",
        "jobs": [],
        "kept": [],
    }


@pytest.mark.parametrize(
    "words",
    [("run",), ("bench",), ("sanitize",), ("profile", "scale/some"), ("debug", "scale/some")],
)
def test_a_bundle_without_a_name_is_refused_by_all_that_take_one(
    cli, words: tuple[str, ...]
) -> None:
    done = cli(*words, "--bundle", "")
    assert done.code == 2
    assert "Invalid value for '--bundle': the value is empty" in done.err
