"""Tensors read by other libraries without a copy: DLPack, array interfaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilec_runtime.device.handles import stream_handle
from tilec_runtime.device.layout import ON_CPU
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.ops.copies import ToHost
from tilec_runtime.ops.op import DeviceOp
from tilec_runtime.running import refuse_nested
from tilec_runtime.tensors import dlpack
from tilec_runtime.tensors.contents import contents
from tilec_runtime.tensors.described import Described
from tilec_runtime.tensors.dlpack_export import capsule
from tilec_runtime.tensors.exposed import Exposed, packed
from tilec_runtime.tensors.host import checked_out
from tilec_runtime.tensors.lease import Holder, holder_here
from tilec_runtime.tensors.storage import freeing_stream

if TYPE_CHECKING:
    import numpy as np

# Default streams in DLPack and the array interface, which do not allow 0.
_LEGACY, _PER_THREAD = 1, 2


class Exchanged(Exposed, Described):
    """A tensor that other libraries can read.

    They keep its memory alive as long as they use it, and stream order is kept.
    """

    __slots__ = ()

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return (type, number) of the device in DLPack's numbering."""
        return (dlpack.CPU, 0) if self.device == ON_CPU else (dlpack.CUDA, self.device)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Return a capsule of the tensor.

        Args:
            stream: the consumer's stream, which waits for all work enqueued on the tensor. None is
                the legacy default stream, -1 asks for no order.
            max_version: the DLPack version that the consumer reads.
            dl_device: the device the consumer wants; only the tensor's own is possible.
            copy: whether the consumer wants a copy; none is made.

        Raises:
            BufferError: the dtype is packed, a copy or another device is asked for, or the tensor
                is read-only and the consumer reads only DLPack before 1.0.
        """
        self.require_readable(Holder(name="__dlpack__"))
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError(
                "a tilec tensor is given out as it is, without a copy and on its own device"
            )
        versioned = max_version is not None and max_version[0] >= 1
        if self.readonly and not versioned:
            raise BufferError(
                "the tensor is there for reading only, and this consumer's DLPack knows none: use borrow_mut(), or a copy"
            )
        facts = self.facts
        if why := packed(self.dtype):
            raise BufferError(why)
        self._order(stream)
        view = dlpack.View(
            address=facts.ptr,
            shape=facts.shape,
            stride=facts.stride,
            dtype=DTYPES[self.dtype].dlpack,
            lanes=1,
            device=self.__dlpack_device__(),
            readonly=facts.readonly,
        )
        return capsule(self, view, self.storage, versioned=versioned)

    def _order(self, stream: Any) -> None:
        """Make the consumer's stream, or the host, wait for work on the tensor.

        On a GPU, record that the consumer may use the tensor at any later time, and write it unless
        it is read-only.
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

    def _expose(self, noun: str) -> tuple[Any, int | None]:
        """Check that the tensor can be read; return the stream that readers wait for."""
        self.require_readable(Holder(name=noun))
        storage = self.storage
        if self.device == ON_CPU:
            self._order(None)
            return storage, None
        line = storage.uses.sole
        if line is not None and line.open and line.ordinal == storage.ordinal:
            return storage, line.handle or _LEGACY
        stream = freeing_stream(storage.driver, storage.ordinal)
        storage.pass_through(stream, write=not self.readonly)
        return storage, stream

    def to_host(self, *, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """Return the contents as a new NumPy array, once all work on the tensor is done.

        A dtype that NumPy does not have comes as an `ml_dtypes` array. `tilec_runtime.api.to_host`
        is the same as an op, which does not wait.

        Args:
            out: an array of the tensor's dtype and shape to copy to, of any strides.

        Raises:
            OwnershipError: the tensor cannot be read.
            TensorError: `out` does not fit.
            NestedExecutionError: this thread executes an op.
            BaseException: the error of failed work on the tensor.
        """
        holder = holder_here("to_host")
        self.require(holder)
        refuse_nested("to_host")
        if out is not None:
            checked_out(out, self.dtype, self.shape)
        with self.claim(holder, write=False):
            return contents(self.storage, self.facts, out)

    def to_host_op(self, out: np.ndarray[Any, Any] | None = None) -> DeviceOp[np.ndarray[Any, Any]]:
        """Return the op of `tilec_runtime.api.to_host`."""
        return ToHost(self, out)
