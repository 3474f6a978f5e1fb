"""`tilec completion`: print a script that completes tilec's commands in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from tilec.cli.app import examples

ZSH = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"


@click.command(
    epilog=examples(
        'eval "$(tilec completion bash)"   # in ~/.bashrc',
        'eval "$(tilec completion zsh)"    # in ~/.zshrc',
        "tilec completion fish > ~/.config/fish/completions/tilec.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands and options in a shell: bash 4.4 or later, zsh, or
    fish.
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}", ctx)
    # Not `source()`, which runs bash to find its version, and warns.
    script = kind(ctx.find_root().command, {}, "tilec", "_TILEC_COMPLETE")
    text = script.source_template % script.source_vars()
    if shell == "zsh":
        # Without compinit in .zshrc, compdef does not exist and completion would not work.
        text = text.replace("#compdef tilec\n", f"#compdef tilec\n\n{ZSH}\n", 1)
    click.echo(text)
