"""`tilec targets`: show the targets of builds; and the option `--targets`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from tilec.cli.app import App, F, examples, json_option, split_words
from tilec.cli.complete import completes, targets_of

NATIVE = "native"


def targets_option(help: str, *, build: bool = True) -> Callable[[F], F]:  # noqa: A002 - click's
    """Declare `--targets`.

    `native` is this machine's GPU. Builds also read TILEC_TARGETS.
    """

    def read(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
        words = split_words(ctx, param, values)
        return named_targets(words or ctx.ensure_object(App).settings.targets if build else words)

    return click.option(
        "--targets",
        multiple=True,
        callback=read,
        metavar="LIST",
        shell_complete=completes(targets_of),
        help=help,
    )


def named_targets(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of targets, with the target of this machine's GPU for `native`.

    Raises:
        NoDeviceError: there is no GPU.
    """
    if NATIVE not in words:
        return words
    from tilec.cli.devices import find_gpu

    fix = "name the GPU's target, such as --targets sm_90; `tilec targets` lists them"
    major, minor = find_gpu("cuda:0", f"the target {NATIVE}", fix)[1].cc
    native = f"sm_{major}{minor}"
    return tuple(dict.fromkeys(native if word == NATIVE else word for word in words))


@click.command(
    epilog=examples(
        "tilec targets",
        "tilec build --targets sm_90,tileir",
        "tilec build --targets native        # the GPU of this machine",
        "TILEC_TARGETS=native tilec build",
    ),
)
@json_option
@click.pass_obj
def command(app: App) -> None:
    """List the architectures and forms of code that --targets and [targets] accept, and the targets
    of a manifest that names none.
    """
    from tilec.cli.style import style
    from tilec.manifest.types import DEFAULT_TARGETS
    from tilec_runtime.model.arch import ARCHS

    default = [str(target) for target in DEFAULT_TARGETS]
    rows = []
    for (major, minor), arch in ARCHS.items():
        number = f"{major}{minor}"
        names = [f"{kind}_{number}" for kind in ("sm", "compute", "lto")]
        forms = [f"sm_{number}{end}" for end, isa in (("f", arch.ptx_f), ("a", arch.ptx_a)) if isa]
        chosen = [name for name in names if name in default]
        rows.append((f"sm_{number}", arch.gpus, ", ".join(chosen), ", ".join(forms)))
    if app.json:
        architectures = [
            {"target": name, "gpus": gpus, "default": chosen, "forms": forms}
            for name, gpus, chosen, forms in rows
        ]
        app.document("targets", {"default": default, "architectures": architectures})
        return
    app.table(("target", "~GPUs", "by default", "specific"), rows)
    app.say("")
    app.say("sm_NN is machine code, compute_NN is PTX, lto_NN is LTO-IR, with the same numbers.")
    app.say("tileir is portable Tile IR of tile kernels, which the cpu device runs too.")
    app.say(
        "native is the GPU of this machine. sm_NNf is one family; sm_NNa is one chip with all its features."
    )
    app.say(f"{style('default', bold=True)}: {', '.join(default)}")
