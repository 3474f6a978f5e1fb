"""Reads the facts of tensors of any library, as launches need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilec_runtime.device.layout import (
    ON_ANY,
    ON_CPU,
    ON_GPU,
    ON_OTHER,
    TensorFacts,
    is_of_jax,
    settled_stride,
)
from tilec_runtime.model.dtype import BY_DLPACK, BY_NUMPY, BY_TYPESTR, DTYPES
from tilec_runtime.values import replace

if TYPE_CHECKING:
    from tilec_runtime.tensors.dlpack import View

# The next step for packed elements of other libraries, whose protocols do not describe their order.
_PACKED = "copy a host array with api.from_host(x), or pass packed bytes as u8 and reinterpret them"


class UnreadableError(Exception):
    """An argument is not a tensor, or cannot be read.

    It becomes an `ArgumentError` with the kernel's name.
    """


def is_leased(value: Any) -> bool:
    """Whether a value is a tensor of tilec's own with a lease.

    Launches check its lease, and keep its stream order.
    """
    return hasattr(type(value), "_tilec_leased_")


def is_foreign(value: Any) -> bool:
    """Whether a value is an array of another library.

    Its readers do not wait for launches.
    """
    return value is not None and not hasattr(type(value), "_tilec_facts_")


def tensor_facts(value: Any, pointer_device: Callable[[int], int | None]) -> TensorFacts:
    """Return the facts of a tensor.

    Args:
        value: any object with DLPack or `__cuda_array_interface__`.
        pointer_device: returns the device of an address, for arrays that do not name their device.

    Raises:
        UnreadableError: the value is not a tensor, or cannot be read.
    """
    try:
        facts = _facts(value)
    except UnreadableError:
        raise
    except (
        Exception
    ) as error:  # fake, functional and deleted tensors of other libraries raise various errors
        raise UnreadableError(f"{_kind_of(value)} that cannot be read: {error}") from error
    if not hasattr(type(value), "_tilec_facts_"):
        _refuse_packed(value, facts)
    if facts.device == ON_OTHER:
        ordinal = pointer_device(facts.ptr)
        return replace(facts, device=ON_CPU if ordinal is None else ordinal)
    return facts


def _refuse_packed(value: Any, facts: TensorFacts) -> None:
    """Refuse an array of another library with packed elements."""
    if facts.dtype in DTYPES and DTYPES[facts.dtype].packed:
        raise UnreadableError(
            f"{_kind_of(value)} of {facts.dtype}, whose elements may lie one in a byte there: {_PACKED}"
        )


def _facts(value: Any) -> TensorFacts:
    cls = type(value)
    if hasattr(cls, "_tilec_facts_"):
        facts: TensorFacts = value._tilec_facts_()
        return facts
    if is_torch(cls):
        return _torch_facts(value)
    if hasattr(value, "__cuda_array_interface__"):
        return _interface_facts(value)
    if _is_masked(cls):
        raise UnreadableError(
            "it is a masked array, and kernels know no masks: pass its `data`, or `filled(...)`"
        )
    if hasattr(value, "__dlpack__"):
        return _dlpack_facts(value)
    raise UnreadableError(f"got {_kind_of(value)}")


def _kind_of(value: Any) -> str:
    cls = type(value)
    name = (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )
    return "None" if value is None else f"a {name}"


def _is_masked(cls: type) -> bool:
    return any(
        base.__name__ == "MaskedArray" and base.__module__.partition(".")[0] == "numpy"
        for base in cls.__mro__
    )


# torch: tensors are read by attributes, without an import of torch. They are the usual case.


def is_torch(cls: type) -> bool:
    """Whether a type is torch's tensor type, or a subclass."""
    return any(
        base.__name__ == "Tensor" and base.__module__ in ("torch", "torch._tensor")
        for base in cls.__mro__
    )


def _torch_facts(tensor: Any) -> TensorFacts:
    layout = str(tensor.layout)
    if layout != "torch.strided":
        raise UnreadableError(
            f"it is a torch tensor of layout {layout}, and only strided ones have one address"
        )
    if tensor.is_neg() or tensor.is_conj():
        raise UnreadableError(
            "it is a lazily negated or conjugated torch tensor: call resolve_neg() or resolve_conj() first"
        )
    shape = tuple(tensor.shape)
    name = str(tensor.dtype).removeprefix("torch.")
    dtype = BY_NUMPY.get(name)
    device = (
        tensor.get_device()
        if tensor.is_cuda
        else ON_CPU
        if tensor.device.type in ("cpu", "meta")
        else ON_GPU
    )
    stride = None if tensor.is_contiguous() else tuple(tensor.stride())
    return TensorFacts(
        ptr=tensor.data_ptr(),
        shape=shape,
        stride=settled_stride(shape, stride),
        dtype=dtype.name if dtype else name,
        device=device,
    )


# __cuda_array_interface__


