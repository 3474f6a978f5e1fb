"""From a bundle's index to the plain values that the package template shows: names, imports, methods and functions."""

from __future__ import annotations

import dataclasses

from tilec.package.doc import entry, launcher_doc
from tilec.package.lazy import LazyView, lazy_view
from tilec.package.text import bracketed, imported, listed, literal, method_name, parameter_names, plain, tuple_text, unique
from tilec.package.types import chosen, param_type, signature
from tilec_runtime.model.kernel import BundleInfo, KernelInfo
from tilec_runtime.model.signature import Param

# What the module's text names besides kernels.
_MODULE_NAMES = frozenset({"Module", "OnDevice", "Package", "TYPE_CHECKING", "Compiled", "annotations", "load", "_tilec_package_"})
_TYPING = ("Literal", "TypeVar")
_RUNTIME = ("DeviceLike", "Launcher", "LazyLaunch", "OrOp", "StreamLike", "StructLike", "TensorLike")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class KernelView:
    """One method: its name and attribute, and the lines of its signature, docstring and body."""

    name: str
    attribute: str
    signature: tuple[str, ...]
    doc: tuple[str, ...]
    body: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class PackageView:
    """The whole package: texts are escaped already.

    Attributes:
        title: first line of the module's docstring. subject: name and version, inside another docstring.
        builder: what made it.
        exports: the lines of `__all__`. imports: those that only type checkers read. variables: their type variables.
        loaded, held: attributes that hold the loaded module, and the functions that give ops.
        compiled: property that gives what was compiled at load.
        lazy: property that gives the functions; `functions` is their class, and `init` the lines of its only method.
        launch: what has the makers of ops. listed: the lines that list the functions.
        bundle: the bundle's file name and the digest of its index, as Python literals.
        kernels: in the manifest's order. ops: their functions that give ops.
    """

    title: str
    subject: str
    builder: str
    exports: tuple[str, ...]
    imports: tuple[str, ...]
    variables: tuple[str, ...]
    loaded: str
    held: str
    lazy: str
    compiled: str
    functions: str
    init: tuple[str, ...]
    launch: str
    listed: tuple[str, ...]
    bundle: tuple[str, str]
    kernels: tuple[KernelView, ...]
    ops: tuple[LazyView, ...]


def package_view(info: BundleInfo, bundle_name: str, index: str) -> PackageView:
    """The view of a bundle's package; arguments as for `render_package`.

    Raises:
        UsageError: a kernel's or a parameter's name cannot be one in Python.
    """
    package = info.package
    taken = {method_name(kernel.name) for kernel in info.kernels}
    # Kernels keep their names as methods; what the package has of its own stands back.
    own = {}
    for name in ("_loaded", "_functions", "lazy", "compiled", "Functions"):
        own[name] = unique(name, taken)
        taken.add(own[name])
    named = [parameter_names([param.name for param in kernel.params] + list(kernel.choices), {"self", "stream"}) for kernel in info.kernels]
    launch = unique("_launch", taken.union(*named))  # functions name the makers in their bodies, where a parameter could hide it
    module = {*_MODULE_NAMES, *_TYPING, *_RUNTIME, "Loaded", own["Functions"], launch}
    module |= {f"_T{number}" for number in range(1, 1 + max((len(kernel.params) for kernel in info.kernels), default=0))}
    kernels, ops = [], []
    for kernel, names in zip(info.kernels, named, strict=True):
        attribute = unique(f"_{kernel.name.lstrip('_')}", taken)
        taken.add(attribute)
        # As functions of the module they stand back, as the module's names are those that every package has.
        exported = unique(kernel.name, module)
        op = unique(f"_{''.join(word[:1].upper() + word[1:] for word in kernel.name.split('_'))}Launch", {*module, *taken})
        module |= {exported, op}
        kernels.append(_kernel_view(kernel, attribute, names))
        ops.append(lazy_view(kernel, names, launch, op, exported))
    subject = plain(f"{package.name} {package.version}")
    title = plain(f"{package.name} {package.version}: {package.description}" if package.description else subject)
    exports = sorted(["Module", "load", own["Functions"], *(op.exported for op in ops)])
    return PackageView(
        title=title if title.endswith(".") else f"{title}.",
        subject=subject,
        builder=plain(info.builder or "tilec"),
        exports=tuple(listed("__all__ = ", [literal(name) for name in exports])),
        imports=tuple(_imports(kernels, ops)),
        variables=tuple(f"_T{number}" for number in range(1, 1 + max((op.tensors for op in ops), default=0))),
        loaded=own["_loaded"],
        held=own["_functions"],
        lazy=own["lazy"],
        compiled=own["compiled"],
        functions=own["Functions"],
        init=tuple(_init(ops, own["lazy"])),
        launch=launch,
        listed=tuple(entry(", ".join(kernel.name for kernel in info.kernels), "as the functions of this module")) if ops else (),
        bundle=(literal(bundle_name), literal(index)),
        kernels=tuple(kernels),
        ops=tuple(ops),
    )


def _init(ops: list[LazyView], lazy: str) -> list[str]:
    """What makes the functions of one device. Its variables must not hide functions."""
    exported = {op.exported for op in ops}
    own, loaded, made = (unique(name, exported) for name in ("self", "loaded", "on_device"))
    lines = [f"def __init__({own}, {loaded}: Loaded) -> None:", f'    """Use the functions of this module, or `Module.{lazy}`."""']
    if ops:
        lines.append(f"    {made} = OnDevice({loaded})")
    return [*lines, *(f"    {own}.{op.name} = {made}({op.exported})" for op in ops)]


def _imports(kernels: list[KernelView], ops: list[LazyView]) -> list[str]:
    """What type checkers need of other modules; nothing that the text does not name."""
    lines = [line for kernel in kernels for line in kernel.signature]
    text = "\n".join([*lines, *(line for op in ops for line in (*op.signature, *op.checked))])
    variables = any(op.tensors for op in ops)
    typing = [name for name in _TYPING if (name == "TypeVar" and variables) or (name == "Literal" and "Literal[" in text)]
    always = {"DeviceLike", "Launcher"} | ({"TensorLike"} if variables else set())
    runtime = [name for name in _RUNTIME if name in always or name in text]
    return [
        *([*imported("typing", typing, indent=4), ""] if typing else []),
        *imported("tilec_runtime", runtime, indent=4),
        "from tilec_runtime import Module as Loaded",
        "from tilec_runtime.jit import Compiled",
    ]


def _kernel_view(kernel: KernelInfo, attribute: str, names: tuple[str, ...]) -> KernelView:
    params, axes = names[: len(kernel.params)], names[len(kernel.params) :]

    def type_of(_: int, param: Param) -> str:
        return param_type(param)

    items = ["self", *signature(kernel, params, axes, type_of, before="stream: StreamLike | None = None")]
    arguments = ["stream", tuple_text(params, indent=12)] + ([chosen(kernel, axes, indent=12)] if axes else [])
    return KernelView(
        name=kernel.name,
        attribute=attribute,
        signature=tuple(bracketed(f"def {kernel.name}", items, " -> None:", indent=4)),
        doc=tuple(launcher_doc(kernel, params, axes)),
        body=tuple(bracketed(f"self.{attribute}.launch", arguments, "", indent=8)),
    )
