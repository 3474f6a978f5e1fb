"""The package for Hugging Face's `kernels`: one noarch variant that depends on torch alone.

It holds the bundle, a module with a function for each kernel, and copies of the runtime's modules
that launch, with relative imports: `kernels` loads several versions of a package in one process,
each from a path of its own.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

from tilec import __version__
from tilec.package.hub_metadata import METADATA, metadata
from tilec.package.render import hub_template
from tilec.package.text import literal, parameter_names, plain
from tilec.package.view import KernelView, package_view
from tilec_runtime import errors
from tilec_runtime.errors import OutputError, UsageError
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import BundleInfo, KernelInfo
from tilec_runtime.model.signature import Param, ParamKind

RUNTIME = "_runtime"
ENTRY = "tilec_runtime.hub"
# Modules that a launch on a GPU never imports: the cpu device, ops, tilec's own tensors, compilers.
_LEFT_OUT = re.compile(
    r"tilec_runtime\.(_core|cpu|ops|api|kernels|running|package|device\.(nvjitlink|results_text)|"
    r"launch\.(jit|jit_cache|load|occupancy|stepping)|tensors\.(?!facts$|dlpack$).*)(\.|$)"
)
_IMPORT = re.compile(r"^( *)from tilec_runtime(?:\.([\w.]+))? import ", re.MULTILINE)
# Types in an operator's schema: of a scalar by its dtype's kind, of an axis by its values' type.
_AXES = {bool: "bool", int: "SymInt", float: "float", str: "str"}
_TORCH = {"bool": "bool", "int": "SymInt", "uint": "SymInt", "float": "float"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class HubKernel:
    """One kernel in the package's module; all but `name` and `count` are Python text.

    Attributes:
        name: the function's. key, schema: the operator's, or None for no operator.
        count: how many arguments are the kernel's own, before the axes.
        signature, arguments, summary: of the function.
    """

    name: str
    key: str
    schema: str
    count: int
    signature: str
    arguments: str
    summary: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class HubView:
    """The package's module; `title`, `builder` and `namespace` are plain, the rest Python text."""

    title: str
    builder: str
    namespace: str
    namespace_text: str
    exports: str
    bundle: str
    index: str
    kernels: tuple[HubKernel, ...]


def hub_files(info: BundleInfo, bundle: bytes, index: str) -> dict[str, bytes]:
    """Return the files of the variant, by path in it. Equal arguments give equal bytes.

    Args:
        info: the bundle's index.
        bundle: the bytes of the bundle.
        index: SHA-256 of its index (hex).

    Raises:
        UsageError: a kernel cannot be a function of the package.
        OutputError: the package's name or version is none that `kernels` takes.
    """
    name = f"{info.package.module}-{sha256(bundle)[:16]}.tilec"
    view = hub_view(info, name, index)
    files = {
        "__init__.py": hub_template().render(hub=view).encode() + b"\n",
        name: bundle,
        **{f"{RUNTIME}/{file}": data for file, data in runtime_files().items()},
    }
    return {METADATA: metadata(info, files), **dict(sorted(files.items()))}


def runtime_files() -> dict[str, bytes]:
    """Return the modules of the runtime that launches need, with relative imports.

    Raises:
        OutputError: the runtime is not installed as files.
    """
    root = Path(errors.__file__).parent
    found: dict[str, bytes] = {}
    todo = [ENTRY]
    try:
        while todo:
            module = todo.pop()
            path, file = _source(root, module)
            if file in found:
                continue
            text = path.read_text(encoding="utf-8")
            up = "." * (file.count("/") + 1)
            found[file] = _IMPORT.sub(rf"\1from {up}\2 import ", text).encode()
            todo += [name for name in _imports(root, text) if not _LEFT_OUT.match(name)]
    except OSError as exc:
        raise OutputError(
            f"a module of tilec-runtime cannot be read: {exc}",
            cause="it is not installed as files",
            fix="install tilec-runtime by pip",
        ) from exc
    folders = {"", *(f"{Path(file).parent.as_posix()}/" for file in found if "/" in file)}
    about = f'"""Copied from tilec-runtime {__version__} (Apache-2.0)."""\n'.encode()
    return {**{f"{folder}__init__.py": about for folder in folders}, **found}


