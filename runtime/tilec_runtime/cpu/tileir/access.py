"""Loads and stores through views, of whole tiles if possible, else of elements."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from tilec_runtime.cpu.tileir.elements import (
    UPPER,
    Elements,
    Garbage,
    Kind,
    advanced,
    gather,
    scatter,
)
from tilec_runtime.cpu.tileir.frame import (
    AccessKind,
    Binder,
    Bodies,
    Frame,
    Observer,
    Outside,
    Step,
)
from tilec_runtime.cpu.tileir.ir import Op, View
from tilec_runtime.cpu.tileir.tiles import TilePlan, plan
from tilec_runtime.cpu.tileir.values import Array, layout
from tilec_runtime.cpu.tileir.views import Tensor, starts_of, view_type


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ViewAccess:
    """The constant part of an operation on a view.

    Attributes:
        kind: properties of the access.
        view: type of the view.
        checked: per dimension of the tile, whether elements outside the tensor are masked. Along
            other dimensions the operation declares that all elements are in bounds.
        starts: computes the first index of each tile per dimension.
    """

    kind: Kind
    view: View
    checked: tuple[bool, ...]
    starts: Callable[[Frame], list[Array]]

    @classmethod
    def of(cls, op: Op, kind: AccessKind) -> ViewAccess:
        """Derive the access from an operation with a view and indices."""
        view = view_type(op)
        promised = op.attributes.get("inbounds", ())
        return cls(
            kind=Kind.of(op, layout(view.tensor.element), kind),
            view=view,
            checked=tuple(not item for item in promised) if promised else (True,) * len(view.tile),
            starts=starts_of(view, op),
        )

    def plan(self, frame: Frame, tensor: Tensor, starts: list[Array]) -> TilePlan | None:
        """Plan the access of whole tiles, or return None for accesses of elements.

        A sparse tile becomes one tile per index along its sparse dimension.
        """
        kind, view = self.kind, self.view
        if (
            kind.layout.packed
            or frame.launch.options.observer is not None
            or frame.launch.options.undetermined.blocks is not None
        ):
            return None
        tile = view.tile
        if view.sparse is not None:
            tensor, starts = _spread(tensor, starts, view.sparse)
            tile = tuple(1 if axis == view.sparse else extent for axis, extent in enumerate(tile))
        tile_plan = plan(
            frame.launch.memory,
            tensor,
            starts,
            tile,
            view.dims,
            kind.layout.size,
            self.checked,
            kind.writes,
        )
        # If elements of several boxes or of one tile can have the same address, only a sequential
        # store leaves the last element there.
        meeting = (
            tile_plan is not None
            and kind.writes
            and (not tile_plan.injective or (len(tile_plan.boxes) > 1 and view.overlaps))
        )
        return None if meeting else tile_plan

    def disjoint(self, frame: Frame, tensor: Tensor, starts: list[Array]) -> bool:
        """Whether no two blocks access the same element; valid only if there is a plan."""
        if self.view.sparse is not None or self.view.overlaps or len(tensor.base) > 1:
            return False
        places = np.stack(np.broadcast_arrays(*starts))
        return np.unique(places, axis=1).shape[1] == frame.size

    def elements(self, frame: Frame, tensor: Tensor, starts: list[Array]) -> Elements:
        """Return the single elements of the tiles; elements outside the tensor are masked."""
        view, unit = self.view, 1 if self.kind.layout.packed else self.kind.layout.size
        column = (-1, *(1,) * len(view.tile))
        firsts, tails = np.zeros(column[1:], np.int64)[None], np.zeros(column[1:], np.int64)[None]
        mask, broken = np.ones(firsts.shape, np.bool_), np.zeros(firsts.shape, np.bool_)
        places = [self._places(axis, start) for axis, start in enumerate(starts)]
        for (first, along), dim, checked in zip(places, view.dims, self.checked, strict=True):
            stride, extent = (
                (tensor.strides[:, dim] * unit).reshape(column),
                tensor.extents[:, dim].reshape(column),
            )
            firsts, tails = firsts + first * stride, tails + along * stride
            if (first >= 0).all() and (first + along.size <= extent).all():
                continue
            inside = (first + along >= 0) & (first + along < extent)
            if checked:
                mask = mask & inside
            else:
                broken = broken | ~inside
        base = tensor.base.reshape(column)
        addresses = (
            advanced(base, firsts + tails) if self.kind.layout.packed else base + firsts + tails
        )
        if frame.launch.options.observer is not None:
            self._tell_lost(frame.launch.options.observer, frame, tensor, places, addresses, mask)
        broken = broken & mask
        shape = np.broadcast_shapes(addresses.shape, broken.shape)
        return Elements(
            kind=self.kind,
            frame=frame,
            addresses=np.broadcast_to(addresses, shape),
            mask=None if mask.all() else np.broadcast_to(mask, shape),
            index=lambda where: _index(where, places, view.dims, tensor, shape),
            promised=np.broadcast_to(broken, shape) if broken.any() else None,
        )

    def _tell_lost(
        self,
        observer: Observer,
        frame: Frame,
        tensor: Tensor,
        places: list[tuple[Array, Array]],
        addresses: Array,
        mask: Array,
    ) -> None:
        """Report tiles without any element inside the tensor.

        They are padding here, but languages leave their effect on a GPU undefined.
        """
        lost = ~mask.any(axis=tuple(range(1, mask.ndim)))
        if not lost.any():
            return
        tile, dims = self.view.tile, self.view.dims
        shape = (frame.size, *tile)
        rows = np.flatnonzero(np.broadcast_to(lost, (frame.size,)))
        where = (rows, *(np.zeros_like(rows) for _ in tile))
        index, extents = _index(where, places, dims, tensor, shape)
        observer.outside(
            Outside(
                op=self.kind.op,
                frame=frame,
                kind=self.kind.kind,
                rows=rows,
                addresses=np.broadcast_to(addresses, shape)[where] & ~UPPER,
                index=index,
                shape=extents,
                promised=False,
                tile=tuple(tile[dims.index(dim)] for dim in range(len(tile))),
            )
        )

    def _places(self, axis: int, start: Array) -> tuple[Array, Array]:
        """Return the indices along a tile dimension: first of each tile, and offsets."""
        rank = len(self.view.tile)
        shape = tuple(-1 if item == axis else 1 for item in range(rank))
        if axis == self.view.sparse:
            return start.reshape(len(start), *shape), np.zeros((1,) * (rank + 1), np.int64)
        return start.reshape(-1, *(1,) * rank), np.arange(self.view.tile[axis]).reshape(1, *shape)

    def gathered(self, elements: Array) -> Array:
        """Join the tiles of single indices from `plan` to sparse tiles."""
        sparse, tile = self.view.sparse, self.view.tile
        if sparse is None:
            return elements
        rest = tile[:sparse] + tile[sparse + 1 :]
        return np.moveaxis(elements.reshape(-1, tile[sparse], *rest), 1, sparse + 1)

    def scattered(self, raw: Array, rows: int) -> Array:
        """Split sparse tiles into `rows` tiles of single indices, to reverse `gathered`.

        If all blocks have the same indices, the value of the last block is used.
        """
        sparse, tile = self.view.sparse, self.view.tile
        if sparse is None:
            return raw
        if rows == tile[sparse]:
            raw = raw[-1:]
        whole = np.broadcast_to(raw, (rows // tile[sparse], *tile))
        single = tuple(1 if axis == sparse else extent for axis, extent in enumerate(tile))
        return np.moveaxis(whole, sparse + 1, 1).reshape(rows, *single)


def _spread(tensor: Tensor, starts: list[Array], sparse: int) -> tuple[Tensor, list[Array]]:
    """Give each index of a sparse dimension a row of its own."""
    number = starts[sparse].shape[1]
    rows = max(len(item) for item in (*starts, tensor.base, tensor.extents, tensor.strides))

    def repeat(item: Array) -> Array:
        return item if len(item) == 1 else np.repeat(item, number, axis=0)

    every = [repeat(start) for start in starts]
    every[sparse] = np.broadcast_to(starts[sparse], (rows, number)).reshape(-1)
    return Tensor(repeat(tensor.base), repeat(tensor.extents), repeat(tensor.strides)), every


def _index(
    where: tuple[Array, ...],
    places: list[tuple[Array, Array]],
    dims: tuple[int, ...],
    tensor: Tensor,
    shape: tuple[int, ...],
) -> tuple[Array, Array]:
    """Return the tensor indices of some elements of the tiles, and the extents."""
    index = np.zeros((len(where[0]), tensor.extents.shape[1]), np.int64)
    for (first, along), dim in zip(places, dims, strict=True):
        index[:, dim] = np.broadcast_to(first, shape)[where] + np.broadcast_to(along, shape)[where]
    extents = tensor.extents if len(tensor.extents) == 1 else tensor.extents[where[0]]
    return index, np.broadcast_to(extents, index.shape)


def _load(op: Op, _bodies: Bodies) -> Step:
    access = ViewAccess.of(op, AccessKind.READ)
    view, result, token = op.operand("view"), op.results[0], op.results[1]
    kind, raw, tile = access.kind.layout, access.kind.layout.raw, access.view.tile
    padding = view_type(op).padding
    stated = (
        None if padding is None else np.full((1,) * (len(tile) + 1), kind.padding(padding), raw)
    )
    garbage = Garbage(op=op, layout=kind, shape=tile)

    def fill(frame: Frame, tensor: Tensor) -> Array:
        return garbage.fill(frame, int(tensor.base[0])) if stated is None else stated

    def step(frame: Frame) -> None:
        tensor, starts = frame.get(view), access.starts(frame)
        planned = access.plan(frame, tensor, starts)
        if planned is not None and planned.complete:
            gathered = access.gathered(planned.load(raw))
        elif planned is not None:
            gathered = access.gathered(
                planned.load(raw, access.scattered(fill(frame, tensor), planned.rows))
            )
        else:
            elements = access.elements(frame, tensor, starts)
            gathered = gather(elements)
            if elements.mask is not None:
                gathered = np.where(elements.mask, gathered, fill(frame, tensor))
        frame.set(result, kind.decode(gathered))
        frame.set(token, None)

    return step


def _store(op: Op, _bodies: Bodies) -> Step:
    access = ViewAccess.of(op, AccessKind.WRITE)
    view, value, token = op.operand("view"), op.operand("value"), op.results[0]

    def step(frame: Frame) -> None:
        tensor, starts = frame.get(view), access.starts(frame)
        raw = access.kind.layout.encode(frame.get(value))
        planned = access.plan(frame, tensor, starts)
        if planned is not None:
            planned.store(access.scattered(raw, planned.rows))
        else:
            scatter(access.elements(frame, tensor, starts), raw)
        frame.set(token, None)

    return step


BINDERS: dict[str, Binder] = {"load_view_tko": _load, "store_view_tko": _store}
