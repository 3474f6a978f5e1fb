"""Draws boxes, labels and arrows as SVG that is readable in light and dark mode."""

from __future__ import annotations

from html import escape
from pathlib import Path

SIZE = 14  # of a label, in px
_NARROW = frozenset(" ijlt.,:;'()[]|!")
_STYLE = """
svg { --paper: #ffffff; --ink: #1e293b; --soft: #64748b; --line: #94a3b8; --plain: #f8fafc;
  --blue: #dbeafe; --blue-line: #2563eb; --green: #dcfce7; --green-line: #16a34a;
  --amber: #fef3c7; --amber-line: #d97706; --red: #fee2e2; --red-line: #dc2626; }
@media (prefers-color-scheme: dark) {
  svg { --paper: #1c1f23; --ink: #e2e8f0; --soft: #a3adba; --line: #64748b; --plain: #262a30;
    --blue: #1e3a5f; --blue-line: #60a5fa; --green: #14432a; --green-line: #4ade80;
    --amber: #4a3310; --amber-line: #fbbf24; --red: #4c1d1d; --red-line: #f87171; }
}
text { font-family: ui-sans-serif, system-ui, "DejaVu Sans", sans-serif; fill: var(--ink); }
text.mono { font-family: ui-monospace, "DejaVu Sans Mono", monospace; }
text.soft { fill: var(--soft); }
text.head { font-weight: 600; }
.edge { stroke: var(--soft); stroke-width: 1.5; fill: none; }
.tip { fill: var(--soft); }
""".strip()
_COLOURS = ("plain", "blue", "green", "amber", "red")


class Drawing:
    """One picture. Its background is its own, so that it can be read on any page.

    Args:
        width: of the picture, in px. height: likewise. title: what a screen reader says.
    """

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        label: str,
        *,
        anchor: str = "start",
        style: str = "",
        size: int = SIZE,
    ) -> None:
        """Write a label; (x, y) is its baseline's start, middle or end.

        Raises:
            ValueError: it would leave the picture.
        """
        width = _width(label, style, size)
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        if left < 0 or left + width > self.width or not size <= y <= self.height:
            raise ValueError(f"{self.title}: {label!r} leaves the picture")
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"'
            f' class="{style}">{escape(label)}</text>'
        )

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *labels: str,
        colour: str = "plain",
        style: str = "",
        size: int = SIZE,
        dashed: bool = False,
    ) -> None:
        """Draw a box with centred lines of text.

        Raises:
            ValueError: a label is wider than the box, or the lines are higher.
        """
        assert colour in _COLOURS
        line = "--line" if colour == "plain" else f"--{colour}-line"
        fill = "none" if dashed else f"var(--{colour})"
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5"'
            f' style="fill: {fill}; stroke: var({line})" stroke-width="1.5"{dashes}/>'
        )
        step = size * 1.35
        if len(labels) * step > height:
            raise ValueError(f"{self.title}: {labels} are higher than their box")
        for number, label in enumerate(labels):
            if _width(label, style, size) > width - 6:
                raise ValueError(f"{self.title}: {label!r} is wider than its box")
            middle = y + height / 2 + (number - (len(labels) - 1) / 2) * step
            self.text(
                x + width / 2, middle + size * 0.35, label, anchor="middle", style=style, size=size
            )

    def frame(self, x: float, y: float, width: float, height: float, label: str) -> None:
        """Draw a dashed frame with a heading, around boxes that belong together."""
        self.box(x, y, width, height, dashed=True)
        self.text(x + 12, y + 22, label, style="head")

    def arrow(self, *points: tuple[float, float], label: str = "") -> None:
        """Draw an arrow along points; a label stands beside its first part."""
        path = " L".join(f"{x:g} {y:g}" for x, y in points)
        self._parts.append(f'<path d="M{path}" class="edge" marker-end="url(#tip)"/>')
        if label:
            (x, y), (to_x, to_y) = points[:2]
            if x == to_x:
                self.text(x + 8, (y + to_y) / 2 + 5, label, style="soft", size=13)
            else:
                self.text((x + to_x) / 2, y - 7, label, anchor="middle", style="soft", size=13)

    def save(self, path: Path) -> None:
        """Write the picture as an SVG file."""
        tip = (
            '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8"'
            ' markerHeight="8" orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z"'
            ' class="tip"/></marker></defs>'
        )
        size = f'width="{self.width}" height="{self.height}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"',
            f' viewBox="0 0 {self.width} {self.height}">',
            f"<title>{escape(self.title)}</title>",
            f"<style>{_STYLE}</style>",
            tip,
            '<rect width="100%" height="100%" rx="8" style="fill: var(--paper)"/>',
            *self._parts,
            "</svg>\n",
        ]
        path.write_text("\n".join(lines), encoding="utf-8")


def _width(label: str, style: str, size: int) -> float:
    """Return about the most that a label takes in the fonts of usual systems, in px."""
    narrow = 0.62 if "mono" in style else 0.4
    return size * sum(narrow if letter in _NARROW else 0.62 for letter in label)
