"""What HTML pages have in common: one file, whose values are escaped where they stand, and in which
nothing foreign runs or styles.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from tilec.package.render import templates

if TYPE_CHECKING:
    from jinja2 import Environment


def page_environment(name: str) -> Environment:
    """What fills in a page of a directory of templates. What makers of kernels wrote is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(templates(name))
    return Environment(
        loader=loader,
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page_style(name: str) -> str:
    """The style of a page of a directory of templates, behind what all pages have in common."""
    return "".join(
        (templates(folder) / file).read_text(encoding="utf-8")
        for folder, file in (("pages", "base.css"), (name, "report.css"))
    )


def page_policy(style: str, script: str = "") -> str:
    """Nothing but these very texts may style or run: what slipped through as markup would do
    nothing.
    """
    allowed = f"style-src {_hash(style)}" + (f"; script-src {_hash(script)}" if script else "")
    return f"default-src 'none'; {allowed}; img-src data:; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
