"""A mypy plugin that accepts annotations such as `tl.Mut[T, (BM, BN)]` as types.

Enable it in mypy's configuration: `plugins = ["tilec.mypy"]`.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import AnalyzeTypeContext, Plugin
from mypy.types import Type

# Classes whose brackets hold compile-time facts (dtype, tile) that mypy can ignore.
_CLASSES = frozenset(
    {
        "tilec.lang.arrays.Mut",
        "tilec.lang.arrays.Ref",
        "tilec.lang.arrays.Ptr",
        "tilec.lang.mapped.MappedMut",
        "tilec.lang.span.SpanMut",
    }
)


class KernelTypes(Plugin):
    """Makes annotation classes of kernel parameters types, and ignores their brackets."""

    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        """Return the hook for one of the classes, or None for other names."""
        if fullname not in _CLASSES:
            return None
        return lambda context: context.api.named_type(fullname, [])


def plugin(version: str) -> type[Plugin]:
    """Return the plugin class, for any version of mypy."""
    del version
    return KernelTypes
