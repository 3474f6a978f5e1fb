"""Small kernels as the bundle's index describes them, in a bundle in memory, and foreign tensors to
call them with.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

from tilec.testing.fake_driver import H200, FakeDriver, FakeKernel
from tilec_runtime import Module, Tensor, load
from tilec_runtime.bundle.read import Bundle
from tilec_runtime.errors import Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.digest import sha256
from tilec_runtime.model.dtype import DTYPES
from tilec_runtime.model.image import ImageInfo
from tilec_runtime.model.kernel import BundleInfo, KernelInfo, LaunchInfo, PackageInfo, VariantInfo
from tilec_runtime.model.signature import AbiSlot, Assumption, Param, ParamKind

TENSOR, SCALAR, PTR, STRUCT = ParamKind.TENSOR, ParamKind.SCALAR, ParamKind.PTR, ParamKind.STRUCT
IMAGES: dict[str, bytes] = {}


def slot(type_: str, expr: str, size: int = 0) -> AbiSlot:
    size = size or (8 if type_ == "ptr" else DTYPES[type_].bytes)
    return AbiSlot(type=type_, expr=expr, size=size, align=min(size, 8))


def image(symbol: str, target: str = "sm_90", **facts: Any) -> ImageInfo:
    data = f"image of {symbol} for {target}".encode()
    digest = sha256(data)
    IMAGES[digest] = data
    return ImageInfo(
        target=Target.parse(target), digest=digest, size=len(data), symbol=symbol, **facts
    )


def kernel(
    name: str, params: tuple[Param, ...], variants: tuple[VariantInfo, ...], **facts: Any
) -> KernelInfo:
    return KernelInfo(
        name=name,
        language="cuda",
        location=Location(file=f"{name}.cu", line=1),
        params=params,
        variants=variants,
        **facts,
    )


ADD_ABI = (
    slot("ptr", "z.ptr"),
    slot("ptr", "x.ptr"),
    slot("ptr", "y.ptr"),
    slot("i32", "z.shape[0]"),
    slot("f32", "alpha"),
)
ADD_PARAMS = (
    Param(name="z", kind=TENSOR, dtype="f32", rank=1, out=True, doc="sum"),
    Param(name="x", kind=TENSOR, dtype="f32", rank=1),
    Param(name="y", kind=TENSOR, dtype="f32", rank=1),
    Param(name="alpha", kind=SCALAR, dtype="f32", default=1.0),
)
ADD = kernel(
    "add",
    ADD_PARAMS,
    (
        VariantInfo(
            id="add-a16",
            assume=tuple(Assumption(param=p, shape=(16,), align=16) for p in "zxy"),
            abi=ADD_ABI,
            images=(image("add_fast"),),
        ),
        VariantInfo(id="add", abi=ADD_ABI, images=(image("add_any"), image("add_any", "sm_80"))),
    ),
    doc="Adds two vectors.",
    launch=LaunchInfo(
        grid=("cdiv(z.shape[0], 256)",),
        block=("256",),
        requires=("x.shape[0] == z.shape[0]", "y.shape[0] == z.shape[0]"),
    ),
)

GEMM_ABI = (
    slot("ptr", "c.ptr"),
    slot("i32", "c.shape[0]"),
    slot("i32", "c.stride[0]"),
    slot("ptr", "a.ptr"),
    slot("i64", "a.stride[0]"),
    slot("ptr", "b.ptr"),
)
GEMM = kernel(
    "gemm",
    (
        Param(name="c", kind=TENSOR, dtype="T", rank=2, out=True, stride=(None, 1)),
        Param(name="a", kind=TENSOR, dtype="T", rank=2, stride=(None, 1)),
        Param(name="b", kind=TENSOR, dtype="T", rank=2),
    ),
    tuple(
        VariantInfo(
            id=f"gemm-{t}-BM{bm}",
            axes=(("T", t), ("BM", bm), ("BK", 64)),
            abi=GEMM_ABI,
            images=(image(f"gemm_{t}_{bm}"),),
        )
        for t, bm in (("f16", 64), ("f16", 128), ("bf16", 128))
    ),
    axes=(("T", ("f16", "bf16")), ("BM", (64, 128)), ("BK", (64,))),
    dtype_axes=("T",),
    default=(("BM", 128),),
    launch=LaunchInfo(
        grid=("cdiv(c.shape[0], BM)", "cdiv(c.shape[1], BM)"),
        block=("128",),
        requires=("a.shape[1] == b.shape[0]",),
    ),
)


def bundle_of(*kernels: KernelInfo) -> Bundle:
    info = BundleInfo(
        package=PackageInfo(name="sample", version="1.0", module="sample"), kernels=kernels
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.tilec"
        from tilec.package.write import write_bundle  # processes that only launch go without it

        write_bundle(path, info, IMAGES.__getitem__)
        return Bundle.open(path.read_bytes())


def fake_driver(*kernels: KernelInfo, devices: Any = (H200,), **facts: Any) -> FakeDriver:
    symbols = {
        i.symbol: FakeKernel(abi=v.abi, **facts)
        for k in kernels
        for v in k.variants
        for i in v.images
    }
    return FakeDriver(devices, symbols)


def loaded(
    *kernels: KernelInfo, devices: Any = (H200,), device: int = 0, **facts: Any
) -> tuple[Module, FakeDriver]:
    driver = fake_driver(*kernels, devices=devices, **facts)
    return load(bundle_of(*kernels), device, driver=driver), driver


def on_gpu(driver: Any, *shape: int, dtype: str = "f32") -> Tensor:
    """A tensor of tilec's on a fake GPU."""
    return Tensor.uninitialized(shape, dtype, driver=driver, ordinal=0, stream=0)


def steps(driver: FakeDriver) -> list[tuple[str, int | None]]:
    """Calls of a driver and their streams since the last look."""
    found = [(step.call, step.stream) for step in driver.steps]
    driver.steps.clear()
    return found


@dataclasses.dataclass
class Device:
    id: int = 0


class Array:
    """A foreign tensor with `__cuda_array_interface__`, at an address of no memory: nothing here
    reads it.
    """

    def __init__(
        self,
        *shape: int,
        dtype: str = "f32",
        ptr: int = 0x10000,
        stride: tuple[int, ...] | None = None,
        device: int | None = 0,
        readonly: bool = False,
    ) -> None:
        row = DTYPES[dtype]
        self.dtype = row.numpy
        if device is not None:
            self.device = Device(device)
        strides = None if stride is None else tuple(s * row.bytes for s in stride)
        typestr = row.typestr or f"<V{row.bytes}"
        self.interface = {
            "shape": shape,
            "typestr": typestr,
            "data": (ptr, readonly),
            "strides": strides,
            "version": 3,
        }

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.interface
