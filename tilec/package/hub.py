"""Package for Hugging Face's `kernels`: one noarch variant that needs only torch.

The package holds the bundle, a module with a function for each kernel, and copies of the runtime's
modules for launches. The copies have relative imports, because `kernels` loads several versions of
a package in one process, each from its own path.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

from tilec import __version__
from tilec.package.hub_metadata import METADATA, metadata
from tilec.package.render import hub_template, torch_module
from tilec.package.view import KernelView, PackageView, launcher_names, package_view
from tilec_runtime import errors
from tilec_runtime.errors import UsageError
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.kernel import BundleInfo, KernelInfo
from tilec_runtime.model.signature import ParamKind

RUNTIME = "_runtime"
ENTRIES = ("tilec_runtime.hub", "tilec_runtime.torch_ops")
OPERATORS = "_operators.py"
# Modules that a launch on a GPU never imports: cpu device, ops, tensors of tilec, compilers.
_LEFT_OUT = re.compile(
    r"tilec_runtime\.(_core|cpu|ops|api|kernels|running|package|device\.(nvjitlink|results_text)|"
    r"launch\.(jit|jit_cache|load|occupancy|stepping)|tensors\.(?!facts$|dlpack$).*)(\.|$)"
)
_IMPORT = re.compile(r"^( *)from tilec_runtime(?:\.([\w.]+))? import ", re.MULTILINE)


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class HubKernel:
    """One kernel in the package's module; `signature` and `arguments` are Python text.

    Attributes:
        view: view of the kernel's method in a generated package.
        operator: whether the function that takes the outputs can be an operator of torch.
        allocates: whether the manifest declares the kernel an operator.
        signature: parameters of the function that takes the outputs.
        arguments: arguments that this function passes on.
    """

    view: KernelView
    operator: bool
    allocates: bool
    signature: str
    arguments: str


def hub_files(info: BundleInfo, bundle: bytes, index: str) -> dict[str, bytes]:
    """Return the files of the variant, by path in it.

    Equal arguments give equal bytes.

    Args:
        info: index of the bundle.
        bundle: bytes of the bundle.
        index: SHA-256 of the index (hex).

    Raises:
        UsageError: a kernel cannot be a function of the package.
        OutputError: `kernels` does not accept the package's name or version.
    """
    name = f"{info.package.module}-{sha256(bundle)[:16]}.tilec"
    package = package_view(info, name, index)
    namespace = f"{info.package.module}_{index[:16]}"
    kernels = _kernels(info, package)
    module = hub_template().render(package=package, namespace=namespace, kernels=kernels)
    operators = torch_module(info, package, namespace)
    operators = _IMPORT.sub(rf"\1from .{RUNTIME}.\2 import ", operators)
    files = {
        "__init__.py": module.encode() + b"\n",
        **({OPERATORS: operators.encode() + b"\n"} if operators else {}),
        name: bundle,
        **{f"{RUNTIME}/{file}": data for file, data in runtime_files().items()},
    }
    return {METADATA: metadata(info, files), **dict(sorted(files.items()))}


def runtime_files() -> dict[str, bytes]:
    """Return the modules of the runtime that launches need, with relative imports."""
    root = Path(errors.__file__).parent
    files: dict[str, bytes] = {}
    todo = [*ENTRIES]
    while todo:
        module = todo.pop()
        path, file = _source(root, module)
        if file in files:
            continue
        text = path.read_text(encoding="utf-8")
        up = "." * (file.count("/") + 1)
        files[file] = _IMPORT.sub(rf"\1from {up}\2 import ", text).encode()
        todo += [name for name in _imports(root, text) if not _LEFT_OUT.match(name)]
    folders = {"", *(f"{Path(file).parent.as_posix()}/" for file in files if "/" in file)}
    about = f'"""Copied from tilec-runtime {__version__} (Apache-2.0)."""\n'.encode()
    return {**{f"{folder}__init__.py": about for folder in folders}, **files}


def _source(root: Path, module: str) -> tuple[Path, str]:
    file = "/".join(module.split(".")[1:]) + ".py"
    return root / file, file


def _imports(root: Path, text: str) -> Iterator[str]:
    """Yield the runtime modules that a module imports, at its top and in functions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tilec_runtime"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                module = inner if _source(root, inner)[0].is_file() else str(node.module)
                if _source(root, module)[0].is_file():
                    yield module


def _kernels(info: BundleInfo, package: PackageView) -> list[HubKernel]:
    kernels = [*map(_kernel, info.kernels, package.kernels)]
    if any(k.allocates for k in kernels) and any(k.view.name == "out" for k in kernels):
        raise UsageError(
            "a kernel named 'out' cannot be in a hub package whose kernels allocate their outputs",
            cause="`out` holds the functions that are given their outputs",
            fix="rename the kernel, or leave hub out of --emit",
        )
    return kernels


def _kernel(kernel: KernelInfo, view: KernelView) -> HubKernel:
    if kernel.launch.open and not kernel.launch.preset:
        raise UsageError(
            f"kernel {kernel.name} takes a configuration at each launch, which a hub package has not",
            cause=f"its manifest leaves {', '.join(kernel.launch.open)} open",
            fix=f"say it in kernel.{kernel.name}.launch, or leave hub out of --emit",
        )
    params, axes = launcher_names(kernel)
    chosen = (f"{axis}={name}" for axis, name in zip(kernel.choices, axes, strict=True))
    keywords = view.axes.removeprefix(", config=None").removeprefix(", ")
    return HubKernel(
        view=view,
        operator=_is_operator(kernel),
        allocates=kernel.op is not None,
        signature=", ".join(filter(None, (view.params, keywords and f"*, {keywords}"))),
        arguments=", ".join((*params, *chosen)),
    )


def _is_operator(kernel: KernelInfo) -> bool:
    """Return whether a kernel that takes its outputs can be an operator of torch.

    Such a kernel writes a tensor, and takes only tensors and numbers.
    """
    kinds = {param.kind for param in kernel.params}
    written = any(param.out for param in kernel.params)
    given = any(p.kind is ParamKind.TENSOR and not p.optional for p in kernel.params)
    named = kernel.name != "name"  # torch's operator namespaces have an attribute `name`
    plain = kinds <= {ParamKind.TENSOR, ParamKind.SCALAR} and not kernel.lists
    return named and written and given and plain
