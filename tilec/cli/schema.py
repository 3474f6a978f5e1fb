"""`tilec schema`: print the JSON Schema of tilec.toml."""

from __future__ import annotations

import json

import click

from tilec.cli.app import examples


@click.command(
    short_help="Print the JSON Schema of tilec.toml.",
    epilog=examples(
        "tilec schema > tilec.schema.json      # then, as the first line of tilec.toml: #:schema ./tilec.schema.json",
        "tilec schema | jq '.properties | keys'",
    ),
)
def command() -> None:
    """Print the JSON Schema of tilec.toml.

    Editors with TOML support read it for completion and checking. `tilec check` knows more than a
    schema can say.
    """
    from tilec.manifest.keys import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
