"""`tilec schema`: print the JSON Schema of tilec.toml."""

from __future__ import annotations

import json

import click

from tilec.cli.app import examples


@click.command(
    epilog=examples(
        "tilec schema > tilec.schema.json",
        "tilec schema | jq '.properties | keys'",
    ),
)
def command() -> None:
    """Print the JSON Schema of tilec.toml.

    Editors with TOML support use it for completion and checks: write `#:schema
    ./tilec.schema.json` as the first line of tilec.toml. `tilec check` finds problems that a
    schema cannot describe.
    """
    from tilec.manifest.keys import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
