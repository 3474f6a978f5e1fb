"""Facts of tensors of other libraries: __cuda_array_interface__, DLPack of both generations, torch
by its attributes.
"""

from __future__ import annotations

import ctypes
import sys
import types
import weakref

import numpy as np
import pytest

from tests.runtime_samples import Array
from tests.unit.runtime.core import exchange
from tests.unit.runtime.fake_torch import Tensor
from tilec_runtime.device.layout import ON_ANY, ON_CPU, ON_GPU, TensorFacts
from tilec_runtime.tensors.dlpack import RawManaged, view
from tilec_runtime.tensors.facts import UnreadableError, tensor_facts


def nowhere(_address: int) -> int | None:
    return None


class Exporter(exchange.Array):
    """A tensor with DLPack alone, on a device of any type; capsules keep their memory through the
    exporter.
    """

    def __init__(self, *, versioned=True, major=1, **facts):
        super().__init__(**{"shape": (2, 3), "stride": None, "address": 0x20000} | facts)
        self.versioned, self.streams = versioned, []
        self.managed.major = major
        if not versioned:
            self.managed = RawManaged(tensor=self.tensor)

    def __dlpack_device__(self):
        return self.tensor.device.type, self.tensor.device.id

    def __dlpack__(self, *, stream=None, **options):
        self.streams.append(stream)
        if not self.versioned and options:
            raise TypeError("unexpected keyword argument 'max_version'")
        name = b"dltensor_versioned" if self.versioned else b"dltensor"
        return exchange.new_capsule(ctypes.addressof(self.managed), name, None)


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack(versioned):
    tensor = Exporter(stride=(4, 1), versioned=versioned, offset=64)
    facts = tensor_facts(tensor, nowhere)
    assert facts == TensorFacts(ptr=0x20040, shape=(2, 3), stride=(4, 1), dtype="f32", device=0)
    assert set(tensor.streams) == {-1}, "no synchronisation is asked for"


@pytest.mark.parametrize(
    ("options", "fact", "value"),
    [
        ({"stride": None}, "stride", (3, 1)),
        ({"shape": ()}, "shape", ()),
        ({"dtype": (4, 16, 1)}, "dtype", "bf16"),
        ({"dtype": (10, 8, 1)}, "dtype", "f8e4m3"),
        ({"dtype": (6, 8, 1)}, "dtype", "bool"),
        ({"dtype": (5, 64, 1)}, "dtype", "DLPack type code 5 of 64 bits"),
        ({"device": (2, 3)}, "device", 3),
        ({"device": (13, 0)}, "device", ON_ANY),
        ({"device": (3, 0)}, "device", ON_CPU),
        ({"device": (10, 0)}, "device", ON_GPU),
        ({"shape": (0, 3), "device": (2, 1)}, "device", ON_ANY),
        ({"flags": 1}, "readonly", True),
        ({"flags": 2}, "readonly", False),
    ],
)
def test_dlpack_facts(options, fact, value):
    assert getattr(tensor_facts(Exporter(**options), nowhere), fact) == value


class Refuses(Exporter):
    def __dlpack__(self, **options):
        raise BufferError("the tensor requires a gradient")


class Wrong(Exporter):
    def __dlpack__(self, **options):
        return object()


@pytest.mark.parametrize(
    ("exporter", "why"),
    [
        (
            Exporter(major=2),
            "its __dlpack__ cannot be read: its DLPack version is 2.0, and 1.x is known",
        ),
        (
            Exporter(dtype=(2, 32, 4)),
            "its elements are vectors of 4, and kernels take plain elements",
        ),
        (Refuses(), "its __dlpack__ cannot be read: the tensor requires a gradient"),
        (Wrong(), "its __dlpack__ cannot be read: its __dlpack__ gave no DLPack capsule"),
    ],
)
def test_dlpack_that_cannot_be_read(exporter, why):
    with pytest.raises(UnreadableError) as caught:
        tensor_facts(exporter, nowhere)
    assert str(caught.value) == why


def test_a_capsule_that_is_looked_at_is_given_back():
    class OnCpu(np.ndarray):
        def __dlpack__(self, *, stream, **options):
            return super().__dlpack__(**options)

    array = np.zeros(3, "float32").view(OnCpu)
    alive = weakref.ref(array)
    found = view(array)
    assert (found.shape, found.dtype, found.device) == ((3,), (2, 32), (1, 0))
    assert found.stride in (None, (1,)), "NumPy leaves out what says nothing, or does not"
    assert found.address == array.ctypes.data
    del array
    assert alive() is None, "the capsule released its hold"


