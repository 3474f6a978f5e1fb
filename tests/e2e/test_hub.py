"""`--emit hub` with Hugging Face's own `kernels` and torch's CPU wheel, in their environment.

TILEC_TORCH_PYTHON names its Python: one with `torch` and `kernels>=0.17`, and without tilec.
"""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.e2e.harness import ADD, HEAD, TWICE, Cli, copied, write

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain, pytest.mark.long]

VARIANT = Path("dist/hub/acme/build/torch-cuda")


@pytest.fixture(scope="module")
def python() -> str:
    found = os.environ.get("TILEC_TORCH_PYTHON", "")
    if not found:
        pytest.skip("TILEC_TORCH_PYTHON names no Python with torch and kernels")
    return found


@pytest.fixture(scope="module")
def made(cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write(tmp_path_factory.mktemp("hub"), HEAD + TWICE + ADD)
    cli.good(root, "build", "--emit", "bundle,hub", "--targets", "sm_80,sm_90")
    return root


def ran(python: str, root: Path, text: str) -> str:
    """Run statements in the other environment, with `kernels` and `V`, the variant's folder."""
    head = f"from pathlib import Path\nimport kernels, torch\nV = Path({str(VARIANT)!r})\n"
    done = subprocess.run(
        [python, "-c", head + textwrap.dedent(text)],
        cwd=root,
        env={"PATH": os.environ["PATH"], "HOME": str(root), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def seen(cli: Cli, made: Path, python: str) -> dict[str, object]:
    """What one process of the other environment sees of two builds."""
    other = write(made / "other", HEAD.replace("1.0.0", "2.0.0") + TWICE)
    cli.good(other, "build", "--emit", "hub")
    shown = ran(
        python,
        made,
        """
        import json, sys
        from kernels._rust import Digest, DigestAlgorithm
        from kernels.variants import get_variants_local
        metadata = kernels.Metadata.read_from_file(V / "metadata.json")
        metadata.digest.validate(Digest.hash_variant(DigestAlgorithm.SHA256, V))
        (variant,) = get_variants_local(V.parent)
        seen = {"name": str(metadata.name), "variant": [variant.variant_str, type(variant).__name__]}
        refused = False
        try:
            kernels.get_local_kernel(V.parents[1])
        except FileNotFoundError as error:
            refused = "does not match system backend" in str(error)
        seen["refused where torch is for the host"] = refused == (torch.version.cuda is None)
        module = kernels.get_local_kernel(V)
        seen["functions"] = module.__all__
        seen["tilec"] = [name for name in sys.modules if name.startswith("tilec")]
        (namespace,) = {name for name in dir(torch.ops) if name.startswith("acme_")}
        schema = getattr(torch.ops, namespace).add.default._schema
        seen["written"] = [
            one.name for one in schema.arguments if one.alias_info and one.alias_info.is_write
        ]
        try:
            module.add(torch.zeros(256), torch.ones(256))
        except Exception as error:
            seen["host"] = [type(error).__name__, str(error).splitlines()[0]]
        graphs = []
        def backend(graph, inputs):
            graphs.append(graph)
            return lambda *_: (inputs[0],)
        def step(z, x):
            module.add(z, x)
            return z
        torch.compile(step, fullgraph=True, backend=backend)(torch.ones(256), torch.ones(256))
        seen["graphs"] = [
            str(node.target).partition(".")[2]
            for graph in graphs
            for node in graph.graph.nodes
            if node.op == "call_function"
        ]
        second = kernels.get_local_kernel("other" / V)
        seen["second"] = [second.__all__, second.__name__ != module.__name__]
        seen["namespaces"] = len({name for name in dir(torch.ops) if name.startswith("acme_")})
        print(json.dumps(seen))
        """,
    )
    found: dict[str, object] = json.loads(shown)
    return found


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("name", "acme"),
        ("variant", ["torch-cuda", "NoarchVariant"]),
        ("refused where torch is for the host", True),
        ("functions", ["add", "twice"]),
        ("tilec", []),
        ("written", ["z"]),
        ("host", ["ArgumentError", "the arguments are tensors on the host"]),
        ("graphs", ["add.default"]),
        ("second", [["twice"], True]),
        ("namespaces", 2),
    ],
)
def test_kernels_takes_it(seen: dict[str, object], what: str, expected: object) -> None:
    """Loaded by a path, without tilec; of a host tensor the function says what is wrong; compiled
    without a graph break; and two builds beside each other."""
    assert seen[what] == expected


def test_operators_of_the_manifest_allocate(cli: Cli, tmp_path: Path, python: str) -> None:
    """Their shapes without a GPU; what they compute is tested on one."""
    sample = Path(__file__).resolve().parents[1] / "samples" / "operators"
    root = copied(sample, tmp_path / "p")
    cli.good(root, "build", "--emit", "hub")
    shown = ran(
        python,
        root / "dist",  # a module kernels.py of the project would hide the library
        """
        V = next(Path("hub").glob("*/build/torch-cuda"))
        module = kernels.get_local_kernel(V)
        with torch._subclasses.FakeTensorMode():
            x = torch.empty(5, 40, device="cuda")
            y = module.softmax(x)
            print(tuple(y.shape), y.dtype, y.device.type)
            row = torch.empty(40, device="cuda")
            print(module.both(row, row)[1].shape)
        print(sorted(name for name in dir(module.out) if name[0] != "_"))
        """,
    )
    first, second, third = shown.splitlines()
    assert first == "(5, 40) torch.float32 cuda"
    assert second == "torch.Size([40])"
    assert "'softmax'" in third
