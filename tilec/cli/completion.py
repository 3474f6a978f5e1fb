"""`tilec completion`: the script that teaches a shell tilec's commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from tilec.cli.app import examples

ZSH = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }"


@click.command(
    short_help="Print a shell completion script.",
    epilog=examples(
        'eval "$(tilec completion bash)"   # in ~/.bashrc',
        'eval "$(tilec completion zsh)"    # in ~/.zshrc',
        "tilec completion fish > ~/.config/fish/completions/tilec.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that completes tilec's commands and options in a shell (bash 4.4 or later,
    zsh, fish).
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}", ctx)
    # bash's generator runs bash to learn its version and warns by itself; the script does not
    # depend on it.
    script = kind(ctx.find_root().command, {}, "tilec", "_TILEC_COMPLETE")
    text = script.source_template % script.source_vars()
    if shell == "zsh":
        # A .zshrc that does not begin with compinit has no compdef yet; without it nothing is
        # completed, and nothing says why.
        text = text.replace("#compdef tilec\n", f"#compdef tilec\n\n{ZSH}\n", 1)
    click.echo(text)
