"""Operators of a package in torch: schemas, real kernels and fake kernels.

The real kernels are for CUDA and the cpu device. Only generated modules (`demo.torch`) import this.
It needs torch 2.7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.autograd.graph import increment_version

from tilec_runtime.launch.outputs import Outputs
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.kernel import AxisValue, KernelInfo
from tilec_runtime.model.signature import Param, ParamKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilec_runtime.bundle.read import Bundle
    from tilec_runtime.launch.launcher import Launcher

# With this tag, Inductor passes arrays with the strides that they had when traced.
_TAGS = (torch.Tag.pt2_compliant_tag, torch.Tag.needs_exact_strides)
_NUMBERS = {"bool": "bool", "int": "SymInt", "uint": "SymInt", "float": "float"}
_AXES = {bool: "bool", int: "int", float: "float", str: "str"}


class Loaded(Protocol):
    """A package's kernels on one device."""

    @property
    def kernels(self) -> Mapping[str, Launcher]:
        """The launchers by name."""


class Bundled(Protocol):
    """The part of a package that operators use."""

    @property
    def bundle(self) -> Bundle:
        """The package's bundle."""

    def load(self, device: int | str) -> Loaded:
        """Return the package's kernels on a device."""


class Operators:
    """The operators of one package, in one namespace.

    They exist as long as this object.
    """

    def __init__(self, package: Bundled, namespace: str, *, shared: bool = False) -> None:
        """Create the namespace, without operators.

        Args:
            package: the package with the kernels.
            namespace: namespace of the operators.
            shared: whether the namespace contains the build's digest. Then existing operators
                belong to the same build, loaded from another place, and are reused.
        """
        self._package = package
        self._namespace = namespace
        self._shared = shared
        self._library = torch.library.Library(namespace, "FRAGMENT")

    def define(self, kernel: str) -> Any:
        """Define the operator of a kernel; return its overload.

        Raises:
            BundleError: the bundle cannot be read.
            RuntimeError: such an operator exists already.
        """
        known = getattr(torch.ops, self._namespace)
        if self._shared and hasattr(known, kernel):
            return getattr(known, kernel).default
        info = self._package.bundle.kernel(kernel)
        outputs = Outputs(info)
        self._library.define(kernel + schema_of(info), tags=_TAGS)
        run = _runner(info, outputs, _Launchers(self._package, kernel))
        for key in ("CUDA", "CPU"):
            self._library.impl(kernel, run, key)

        def fake(*args: Any, **_axes: Any) -> Any:
            return _result(outputs.allocate(args))

        name = f"{self._namespace}::{kernel}"
        torch.library.register_fake(name, fake, lib=self._library)
        return getattr(getattr(torch.ops, self._namespace), kernel).default


class _Launchers(dict[int, "Launcher"]):
    """The launchers of a kernel by torch's number of a device, -1 for the CPU."""

    def __init__(self, package: Bundled, kernel: str) -> None:
        self._package = package
        self._kernel = kernel

    def __missing__(self, number: int) -> Launcher:
        module = self._package.load("cpu" if number < 0 else number)
        launcher = self[number] = module.kernels[self._kernel]
        return launcher


def schema_of(info: KernelInfo) -> str:
    """Return the schema of a kernel's operator, without its name.

    An example is `(Tensor x, float eps=1e-06) -> Tensor`. Tensors that the caller passes and the
    kernel writes are marked as mutated.
    """
    inputs = info.inputs
    written = [param.name for param in inputs if param.out]
    defaults = _defaults(inputs)
    texts = []
    for param, default in zip(inputs, defaults, strict=True):
        kind = "Tensor"
        if param.kind is ParamKind.SCALAR:
            kind = _NUMBERS[DTYPES[param.dtype].kind] if param.dtype in DTYPES else "float"
        elif param.out:
            kind += f"({chr(ord('a') + written.index(param.name))}!)"
        kind += "?" if param.optional else ""
        texts.append(f"{kind} {param.name}{default}")
    axes = dict(info.axes)
    if info.choices:
        texts.append("*")
    texts += [f"{_AXES[type(axes[name][0])]}? {name}=None" for name in info.choices]
    count = len(info.allocated)
    result = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
    return f"({', '.join(texts)}) -> {result}"


def _defaults(inputs: tuple[Param, ...]) -> list[str]:
    """Return the defaults of a schema.

    A number that schemas cannot express gets none, and neither do the parameters before it.
    """
    texts: list[str] = []
    for param in reversed(inputs):
        value = param.default
        finite = value is not None and value - value == 0
        known = (finite or param.optional) and all(texts)
        texts.append(f"={None if param.optional else value!r}" if known else "")
    return texts[::-1]


def _runner(info: KernelInfo, outputs: Outputs, launchers: _Launchers) -> Callable[..., Any]:
    """Return an operator's function for real tensors.

    It launches on torch's current stream.
    """
    inputs = info.inputs
    template = outputs.template
    defaults = tuple(param.default for param in inputs)
    mutated = tuple(index for index, param in enumerate(inputs) if param.out)
    choices, count = info.choices, len(inputs)

    def run(*args: Any, **axes: AxisValue | None) -> Any:
        if len(args) != count:  # torch omits trailing defaults
            args += defaults[len(args) :]
        allocated = outputs.allocate(args)
        values = outputs.values(allocated, args)
        launcher = launchers[args[template].get_device()]
        if axes:
            launcher.launch(None, values, tuple([axes.get(name) for name in choices]))
        else:
            launcher.launch(None, values)
        for index in mutated:
            if args[index] is not None:
                increment_version(args[index])
        return _result(allocated)

    return run


def _result(outputs: tuple[Any, ...]) -> Any:
    return outputs[0] if len(outputs) == 1 else outputs or None
