"""Memory as NumPy and libraries on GPUs read it, without a copy: the array interfaces."""

from __future__ import annotations

from typing import Any

from tilec_runtime.device.layout import ON_CPU, TensorFacts
from tilec_runtime.errors import TensorError
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.tensors.host import interface_of, shared_array


class Exposed:
    """Memory that other libraries can look at."""

    __slots__ = ()

    facts: TensorFacts

    def _expose(self, what: str) -> tuple[Any, int | None]:
        """See that others may read the memory now; `what` they ask for is in messages. Return what
        keeps the memory, and the stream that they have to wait for.
        """
        raise NotImplementedError

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory as libraries read it that use GPUs; they wait for the stream that it names."""
        if self.facts.device == ON_CPU:
            raise AttributeError("memory of the cpu device has no __cuda_array_interface__")
        if why := packed(self.facts.dtype):
            raise AttributeError(why)
        _, stream = self._expose("__cuda_array_interface__")
        return {**interface_of(self.facts), "stream": stream}

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The memory as NumPy reads it. It has no words for dtypes of ml_dtypes: those go by
        `__array__`.
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
        """A NumPy array that shares memory of the cpu device; of ml_dtypes' dtypes where NumPy has
        none.

        Raises:
            TensorError: it is on a GPU, or its elements share bytes.
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
    """Why other libraries do not read elements of a dtype; empty where they do."""
    each = DTYPES[dtype].per_byte
    if each == 1:
        return ""
    return f'{each} elements of {dtype} share a byte, which other libraries do not read: give them reinterpret("u8"), or to_host()'
