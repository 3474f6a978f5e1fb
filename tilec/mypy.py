"""A plugin for mypy: `tl.Mut[T, (BM, BN)]` and its kin are types. In its configuration: `plugins =
["tilec.mypy"]`.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import AnalyzeTypeContext, Plugin
from mypy.types import Type

# What stands in brackets says what a kernel is compiled for; a type checker needs to know nothing
# of it.
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
    """Takes the classes that kernels' parameters are annotated with as they are, whatever is in
    their brackets.
    """

    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        """What makes a type of one of the classes; None leaves a name to mypy."""
        if fullname not in _CLASSES:
            return None
        return lambda context: context.api.named_type(fullname, [])


def plugin(version: str) -> type[Plugin]:
    """The plugin, for any version of mypy."""
    del version
    return KernelTypes
