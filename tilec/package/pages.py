"""HTML pages: templates with escaped values, style, script and policy."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from tilec.package.render import environment, templates


def render_page(folder: str, **values: object) -> bytes:
    """Return the page of a directory of templates.

    The style is the shared one and the directory's. The page has the directory's script, if it has
    one. The Content-Security-Policy allows only these: scripts and styles of injected markup have
    no effect.

    Args:
        folder: name of the directory.
        values: values for the template.
    """
    own = templates(folder)
    style = _text(templates("pages") / "base.css") + _text(own / "report.css")
    allowed, script = f"style-src {_hash(style)}", ""
    if (own / "report.js").exists():
        script = _text(own / "report.js")
        allowed += f"; script-src {_hash(script)}"
    policy = f"default-src 'none'; {allowed}; img-src data:; base-uri 'none'; form-action 'none'"
    template = environment(folder, escape=True).get_template("report.html.jinja")
    text = template.render(style=style, script=script, policy=policy, **values)
    return text.encode("utf-8", "backslashreplace")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
