"""The hub form of the examples on a GPU: its functions, streams, graphs and torch.compile, and its
driver under every case. The package is written here from the built bundle; no compiler is needed.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.gpu.built import bundle_of, failing
from tests.gpu.test_example_cases import KERNELS, ROOT
from tilec.manifest.types import Manifest
from tilec.package.hub import hub_files
from tilec_runtime import Module, errors, load
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.device.driver import Driver
from tilec_runtime.device.libcuda import Libcuda

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]


class _Bound(Driver):
    """Its launches are made through ctypes, also where there is a launch core."""

    def launch_target(self, ordinal: int) -> None:
        return None


@pytest.fixture(scope="module")
def opened() -> tuple[Manifest, Module]:
    manifest, path = bundle_of(ROOT)
    try:
        driver = _Bound(Libcuda())
    except (OSError, errors.NoDeviceError) as error:
        pytest.skip(str(error))
    return manifest, load(Bundle.open(path), 0, driver=driver)


@pytest.mark.parametrize("name", KERNELS)
def test_every_case_passes_through_ctypes(name: str, opened: tuple[Manifest, Module]) -> None:
    assert failing(name, *opened) == []


@pytest.fixture(scope="module")
def variant(tmp_path_factory: pytest.TempPathFactory) -> Path:
    _, path = bundle_of(ROOT)
    bundle = Bundle.open(path)
    folder = tmp_path_factory.mktemp("hub") / "build" / "torch-cuda"
    for name, data in hub_files(bundle.info, path.read_bytes(), bundle.index_digest).items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def hub(variant: Path, torch):
    """The package, loaded by `kernels` where that is installed, else as `kernels` loads it."""
    if importlib.util.find_spec("kernels") is not None:
        import kernels

        yield kernels.get_local_kernel(variant.parents[1])
        return
    name = json.loads((variant / "metadata.json").read_text())["id"]
    spec = importlib.util.spec_from_file_location(name, variant / "__init__.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module


def test_launches_are_in_the_order_of_torch_s_current_stream(hub, torch):
    stream = torch.cuda.Stream()
    x, y = torch.zeros(1 << 16, device="cuda"), torch.ones(1 << 16, device="cuda")
    z = torch.empty_like(x)
    hub.safe_add(z, x, y)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(400_000_000)
        x.fill_(41.0)
        hub.safe_add(z, x, y)
    assert not stream.query(), "the call waited for the device"
    stream.synchronize()
    assert torch.all(z == 42.0)


def test_a_thread_without_a_context_launches(hub, torch):
    x = torch.ones(1 << 12, device="cuda")
    z = torch.empty_like(x)
    torch.cuda.synchronize()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            hub.safe_add(z, x, x)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert failures == []
    torch.cuda.synchronize()
    assert torch.all(z == 2.0)


def test_the_first_launch_may_be_in_a_capture(variant: Path, torch):
    """In a process of its own, where nothing is loaded yet."""
    text = """
import importlib.util, json, sys, torch
from pathlib import Path
folder = Path(sys.argv[1])
name = json.loads((folder / "metadata.json").read_text())["id"]
spec = importlib.util.spec_from_file_location(name, folder / "__init__.py")
hub = sys.modules[name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hub)
x = torch.ones(4096, device="cuda")
z = torch.zeros_like(x)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    hub.safe_add(z, x, x)
graph.replay()
torch.cuda.synchronize()
print(bool((z == 2).all()), [name for name in sys.modules if name.split(".")[0] in ("tilec_runtime", "cuda")])
"""
    done = subprocess.run(
        [sys.executable, "-c", text, str(variant)],
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(" ")[0] == "True"
