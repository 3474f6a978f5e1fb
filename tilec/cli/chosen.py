"""The arguments that choose cases, and what they are run from: alike for every command that runs
some.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from tilec.cli.app import named
from tilec.cli.complete import (
    case_names,
    changeable,
    completes,
    completes_list,
    known_targets,
    project_cases,
    project_kernels,
)

F = TypeVar("F", bound=Callable[..., object])


def case_options(function: F) -> F:
    """`[KERNEL]...` (`kernels`), `-k` (`expression`), `--select` (`select`) and `--case` (`cases`)."""
    matching = completes(case_names)
    fitting = "Only cases whose names fit, such as 'gemm and not (f16 or BM256)'."
    for declare in (  # the first that is declared is shown last
        click.option(
            "--case",
            "cases",
            multiple=True,
            metavar="NAME",
            shell_complete=completes(project_cases),
            help="Only cases of this name.",
        ),
        click.option(
            "--select",
            multiple=True,
            metavar="GLOB",
            shell_complete=matching,
            help="Only cases whose name (gemm/4k[f16]) matches.",
        ),
        click.option(
            "-k", "expression", default="", metavar="EXPR", shell_complete=matching, help=fitting
        ),
        click.argument(
            "kernels", nargs=-1, metavar="[KERNEL]...", shell_complete=completes(project_kernels)
        ),
    ):
        function = declare(function)
    return function


def set_option(function: F) -> F:
    """`--set` (`settings`)."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        shell_complete=completes(changeable),
        help="Change an input or an axis: n=4096, x=[512,512], BM=64.",
    )(function)


def bundle_options(default: str) -> Callable[[F], F]:
    """`--bundle` (`bundle`) and `--targets` (`targets`); `default` says which targets are built for
    without it.
    """

    def declare(function: F) -> F:
        built = "What is built already: a bundle, a package, a wheel, or an installed package by its name."
        targets = click.option(
            "--targets",
            multiple=True,
            metavar="LIST",
            shell_complete=completes_list(known_targets),
            help=f"Targets to build for (default: {default}).",
        )
        return click.option(
            "--bundle", type=click.Path(), callback=named, metavar="FILE", help=built
        )(targets(function))

    return declare
