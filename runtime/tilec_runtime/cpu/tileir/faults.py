"""Errors of a launch, with operation, block, parameter, element and next step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from tilec_runtime.cpu.tileir.frame import AccessKind, Frame, Outside
from tilec_runtime.cpu.tileir.ir import Op
from tilec_runtime.cpu.tileir.memory import MemoryRegion
from tilec_runtime.cpu.tileir.values import Array
from tilec_runtime.errors import FaultError, InternalError, TilecError, TileIRError

_VERBS = {AccessKind.READ: "reads", AccessKind.WRITE: "writes", AccessKind.ATOMIC: "updates"}
_CHECK = "run `tilec sanitize --device cpu` to see every such access"


def outside(access: Outside, size: int) -> NoReturn:
    """Raise the error for the first of the elements out of bounds."""
    address = int(access.addresses[0])
    near = access.frame.launch.memory.nearest(address)
    name = near.name if near is not None else ""
    if access.index is not None and access.shape is not None:
        index = tuple(int(item) for item in access.index[0])
        shape = tuple(int(item) for item in access.shape[0])
        message = f"element {_tuple(index)} of a view with extents {_tuple(shape)}"
        if access.promised:
            message += ", though it is declared in bounds"
            cause = (
                "the load or store was told not to check bounds, and its tile goes past the tensor"
            )
            fix = "check bounds, or launch only blocks whose tiles lie inside the tensor"
        else:
            message += f", which {_beside(near, address, size)}"
            cause = "the extents or strides that the view was made with describe more memory than the parameter has"
            fix = "pass the array's own shape and strides to the kernel"
    else:
        index = near.element(address - near.address) if near is not None else ()
        message = f"address {address:#x}, which {_beside(near, address, size)}"
        cause = "an index is out of range, or a mask lets it through"
        fix = f"compare the index with the number of elements; {_CHECK}"
    raise fault(
        access.op,
        access.frame,
        int(access.rows[0]),
        f"{_VERBS[access.kind]} {message}",
        cause=cause,
        fix=fix,
        parameter=name,
        index=index,
    )


def misaligned(frame: Frame, op: Op, addresses: Array, which: Array, size: int) -> NoReturn:
    """Raise the error for the first address that is no multiple of the element size."""
    where = _first(which)
    address = int(addresses[where])
    near = frame.launch.memory.find(address)
    name = near.name if near is not None else ""
    message = f"is given address {address:#x}, which is no multiple of the element's {size} bytes"
    if near is not None:
        message += f" (byte {address - near.address} of {near.name})"
    cause = "the pointer was converted from one to smaller elements, or the array does not start at an element's address"
    fix = "start at a multiple of the element's size"
    index = near.element(address - near.address) if near is not None else ()
    raise fault(
        op, frame, int(where[0]), message, cause=cause, fix=fix, parameter=name, index=index
    )


def forbidden(
    frame: Frame, op: Op, region: MemoryRegion, offsets: Array, mask: Array | None
) -> NoReturn:
    """Raise the error for a store to read-only memory."""
    where = _first(np.ones(offsets.shape, np.bool_) if mask is None else mask)
    index = region.element(int(offsets[where]))
    message = f"writes element {_tuple(index)} of {region.name}, which may only be read"
    cause = "the array is read-only, or the variable is constant"
    fix = "pass a writable array, or store to another parameter"
    raise fault(
        op, frame, int(where[0]), message, cause=cause, fix=fix, parameter=region.name, index=index
    )


def _beside(near: MemoryRegion | None, address: int, size: int) -> str:
    """Describe the position of an address relative to the nearest memory."""
    if near is None:
        return "is in no memory of the launch: there is none"
    number = near.data.size // near.itemsize
    count = f"{number} element{'' if number == 1 else 's'}"
    index = _tuple(near.element(address - near.address))
    if near.address <= address < near.end:
        return f"is only partly in {near.name}: element {index} of {count}, where {size} bytes do not fit"
    distance = near.address - address if address < near.address else address - near.end
    if distance > max(4 * near.data.size, 1 << 20):
        return f"is in no memory of the launch; the nearest is {near.name} with {count}"
    return f"is element {index} of {near.name} with {count}"


def _tuple(index: tuple[int, ...]) -> str:
    return str(index[0]) if len(index) == 1 else f"({', '.join(map(str, index))})"


def _first(which: Array) -> tuple[Any, ...]:
    return np.unravel_index(int(np.argmax(which)), which.shape)


def fault(
    op: Op,
    frame: Frame,
    row: int,
    message: str,
    *,
    cause: str = "",
    fix: str = "",
    parameter: str = "",
    index: tuple[int, ...] = (),
) -> FaultError:
    """Return an error of one block.

    The text is kernel, operation, block, then `message`.
    """
    block = frame.place(row)
    kernel = frame.launch.options.kernel
    return FaultError(
        f"{kernel}: {op.name} in block {block}: {message}",
        cause=cause,
        fix=fix,
        kernel=kernel,
        location=op.location,
        block=block,
        parameter=parameter,
        index=index,
    )


def unexpected(error: Exception, op: Op | None, frame: Frame) -> TilecError:
    """Return the error for an unexpected failure of an operation."""
    kernel, name = frame.launch.options.kernel, op.name if op else "an operation"
    where = op.location if op else None
    if isinstance(error, MemoryError):
        return FaultError(
            f"{kernel}: no memory is left for {name}",
            cause=f"{frame.size} blocks run together, and their tiles do not fit",
            fix="let fewer blocks run together",
            kernel=kernel,
            location=where,
        )
    return InternalError(
        f"{kernel}: {name} failed in the interpreter: {type(error).__name__}: {error}",
        cause="tilec has a fault, or the Tile IR does not fit together: tileiras and drivers refuse it then",
        fix="report this with the kernel's Tile IR",
        kernel=kernel,
        location=where,
    )


@contextlib.contextmanager
def fitting(subject: str, op: Op | None = None) -> Iterator[None]:
    """Report what goes wrong in a block as a fault of the Tile IR.

    The reader does not check that operations fit their operands.
    """
    try:
        yield
    except TilecError:
        raise
    except Exception as error:
        raise TileIRError(
            f"Tile IR does not fit together: {subject}: {type(error).__name__}: {error}",
            cause="the compiler that wrote it has a fault (tileiras and drivers refuse this too), or the file is damaged",
            fix="build it again",
            location=op.location if op else None,
        ) from error


def stopped(kernel: str, op: Op | None = None) -> FaultError:
    """Return the error that ends a launch on request."""
    return FaultError(
        f"{kernel}: stopped on request before it was done",
        kernel=kernel,
        location=op.location if op else None,
    )
