"""Tensors as other libraries read them, without a copy: DLPack, `__cuda_array_interface__`, and
NumPy's protocol on the cpu device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilec_runtime.device.handles import stream_handle
from tilec_runtime.device.layout import NOWHERE, ON_CPU
from tilec_runtime.errors import TensorError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.ops.copies import to_host_op
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.running import refuse_nested
from tilec_runtime.tensors import dlpack
from tilec_runtime.tensors.contents import contents
from tilec_runtime.tensors.described import Described
from tilec_runtime.tensors.dlpack_export import capsule
from tilec_runtime.tensors.host import checked_out, numpy_dtype
from tilec_runtime.tensors.lease import Holder, holder
from tilec_runtime.tensors.storage import freeing_stream

if TYPE_CHECKING:
    import numpy as np

# How DLPack and the array interface name streams: 0 is not allowed there.
_LEGACY, _PER_THREAD = 1, 2


class Exchanged(Described):
    """A tensor that other libraries can look at. They keep its memory as long as they use it, and
    the order of streams is kept.
    """

    __slots__ = ()

    def __dlpack_device__(self) -> tuple[int, int]:
        """(kind, number) of the device as DLPack counts them."""
        return (dlpack.CPU, 0) if self.device == ON_CPU else (dlpack.CUDA, self.device)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule of the tensor.

        Args:
            stream: the consumer's; what was enqueued before is waited for there. None is the legacy
                default stream, -1 asks for no order.
            max_version: what the consumer reads.
            dl_device: where the consumer wants it; nothing is copied to another device.
            copy: whether it wants a copy; none is made.

        Raises:
            BufferError: elements that share bytes, a copy, another device, or a description of a
                read-only tensor for who knows none.
        """
        self.require_readable(Holder(what="__dlpack__"))
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError(
                "a tilec tensor is given out as it is, without a copy and on its own device"
            )
        versioned = max_version is not None and max_version[0] >= 1
        if self.readonly and not versioned:
            raise BufferError(
                "the tensor is there for reading only, and this consumer's DLPack knows none: use borrow_mut(), or a copy"
            )
        facts, row = self.facts, DTYPES[self.dtype]
        if row.packed:
            raise BufferError(self._packed())
        self._order(stream)
        view = dlpack.View(
            address=facts.ptr,
            shape=facts.shape,
            stride=facts.stride,
            dtype=row.dlpack,
            lanes=1,
            device=self.__dlpack_device__(),
            readonly=facts.readonly,
        )
        return capsule(self, view, self.storage, versioned=versioned)

    def _order(self, stream: Any) -> None:
        """Let the consumer's stream, or the host, wait for what was enqueued before; remember that
        it may write.
        """
        if self.device == ON_CPU:
            if stream is not None:
                raise BufferError(
                    f"memory of the cpu device has no streams that others know, and stream is {stream!r}"
                )
            self.storage.sync(write=not self.readonly)
        elif stream != -1:
            handle = 0 if stream in (None, _LEGACY) else stream_handle(stream, "__dlpack__")
            self.storage.pass_through(handle, write=not self.readonly, lasting=True)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The tensor as libraries read it that use GPUs; they wait for the stream that it names."""
        if self.device == ON_CPU:
            raise AttributeError("memory of the cpu device has no __cuda_array_interface__")
        if DTYPES[self.dtype].packed:
            raise AttributeError(self._packed())
        self.require_readable(Holder(what="__cuda_array_interface__"))
        storage = self.storage
        line = storage.uses.sole
        if line is not None and line.open and line.ordinal == storage.ordinal:
            stream = line.handle
        else:
            stream = freeing_stream(storage.driver, storage.ordinal)
            storage.pass_through(stream, write=not self.readonly)
        return {**self._interface(), "stream": stream or _LEGACY}

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The tensor as NumPy reads it, once all work on it is done. It has no words for dtypes of
        ml_dtypes: those go by `__array__`.
        """
        if self.device != ON_CPU:
            raise AttributeError("memory of a GPU has no __array_interface__")
        row = DTYPES[self.dtype]
        if row.packed:
            raise AttributeError(self._packed())
        if not row.typestr:
            raise AttributeError(
                f"__array_interface__ has no word for {self.dtype}: np.asarray(t) gives an array of ml_dtypes"
            )
        return self._host_interface("__array_interface__")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """A NumPy array of a tensor on the cpu device; of ml_dtypes' dtypes where NumPy has none.

        Raises:
            TensorError: it is on a GPU, or its elements share bytes.
        """
        if self.device != ON_CPU:
            raise TensorError(
                "NumPy cannot read the memory of a GPU", fix="copy it to the host first: to_host()"
            )
        if DTYPES[self.dtype].packed:
            raise TensorError(self._packed(), fix="copy it to the host first: to_host()")
        import numpy as np

        found = np.asarray(_Described(self)).view(numpy_dtype(self.dtype))
        if copy is False and dtype is not None and found.dtype != dtype:
            raise ValueError(f"an array of {dtype} would be a copy of the tensor of {self.dtype}")
        return (
            found.astype(dtype)
            if dtype is not None and found.dtype != dtype
            else found.copy()
            if copy
            else found
        )

    def to_host(self, *, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """The contents as a NumPy array of their own, once all work on the tensor is done; of
        ml_dtypes' dtypes where NumPy has none.

        `tilec_runtime.api.to_host` is the op of it, which does not wait.

        Args:
            out: an array of the tensor's dtype and shape to copy to, of any strides.

        Raises:
            OwnershipError: the tensor cannot be read. TensorError: `out` does not fit.
            NestedExecutionError: this thread executes an op. BaseException: what the work on the
                tensor came to.
        """
        who = holder("to_host")
        self.require(who)
        refuse_nested("to_host")
        if out is not None:
            checked_out(out, self.dtype, self.shape)
        with self.claim(who, write=False):
            return contents(self.storage, self.facts, out)

    def to_host_op(self, out: np.ndarray[Any, Any] | None = None) -> DeviceOp[np.ndarray[Any, Any]]:
        """Return the op of `tilec_runtime.api.to_host`."""
        return to_host_op(self, out)

    def _packed(self) -> str:
        each = DTYPES[self.dtype].per_byte
        return f'{each} elements of {self.dtype} share a byte, which other libraries do not read: give them reinterpret("u8"), or to_host()'

    def _host_interface(self, name: str) -> dict[str, Any]:
        self.require_readable(Holder(what=name))
        self._order(None)
        return self._interface(nowhere=NOWHERE)

    def _interface(self, *, nowhere: int = 0) -> dict[str, Any]:
        facts, row = self.facts, DTYPES[self.dtype]
        strides = None if self.is_contiguous else tuple(step * row.bytes for step in facts.stride)
        typestr = row.typestr or f"|V{row.bytes}"
        return {
            "shape": facts.shape,
            "typestr": typestr,
            "data": (facts.ptr or nowhere, facts.readonly),
            "version": 3,
            "strides": strides,
        }


class _Described:
    """What NumPy reads of a tensor, which it keeps."""

    def __init__(self, tensor: Exchanged) -> None:
        self.__array_interface__ = tensor._host_interface("__array__")  # noqa: SLF001 - its own module's
        self.storage = tensor.storage
