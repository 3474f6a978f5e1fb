"""Snippets of the documentation that need torch on a GPU, with kernels of the examples in the place
of the page's package.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

from tests.docs_pages import steps

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]


@pytest.fixture(autouse=True)
def demo(kernels: Any, package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's package: y = factor * x of torch tensors, as two halves of it are added."""

    def launch(y: Any, x: Any, *, factor: float, stream: Any = None) -> None:
        kernels.vector_add(y, x * (factor / 2), x * (factor / 2), stream=stream)

    def op(y: Any, x: Any, *, factor: float) -> Any:
        return package.ops.vector_add(y, x * (factor / 2), x * (factor / 2))

    module = types.ModuleType("demo")
    loaded = types.SimpleNamespace(scale=launch)
    monkeypatch.setattr(module, "load", lambda device: loaded, raising=False)
    monkeypatch.setattr(module, "ops", types.SimpleNamespace(scale=op), raising=False)
    monkeypatch.setitem(sys.modules, "demo", module)


def executed(words: str) -> dict[str, Any]:
    """The names that the page's only Python block with these words defines."""
    (step,) = [
        step
        for step in steps("docs/how-to/interop.md")
        if step.language == "python" and words in step.text
    ]
    names: dict[str, Any] = {"__name__": "__docs__"}
    exec(compile(step.text, step.place, "exec"), names)
    return names


def test_launchers_and_ops_on_torchs_stream(torch: Any) -> None:
    found = executed("enqueue_on(stream)")
    torch.testing.assert_close(found["y"], 2 * found["x"])