def _source(root: Path, module: str) -> tuple[Path, str]:
    file = "/".join(module.split(".")[1:]) + ".py"
    return root / file, file


def _imports(root: Path, text: str) -> Iterator[str]:
    """Yield the modules of the runtime that a module imports, at its top and in functions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tilec_runtime"):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                module = inner if _source(root, inner)[0].is_file() else str(node.module)
                if _source(root, module)[0].is_file():
                    yield module


def hub_view(info: BundleInfo, bundle: str, index: str) -> HubView:
    """Return the view of the package's module; `bundle` is the file's name."""
    package = package_view(info, bundle, index)
    namespace = f"{info.package.module}_{index[:16]}"
    kernels = tuple(
        _kernel(kernel, view) for kernel, view in zip(info.kernels, package.kernels, strict=True)
    )
    return HubView(
        title=package.title,
        builder=package.builder,
        namespace=namespace,
        namespace_text=literal(namespace),
        exports=f"[{', '.join(sorted(kernel.key for kernel in kernels))}]",
        bundle=package.bundle,
        index=package.index,
        kernels=kernels,
    )


def _kernel(kernel: KernelInfo, view: KernelView) -> HubKernel:
    if kernel.launch.open and not kernel.launch.preset:
        raise UsageError(
            f"kernel {kernel.name} takes a configuration at each launch, which a hub package has not",
            cause=f"its manifest leaves {', '.join(kernel.launch.open)} open",
            fix=f"say it in kernel.{kernel.name}.launch, or leave hub out of --emit",
        )
    names = parameter_names(
        [param.name for param in kernel.params] + list(kernel.choices),
        {"self", "stream", "_launch"},
    )
    axes = view.axes.removeprefix(", config=None").removeprefix(", ")
    return HubKernel(
        name=kernel.name,
        key=literal(kernel.name),
        schema=literal(schema) if (schema := _schema(kernel, names)) else "None",
        count=len(kernel.params),
        signature=", ".join(filter(None, (view.params, axes and f"*, {axes}"))),
        arguments=", ".join(names),
        summary=plain(view.summary),
    )


def _schema(kernel: KernelInfo, names: tuple[str, ...]) -> str:
    """Return the operator's schema; empty for a kernel that can be none."""
    tensors = [param for param in kernel.params if param.kind is ParamKind.TENSOR]
    others = {param.kind for param in kernel.params} - {ParamKind.TENSOR, ParamKind.SCALAR}
    written = [param.name for param in tensors if param.out]
    if others or not written or len(written) > 26:
        return ""
    rows = [
        f"{_type(kernel, param, written)} {name}"
        for param, name in zip(kernel.params, names, strict=False)
    ]
    built = dict(kernel.axes)
    for axis, name in zip(kernel.choices, names[len(kernel.params) :], strict=True):
        kinds = {type(value) for value in built[axis]}
        kind = _AXES.get(kinds.pop(), "") if len(kinds) == 1 else ""
        if not kind:
            return ""
        rows.append(f"{kind}? {name}")
    return f"({', '.join(rows)}) -> ()"


def _type(kernel: KernelInfo, param: Param, written: list[str]) -> str:
    if param.kind is ParamKind.TENSOR:
        alias = f"({chr(ord('a') + written.index(param.name))}!)" if param.out else ""
        return f"Tensor{alias}{'?' if param.optional else ''}"
    dtypes = dict(kernel.axes).get(param.dtype, (param.dtype,))
    kinds = {DTYPES[str(dtype)].kind for dtype in dtypes if str(dtype) in DTYPES}
    return _TORCH[kinds.pop()] if len(kinds) == 1 else "Scalar"
