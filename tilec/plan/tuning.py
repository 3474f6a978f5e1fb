"""Check tuning records against a build, and choose the variants to ship."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tilec.manifest.tuning_file import problem_at
from tilec.manifest.types import Kernel, Manifest
from tilec.model.job import InputFile, Source, Variant
from tilec.model.tuning import TunedDevice, TuningRecord
from tilec.plan.expressions import faults_of
from tilec.plan.targets import may_match
from tilec_runtime.errors import Diagnostic
from tilec_runtime.model.digest import canonical_json, sha256
from tilec_runtime.model.kernel import ToolInfo
from tilec_runtime.model.signature import Param
from tilec_runtime.model.table import Point, same_point

# In notes on a tuning file that a build without shipping ignores; commands that run kernels show
# only such notes.
PASSED_OVER = "is passed over, a build would refuse it"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Tuned:
    """A kernel's tuning file, and the kernel and tools that it is compared with.

    Attributes:
        path: path of the file in the project.
        record: its contents.
        kernel_digest: digest of the current kernel.
        tools: current tools of the kernel's language.
    """

    path: str
    record: TuningRecord
    kernel_digest: str
    tools: tuple[ToolInfo, ...]

    def problem(self, where: str, message: str) -> Diagnostic:
        """Return a problem at the value `where` of the file."""
        return problem_at(self.path, where, message)


def check_record(
    tuned: Tuned,
    manifest: Manifest,
    kernel: Kernel,
    params: Sequence[Param],
    variants: Sequence[Variant],
) -> Iterator[Diagnostic]:
    """Yield the reasons to refuse a record.

    If the space of variants has changed, its points are not checked.

    Args:
        tuned: the record.
        manifest: the manifest, whose targets a device's image must be among.
        kernel: the kernel's table.
        params: the launcher's parameters.
        variants: all variants of the matrix.
    """
    record, again = (
        tuned.record,
        f"run `tilec tune {kernel.name}`, or take dispatch.table out of kernel.{kernel.name}",
    )
    if record.kernel != kernel.name:
        yield tuned.problem(
            "kernel",
            f"the file was written for kernel {record.kernel!r}, and kernel.{kernel.name} names it: {again}",
        )
        return
    if record.kernel_digest != tuned.kernel_digest:
        message = "the kernel has changed since it was tuned: its source, a file that it includes or imports, or its table in the manifest"
        look = (
            f"run `tilec tune --confirm {kernel.name}` if its code should be the same; else {again}"
        )
        yield tuned.problem("kernel_digest", f"{message}: {look}")
    if record.space_digest != space_digest(manifest, kernel, variants):
        message = "what there is to choose from has changed since it was tuned: the matrix, assume.sets, or hints"
        yield tuned.problem("space_digest", f"{message}: {again}")
        return
    known = {
        target
        for targets in (manifest.targets.default, *(each for _, each in manifest.targets.groups))
        for target in targets
    }
    for number, device in enumerate(record.devices):
        if device.target not in known:
            message = f"{device.name} was tuned with {device.target}, which is no target of this project: {again}"
            yield tuned.problem(f"devices[{number}].target", message)
    if kernel.sizes and record.sizes != kernel.sizes:
        yield tuned.problem("sizes", f"dispatch.sizes has changed since it was tuned: {again}")
    for number, size in enumerate(record.sizes):
        for why, _ in faults_of(size, params):
            yield tuned.problem(f"sizes[{number}]", why)
    points = {variant.axes for variant in variants}
    for number, device in enumerate(record.devices):
        yield from _check_entries(tuned, number, device, points, _dtype_axes(params))


def _check_entries(
    tuned: Tuned, number: int, device: TunedDevice, points: set[Point], dtypes: set[str]
) -> Iterator[Diagnostic]:
    for index, entry in enumerate(device.entries):
        here = f"devices[{number}].entries[{index}]"
        if not any(
            same_point(point, dict(entry.point)) and len(point) == len(entry.point)
            for point in points
        ):
            shown = ", ".join(f"{name} = {value!r}" for name, value in entry.point)
            yield tuned.problem(
                f"{here}.point", f"{shown or 'no axes'} is no point of the kernel's matrix"
            )
        for before, other in enumerate(device.entries[:index]):
            same = all(
                dict(entry.point).get(name) == dict(other.point).get(name) for name in dtypes
            )
            if same and all(
                low <= top and bottom <= high
                for (low, high), (bottom, top) in zip(entry.ranges, other.ranges, strict=True)
            ):
                message = f"speaks of sizes of which devices[{number}].entries[{before}] speaks too"
                yield tuned.problem(f"{here}.ranges", message)


def newer_tools(tuned: Tuned) -> Iterator[str]:
    """Yield a note on a record that was measured with other versions of tools."""
    then = {tool.name: tool.version for tool in tuned.record.toolchain}
    changed = [tool for tool in tuned.tools if then.get(tool.name, tool.version) != tool.version]
    if changed:
        before = ", ".join(f"{tool.name} {then[tool.name]}" for tool in changed)
        now = ", ".join(f"{tool.name} {tool.version}" for tool in changed)
        yield f"{tuned.path} was measured with {before}, this build has {now}: `tilec tune` says whether its choices still hold"


def winners(
    kernel: Kernel, params: Sequence[Param], variants: Sequence[Variant], record: TuningRecord
) -> tuple[Variant, ...]:
    """Return the variants at winning points, with a fallback for each choice of dtypes.

    The fallback is the default's point, or the first of the matrix. All assumption sets of a
    point stay.
    """
    won = {
        entry.point for device in record.devices for entry in device.entries
    }  # including targets that are not built, so that all builds ship the same variants
    dtypes, default = _dtype_axes(params), dict(kernel.default)
    kept = {point for variant in variants if _same(point := variant.axes, won)}
    fallback: dict[Point, Point] = {}
    for variant in variants:
        if same_point(variant.axes, default):
            fallback.setdefault(
                tuple(pair for pair in variant.axes if pair[0] in dtypes), variant.axes
            )
    for variant in variants:
        fallback.setdefault(tuple(pair for pair in variant.axes if pair[0] in dtypes), variant.axes)
    kept.update(fallback.values())
    kept.update(
        variant.axes
        for rule in kernel.rules
        for variant in variants
        if same_point(variant.axes, dict(rule.take))
    )
    return tuple(variant for variant in variants if variant.axes in kept)


def _same(point: Point, others: set[Point]) -> bool:
    """Return whether a point is among others; the order of axes does not matter."""
    return any(len(point) == len(other) and same_point(point, dict(other)) for other in others)


def _dtype_axes(params: Sequence[Param]) -> set[str]:
    return {param.dtype for param in params}


def kernel_digest(kernel: Kernel, source: Source, inputs: Iterable[InputFile]) -> str:
    """Return the digest of a kernel's files and of its table without the matrix.

    Args:
        kernel: the manifest's table.
        source: its source, with the language's options.
        inputs: files that its compiles read; files of toolkits are left out, since the toolchain
            covers them.
    """
    files = sorted((file.name, file.digest) for file in inputs if not file.name.startswith("<"))
    parts = (
        kernel.source,
        kernel.function,
        kernel.symbol,
        kernel.language,
        kernel.params,
        kernel.args,
        kernel.launch,
        kernel.checks,
    )
    return sha256(canonical_json(_plain(("kernel", files, source.options, parts))))


def space_digest(manifest: Manifest, kernel: Kernel, variants: Sequence[Variant]) -> str:
    """Return the digest of the points, assumption sets and hints to choose from.

    Args:
        manifest: the manifest, whose overrides may change hints.
        kernel: the kernel's table.
        variants: all variants of its matrix.
    """
    points = sorted(((v.id, v.constants, v.assume) for v in variants), key=lambda point: point[0])
    ids = [kernel.name, *(variant.id for variant in variants)]
    rules = [
        (rule.select, rule.hints)
        for rule in manifest.overrides
        if rule.hints and any(may_match(rule.select, name) for name in ids)
    ]
    return sha256(canonical_json(_plain(("space", points, kernel.hints, rules))))


def cases_digest(kernel: Kernel) -> str:
    """Return the digest of the cases that candidates are measured with and compared to."""
    parts = [
        (case.name, case.inputs, case.axes, case.reference, case.tolerance) for case in kernel.cases
    ]
    return sha256(
        json.dumps(_plain(("cases", parts)), sort_keys=True).encode()
    )  # inputs may be infinite, or NaN


def _plain(value: Any) -> Any:
    """Return a value as JSON, without fields at their defaults.

    A field that a later version of tilec adds thus changes no digest.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = ((field, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {field.name: _plain(item) for field, item in held if item != field.default}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
