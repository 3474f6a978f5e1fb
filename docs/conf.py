"""Settings of the documentation's site (Sphinx, MyST, Furo) and what they add to it."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from docutils.nodes import Element
from sphinx.addnodes import desc_signature
from sphinx.application import Sphinx

import tilec
from tilec.cli.main import cli

ROOT = Path(__file__).resolve().parent.parent

project = "tilec"
author = "The tilec authors"
version = release = tilec.__version__
copyright = "The tilec authors. Apache-2.0"  # noqa: A001 - Sphinx reads this name

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
suppress_warnings = ["misc.highlighting_failure"]  # PTX that its lexer does not know

# Pages
myst_heading_anchors = 4  # the anchors that GitHub makes
myst_enable_extensions = ["attrs_block"]
highlight_language = "text"
copybutton_prompt_text = "$ "  # of a console block, only the commands are copied

# Looks
html_theme = "furo"
html_title = f"tilec {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
toc_object_entries_show_parents = "hide"

# API reference
default_role = "py:obj"  # docstrings quote code in single backticks: names of the API become links
nitpick_ignore_regex = [("py:.*", "(?s).*")]  # other code in backticks, and types without a page
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 80
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]  # a list, not one entry for each

# A block that a page writes to a file, as the tests of the pages read it.
_FILE = re.compile(r"^(?:`([^`\n]+)`:\n\n)?<!-- (file|append): (.+?) -->\n```(\w+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\(([^()\s#:]+)(#[^()\s]*)?\)")


def _source_url(path: Path) -> str:
    """Return the address of a repository file on GitHub, or '' outside of a workflow."""
    if "GITHUB_REPOSITORY" not in os.environ:
        return ""
    server, name, commit = (
        os.environ[f"GITHUB_{key}"] for key in ("SERVER_URL", "REPOSITORY", "SHA")
    )
    view = "tree" if path.is_dir() else "blob"
    return f"{server}/{name}/{view}/{commit}/{path.relative_to(ROOT).as_posix()}"


def _name_files(app: Sphinx, docname: str, source: list[str]) -> None:  # noqa: ARG001
    """Give each block that belongs to a file the file's name as its caption."""

    def captioned(match: re.Match[str]) -> str:
        before, directive, name, language = match.groups()
        caption = f"`{name}`" if directive == "file" else f"add to `{name}`"
        other = f"`{before}`:\n\n" if before not in (None, name) else ""
        return f"{other}```{{code-block}} {language}\n:caption: {caption}\n"

    source[0] = _FILE.sub(captioned, source[0])


def _link_sources(app: Sphinx, docname: str, source: list[str]) -> None:
    """Point relative links that leave docs/ at the repository, or name the file without a link."""
    home = (app.srcdir / docname).parent

    def replace(match: re.Match[str]) -> str:
        text, target, anchor = match.groups(default="")
        path = (home / target).resolve()
        if not path.exists() or path.is_relative_to(app.srcdir):
            return match[0]
        name = path.relative_to(ROOT).as_posix()
        if url := _source_url(path):
            return f'<a href="{url}{anchor}">{text}</a>'
        return f"`{name}`" if text in (name, path.name) else f"{text} (`{name}`)"

    source[0] = _LINK.sub(replace, source[0])


def _add_commands(app: Sphinx, docname: str, source: list[str]) -> None:  # noqa: ARG001
    """Fill the page of the commands."""
    if docname == "reference/commands":
        context = click.Context(cli, info_name="tilec")
        source[0] += "\n".join(_command(context, 2))


def _command(context: click.Context, level: int) -> Iterator[str]:
    """Yield the Markdown of a command and of the commands in it."""
    command = context.command
    yield f"\n{'#' * level} {context.command_path}\n"
    yield _quoted(inspect.cleandoc(command.help or command.short_help or "")) + "\n"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```\n"
    options = [param for param in command.params if isinstance(param, click.Option)]
    rows = [record for option in options if (record := option.get_help_record(context))]
    if rows:
        yield "{.options}\n| option | meaning |\n|---|---|"
        yield from (f"| `{_cell(names)}` | {_cell(_quoted(text))} |" for names, text in rows)
    yield from _epilog(command.epilog or "")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            below = click.Context(child, parent=context, info_name=name)
            yield from _command(below, level + 1)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def _quoted(text: str) -> str:
    """Put the options that a help text names in backticks."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"(?<![\w-])--?[a-z][\w-]*", r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)


def _epilog(text: str) -> Iterator[str]:
    """Yield a command's examples as a block, and the rest."""
    for part in inspect.cleandoc(text).split("\n\n"):
        if part.startswith("\b"):
            yield f"\n```bash\n{inspect.cleandoc(part.split('Examples:')[1])}\n```"
        else:
            yield f"\n{_quoted(part)}"


def _hide_constructor(
    app: Sphinx,  # noqa: ARG001
    what: str,
    name: str,  # noqa: ARG001
    obj: Any,
    options: Any,  # noqa: ARG001
    signature: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    """Hide a constructor that callers do not use.

    A function makes the class, tilec raises it, or its parameters are private.
    """
    raised = what == "exception" and "__init__" not in vars(obj)
    made = what == "class" and _maker(obj)
    private = what == "class" and (signature or "").startswith("(_")
    return ("", None) if raised or made or private else (signature, returned)


def _name_maker(
    app: Sphinx,  # noqa: ARG001
    what: str,
    name: str,  # noqa: ARG001
    obj: Any,
    options: Any,  # noqa: ARG001
    lines: list[str],
) -> None:
    """Add the function that makes the class to its docstring."""
    if what == "class" and (maker := _maker(obj)):
        lines += ["", maker]


def _maker(cls: Any) -> str:
    """Return the docstring of a constructor that names the functions to use instead, or ''."""
    text = inspect.cleandoc(getattr(cls.__init__, "__doc__", None) or "").partition("\n\n")[0]
    return text.replace("Use ", "Made by ", 1) if text.startswith("Use `") else ""


def _drop_repeated(app: Sphinx, domain: str, objtype: str, content: Element) -> None:  # noqa: ARG001
    """Remove overloads that read alike: they differ in the type of `self` alone."""
    shown = set()
    for signature in list(content.parent.children):
        if isinstance(signature, desc_signature):
            if signature.astext() in shown:
                content.parent.remove(signature)
            shown.add(signature.astext())


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("source-read", _name_files)
    app.connect("source-read", _link_sources)
    app.connect("source-read", _add_commands)
    app.connect("autodoc-process-signature", _hide_constructor)
    app.connect("autodoc-process-docstring", _name_maker)
    app.connect("object-description-transform", _drop_repeated)
