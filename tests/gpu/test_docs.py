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
def tour(kernels: Any, package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's package: z = alpha * x + y of torch tensors, as twice x and y are added."""

    def launch(z: Any, x: Any, y: Any, *, alpha: float, stream: Any = None) -> None:
        kernels.vector_add(z, x * alpha, y, stream=stream)

    module = types.ModuleType("tour")
    monkeypatch.setattr(
        module, "load", lambda device: types.SimpleNamespace(axpy=launch), raising=False
    )

    def op(z: Any, x: Any, y: Any, *, alpha: float) -> Any:
        return package.ops.vector_add(z, x * alpha, y)

    monkeypatch.setattr(module, "ops", types.SimpleNamespace(axpy=op), raising=False)
    monkeypatch.setitem(sys.modules, "tour", module)


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
    torch.testing.assert_close(found["z"], 2 * found["x"] + found["y"])