def _interface_facts(value: Any) -> TensorFacts:
    try:
        interface = value.__cuda_array_interface__
    except (
        AttributeError,
        TypeError,
        RuntimeError,
        ValueError,
    ) as error:  # the property may raise, for a tensor on the CPU for example
        if hasattr(value, "__dlpack__"):
            return _dlpack_facts(value)
        raise UnreadableError(f"its __cuda_array_interface__ cannot be read: {error}") from error
    facts = _described_by(value, interface, "__cuda_array_interface__")
    device = ON_ANY if not facts.ptr or facts.empty else _named_device(value)
    return replace(facts, device=device)


def _described_by(value: Any, interface: Any, name: str) -> TensorFacts:
    """Return the facts in either array interface, with the device set to host memory."""
    try:
        address, readonly = interface["data"]
        shape = tuple(int(extent) for extent in interface["shape"])
        typestr, steps = interface["typestr"], interface.get("strides")
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableError(f"its {name} is malformed: {error!r}") from error
    if interface.get("mask") is not None:
        raise UnreadableError("it is a masked array, and kernels know no masks")
    if getattr(getattr(value, "dtype", None), "fields", None) is not None:
        # Read an array of structs as bytes: the last axis is one struct.
        shape = (*shape, _item_bytes(typestr))
        steps, typestr = None if steps is None else (*steps, 1), "|u1"
    foreign = str(getattr(value, "dtype", typestr))
    dtype = BY_TYPESTR.get(typestr) or BY_NUMPY.get(foreign)
    stride = None
    if steps is not None:
        stride = _elements(steps, dtype.bytes if dtype else _item_bytes(typestr))
        if len(stride) != len(shape):
            raise UnreadableError(f"its {name} has {len(stride)} strides for {len(shape)} extents")
    return TensorFacts(
        ptr=int(address or 0),
        shape=shape,
        stride=settled_stride(shape, stride),
        dtype=dtype.name if dtype else foreign,
        device=ON_CPU,
        readonly=bool(readonly) or is_of_jax(type(value)),
    )


def _elements(steps: Sequence[int], size: int) -> tuple[int, ...]:
    if any(step % size for step in steps):
        raise UnreadableError(
            f"its strides {tuple(steps)} (bytes) are no multiples of its element's {size} bytes"
        )
    return tuple(int(step) // size for step in steps)


def _item_bytes(typestr: str) -> int:
    digits = typestr[2:]
    return int(digits) if digits.isdigit() and int(digits) else 1


def _named_device(value: Any) -> int:
    """Return the device that an array names (CuPy, JAX, tilec), or `ON_OTHER`."""
    device = getattr(value, "device", None)
    # JAX counts the devices of all processes in `id`.
    number = getattr(
        device, "local_hardware_id" if hasattr(device, "local_hardware_id") else "id", None
    )
    return number if type(number) is int else ON_OTHER


# DLPack


def _dlpack_facts(value: Any) -> TensorFacts:
    from tilec_runtime.tensors import dlpack  # arrays of torch and CuPy are read without it

    try:
        where, number = (int(part) for part in value.__dlpack_device__())
        host = where in (dlpack.CPU, dlpack.CUDA_HOST)
        interface = getattr(value, "__array_interface__", None) if host else None
        if isinstance(interface, dict):  # it describes read-only arrays and small dtypes too
            facts = _described_by(value, interface, "__array_interface__")
            return replace(facts, ptr=0) if facts.empty else facts
        view = dlpack.view(value, stream=None if host else dlpack.NO_SYNC)
    except (AttributeError, BufferError, TypeError, ValueError, RuntimeError) as error:
        raise UnreadableError(f"its __dlpack__ cannot be read: {error}") from error
    if view.lanes != 1:
        raise UnreadableError(
            f"its elements are vectors of {view.lanes}, and kernels take plain elements"
        )
    if host:
        return _viewed(value, view, ON_CPU, str(getattr(value, "dtype", "")))
    device = {dlpack.CUDA: number, dlpack.CUDA_MANAGED: ON_ANY}.get(where, ON_GPU)
    return _viewed(value, view, ON_ANY if 0 in view.shape and device != ON_GPU else device)


def _viewed(value: object, view: View, device: int, name: str = "") -> TensorFacts:
    """Return the facts of a DLPack view.

    `name` is NumPy's name of its dtype, for dtypes that DLPack may lack.
    """
    dtype = BY_DLPACK.get(view.dtype) or BY_NUMPY.get(name)
    return TensorFacts(
        ptr=0 if device == ON_CPU and 0 in view.shape else view.address,
        shape=view.shape,
        stride=settled_stride(view.shape, view.stride),
        dtype=dtype.name if dtype else name or "DLPack type code {} of {} bits".format(*view.dtype),
        device=device,
        readonly=view.readonly or is_of_jax(type(value)),
    )
