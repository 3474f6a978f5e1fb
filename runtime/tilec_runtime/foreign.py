"""Text from other sources, made safe for a terminal.

Sources are bundles, manifests, compilers and file names.
"""

from __future__ import annotations

__all__ = ["CONTROLS", "is_one_line", "printable"]

# Characters that control a terminal: C0 without tab and newline, DEL, C1; line separators; and
# characters that change the direction of text.
CONTROLS = (
    *range(9),
    *range(0xB, 0x20),
    *range(0x7F, 0xA0),
    0x61C,
    0x200E,
    0x200F,
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
)
_ESCAPES = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in CONTROLS}


def printable(text: str) -> str:
    """Escape control characters as `repr` does.

    Newlines and tabs stay; CR LF becomes a newline.
    """
    return text if text.isprintable() else text.replace("\r\n", "\n").translate(_ESCAPES)


def is_one_line(text: str) -> bool:
    """Whether a text is one line without control characters and tabs."""
    return text.isprintable() or ("\n" not in text and "\t" not in text and printable(text) == text)