@pytest.mark.parametrize(
    ("array", "facts"),
    [
        (
            Array(2, 3, dtype="f16"),
            TensorFacts(ptr=0x10000, shape=(2, 3), stride=(3, 1), dtype="f16", device=0),
        ),
        (
            Array(2, 3, stride=(-3, 1), device=2),
            TensorFacts(ptr=0x10000, shape=(2, 3), stride=(-3, 1), dtype="f32", device=2),
        ),
        (
            Array(4, dtype="bf16"),
            TensorFacts(ptr=0x10000, shape=(4,), stride=(1,), dtype="bf16", device=0),
        ),
        (
            Array(0, ptr=0, device=None),
            TensorFacts(ptr=0, shape=(0,), stride=(1,), dtype="f32", device=ON_ANY),
        ),
        (
            Array(4, readonly=True),
            TensorFacts(ptr=0x10000, shape=(4,), stride=(1,), dtype="f32", device=0, readonly=True),
        ),
    ],
)
def test_array_interface(array, facts):
    assert tensor_facts(array, nowhere) == facts


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            {"strides": (6,)},
            r"its strides \(6,\) \(bytes\) are no multiples of its element's 4 bytes",
        ),
        ({"strides": (4, 4)}, "has 2 strides for 1 extents"),
        ({"data": 0x10000}, "is malformed: TypeError"),
        ({"mask": object()}, "it is a masked array"),
        ({"shape": "x"}, "is malformed: ValueError"),
    ],
)
def test_array_interfaces_that_cannot_be_read(change, why):
    array = Array(4)
    array.interface.update(change)
    with pytest.raises(UnreadableError, match=why):
        tensor_facts(array, nowhere)
    del array.interface["typestr"]
    with pytest.raises(UnreadableError, match="malformed"):
        tensor_facts(array, nowhere)


class JaxDevice:
    """A device of JAX: `id` counts the devices of all processes, `local_hardware_id` those of this
    one.
    """

    def __init__(self, number, local, platform="gpu"):
        self.id, self.local_hardware_id, self.platform = number, local, platform


def test_a_device_is_a_number_of_this_process():
    array = Array(4)
    array.device = JaxDevice(9, 1)
    assert tensor_facts(array, nowhere).device == 1
    array.device = JaxDevice(9, None)
    assert tensor_facts(array, lambda address: {0x10000: 3}[address]).device == 3, (
        "the driver is asked"
    )
    array.device.local_hardware_id = True
    assert tensor_facts(array, lambda _: 2).device == 2, "True is no number of a device"


@pytest.mark.parametrize(("step", "stride"), [(1, (16, 1)), (2, (32, 1))])
def test_an_array_of_structs_is_its_bytes(step, stride):
    structs = np.zeros(8, [("low", "u8"), ("high", "u8")])[::step]
    array = Array(len(structs))  # as numba's device arrays are: no `descr`
    array.dtype, array.interface["typestr"] = structs.dtype, "|V16"
    array.interface["strides"] = None if step == 1 else structs.strides
    for found in (tensor_facts(array, nowhere), tensor_facts(structs, nowhere)):
        assert (found.dtype, found.shape, found.stride) == ("u8", (len(structs), 16), stride)


class Parameter(Tensor):
    __module__ = "torch.nn.parameter"


@pytest.mark.parametrize("cls", [Tensor, Parameter])
def test_torch_tensors_are_read_without_torch(cls):
    assert "torch" not in sys.modules
    tensor = cls((8, 4), 0x40000, (6, 1), "torch.bfloat16", index=1)
    assert tensor_facts(tensor, nowhere) == TensorFacts(
        ptr=0x40000, shape=(8, 4), stride=(6, 1), dtype="bf16", device=1
    )
    assert tensor_facts(cls((8, 4)), nowhere).stride == (4, 1)
    assert tensor_facts(cls((8,), index=-1), nowhere).device == ON_CPU


class Fake(Tensor):
    __module__ = "torch"

    def data_ptr(self):
        raise RuntimeError("Cannot access data pointer of a fake tensor")


@pytest.mark.parametrize(
    ("tensor", "why"),
    [
        (
            Tensor((4,), layout="torch.sparse_coo"),
            "layout torch.sparse_coo, and only strided ones have one address",
        ),
        (Tensor((4,), step=(2,), negative=True), "lazily negated or conjugated"),
        (Tensor((4,), negative=True), "lazily negated or conjugated"),
        (Fake((4,)), "Fake that cannot be read: Cannot access data pointer of a fake tensor"),
        (3, "^got a int$"),
        (None, "^got None$"),
        (types, "^got a module$"),
    ],
)
def test_what_cannot_be_read(tensor, why):
    with pytest.raises(UnreadableError, match=why):
        tensor_facts(tensor, nowhere)


@pytest.mark.parametrize(
    "protocol", ["__cuda_array_interface__", "__dlpack__", "__array_interface__"]
)
def test_arrays_of_jax_are_not_written(protocol):
    """They never change, and no protocol has a word for that."""
    array = np.zeros(8, np.float32)
    interface = {
        "shape": (8,),
        "typestr": "<f4",
        "data": (0x1000, False),
        "version": 3,
        "strides": None,
    }
    given = {
        "__cuda_array_interface__": {"__cuda_array_interface__": interface},
        "__dlpack__": {
            "__dlpack__": lambda _, **how: array.__dlpack__(),
            "__dlpack_device__": lambda _: (1, 0),
            "dtype": "float32",
        },
        "__array_interface__": {
            "__array_interface__": array.__array_interface__,
            "__dlpack__": array.__dlpack__,
            "__dlpack_device__": lambda _: (1, 0),
            "dtype": "float32",
        },
    }[protocol]
    for module, readonly in (("jaxlib._jax", True), ("jax._src.array", True), ("cupy", False)):
        kind = type("ArrayImpl", (), {"__module__": module, **given})
        assert tensor_facts(kind(), lambda _: 0).readonly is readonly
