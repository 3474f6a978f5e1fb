"""Memory read by NumPy and GPU libraries through the array interfaces."""

from __future__ import annotations

from typing import Any

from tilec_runtime.device.layout import ON_CPU, TensorFacts
from tilec_runtime.errors import TensorError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors.host import interface_of, shared_array


class Exposed:
    """Memory that other libraries can read."""

    __slots__ = ()

    facts: TensorFacts

    def _expose(self, noun: str) -> tuple[Any, int | None]:
        """Check that other libraries may read the memory now.

        Return an object that keeps the memory, and the stream that readers have to wait for. `noun`
        is the protocol, for messages.
        """
        raise NotImplementedError

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory for GPU libraries, which wait for the stream that it names."""
        if self.facts.device == ON_CPU:
            raise AttributeError("memory of the cpu device has no __cuda_array_interface__")
        if why := packed(self.facts.dtype):
            raise AttributeError(why)
        _, stream = self._expose("__cuda_array_interface__")
        return {**interface_of(self.facts), "stream": stream}

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The memory for NumPy.

        The protocol has no names for dtypes of ml_dtypes; `__array__` returns those.
        """
        dtype = self.facts.dtype
        if self.facts.device != ON_CPU:
            raise AttributeError("memory of a GPU has no __array_interface__")
        if why := packed(dtype):
            raise AttributeError(why)
        if not DTYPES[dtype].typestr:
            raise AttributeError(
                f"__array_interface__ has no word for {dtype}: np.asarray gives an array of ml_dtypes"
            )
        self._expose("__array_interface__")
        return interface_of(self.facts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return a NumPy array that shares memory of the cpu device.

        A dtype that NumPy does not have comes as an `ml_dtypes` array.

        Raises:
            TensorError: it is on a GPU, or its dtype is packed.
        """
        why = packed(self.facts.dtype)
        if self.facts.device != ON_CPU:
            why = "NumPy cannot read the memory of a GPU"
        if why:
            raise TensorError(why, fix="copy it to the host first: to_host()")
        kept, _ = self._expose("__array__")
        shared = shared_array(kept, self.facts)
        if dtype is None or shared.dtype == dtype:
            return shared.copy() if copy else shared
        if copy is False:
            own = self.facts.dtype
            raise ValueError(f"an array of {dtype} would be a copy of the tensor of {own}")
        return shared.astype(dtype)


def packed(dtype: str) -> str:
    """Return why other libraries cannot read elements of a dtype, or an empty string."""
    each = DTYPES[dtype].per_byte
    if each == 1:
        return ""
    return f'{each} elements of {dtype} share a byte, which other libraries do not read: give them reinterpret("u8"), or to_host()'
