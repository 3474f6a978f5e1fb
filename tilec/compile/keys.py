"""Cache keys: all inputs of a compilation, for digests and for explanations."""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from tilec.model.declaration import KernelDecl, ParamDecl
from tilec.model.job import InputFile, Job, KernelSpec, Source, Variant
from tilec_runtime.model.arch import Target
from tilec_runtime.model.kernel import ToolInfo
from tilec_runtime.model.signature import Assumption, Param

#: Version of tilec's own compilation. A change makes earlier cache entries unused.
RECIPE = 7

#: Version of tilec's own declaration of sources.
READING = 4

#: Fields that do not affect a compilation. All other fields of a job's dataclasses are in the key.
EXEMPT: Mapping[type, frozenset[str]] = {
    Source: frozenset({"root"}),
    KernelSpec: frozenset({"timeout"}),
    # The effect of `together` is the job's group. The other fields affect the job's own values, or
    # nothing that is compiled.
    KernelDecl: frozenset(
        (
            "location",
            "doc",
            "together",
            "axes",
            "grid",
            "grid_free",
            "requires",
            "alike",
            "safety",
            "unproven",
            "unfollowed",
            "refused",
            "named",
            "simt",
            "block",
            "kinds",
            "typed",
            "configs",
            "note",
        )
    ),
    # Only operators use `read`, and only messages use the others.
    ParamDecl: frozenset({"location", "read", "reads", "formula", "address"}),
    Param: frozenset({"doc", "optional"}),  # assumptions have the tensors that are None
}

# First words of rows that do not come from a key of the manifest.
_NOT_SET = ("tool", "input", "declared", "param")

T = TypeVar("T")
Row = tuple[str, Any]
# A function that yields some rows of an explanation, and its arguments, which jobs share.
Part = tuple[Callable[..., Iterable[Row]], tuple[object, ...]]
Explained = tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A changed row of an explanation; None stands for a row that is new or gone."""

    label: str
    before: str | None
    after: str | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class KeyedJob:
    """A job with its cache key.

    Attributes:
        job: the job.
        key: its key.
        inputs: `inputs_digest` of `files`.
        files: the files that the key covers.
        tools: the tools that the key covers.
    """

    job: Job
    key: str
    inputs: str
    files: tuple[InputFile, ...]
    tools: tuple[ToolInfo, ...]


class KeyMaker:
    """Computes the keys of one build's jobs; parts that jobs share are hashed once.

    Args:
        tools: tools by language.
        inputs: input files by kernel.
    """

    def __init__(
        self,
        *,
        tools: Mapping[str, Sequence[ToolInfo]],
        inputs: Mapping[str, Sequence[InputFile]],
    ) -> None:
        self._tools = tools
        self._inputs = inputs
        # By identity, since jobs share these objects. An entry keeps its objects alive, so that no
        # identity is reused.
        self._memo: dict[tuple[object, ...], tuple[object, object]] = {}

    def key(self, job: Job) -> str:
        """Return the job's key: hex SHA-256 over every row of its explanation."""
        kernel, variant, rest = self._parts(job)
        digest = self._once(_hashed, kernel).copy()
        digest.update(self._once(_encoded, variant))
        digest.update(self._once(_encoded, rest))
        return str(digest.hexdigest())

    def keyed(self, jobs: Iterable[Job]) -> tuple[KeyedJob, ...]:
        """Return jobs with their keys."""
        tools = {language: tuple(infos) for language, infos in self._tools.items()}
        covered = {
            name: (inputs_digest(files), tuple(files)) for name, files in self._inputs.items()
        }
        keyed = []
        for job in jobs:
            inputs, files = covered[job.spec.name]
            keyed.append(
                KeyedJob(
                    job=job,
                    key=self.key(job),
                    inputs=inputs,
                    files=files,
                    tools=tools[job.spec.language],
                )
            )
        return tuple(keyed)

    def explain(self, job: Job) -> Explained:
        """Return the rows that are hashed into the job's key, as (label, value) in order."""
        return tuple(
            (label, _text(value))
            for rows, values in self._parts(job)
            for label, value in rows(*values)
        )

    def settings(self, jobs: Iterable[Job]) -> dict[str, dict[str, str]]:
        """Return, by kernel, the rows set by the manifest that all of its jobs share."""
        by_kernel: dict[str, dict[str, str]] = {}
        for spec in {id(job.spec): job.spec for job in jobs}.values():
            rows = {
                label: _text(value)
                for label, value in self._kernel_rows(spec)
                if label.partition(" ")[0] not in _NOT_SET
            }
            common = by_kernel.setdefault(spec.name, rows).items() & rows.items()
            by_kernel[spec.name] = dict(sorted(common))
        return by_kernel

    def snapshot(self, jobs: Iterable[Job]) -> dict[str, Any]:
        """Return the explanations of jobs as JSON for `recall`.

        Each shared part appears once.
        """
        parts: dict[str, int] = {}
        index = {}
        for job in jobs:
            texts = [self._once(_written, part) for part in self._parts(job)]
            index[job.id] = [parts.setdefault(text, len(parts)) for text in texts]
        return {"parts": [json.loads(text) for text in parts], "jobs": index}

    def _once(self, make: Callable[[Iterable[Row]], T], part: Part) -> T:
        """Return `make` of a part's rows.

        It is computed once for all jobs that share the values.
        """
        rows, values = part
        identity = (make, *map(id, values))
        if identity not in self._memo:
            self._memo[identity] = (values, make(rows(*values)))
        return cast("T", self._memo[identity][1])

    def _parts(self, job: Job) -> tuple[Part, Part, Part]:
        return (
            (self._kernel_rows, (job.spec,)),
            (_variant_rows, (job.variant,)),
            (_job_rows, _own(job)),
        )

    def _kernel_rows(self, spec: KernelSpec) -> Iterator[Row]:
        yield "recipe", RECIPE
        for tool in self._tools[spec.language]:
            yield f"tool {tool.name}", [tool.version, tool.digest]
        for name, value in _fields(spec):
            if name == "source":
                yield "source", value.path
                yield from ((f"option {key}", _plain(option)) for key, option in value.options)
            elif name == "params":
                yield from ((f"param {param.name}", _plain(param)) for param in value)
            elif name == "abi":
                yield from ((f"abi {i}", _plain(slot)) for i, slot in enumerate(value))
            elif name == "decl":
                yield from ((f"declared {key}", _plain(part)) for key, part in _fields(value))
            else:
                yield name, _plain(value)
        yield from ((f"input {file.name}", file.digest) for file in self._inputs[spec.name])


def _hashed(rows: Iterable[Row]) -> hashlib._Hash:
    return hashlib.sha256(_encoded(rows))


def _written(rows: Iterable[Row]) -> str:
    return json.dumps([[label, _text(value)] for label, value in rows])


def inputs_digest(inputs: Iterable[InputFile]) -> str:
    """Return one digest of the names and digests of files."""
    return _hashed((file.name, file.digest) for file in inputs).hexdigest()


def declaration_key(
    language: str,
    source: Source,
    *,
    inputs: Sequence[InputFile],
    tools: Sequence[ToolInfo],
) -> str:
    """Return the key of a source's declarations."""
    rows: list[Row] = [
        ("declare", [RECIPE, READING]),
        ("language", language),
        ("source", source.path),
    ]
    rows += [(f"option {name}", _plain(option)) for name, option in source.options]
    rows += [(f"tool {tool.name}", [tool.version, tool.digest]) for tool in tools]
    rows += [(f"input {file.name}", file.digest) for file in inputs]
    return _hashed(rows).hexdigest()


def recall(snapshot: Any, job_id: str) -> Explained | None:
    """Return the explanation of one job out of a snapshot, or None."""
    try:
        indices = snapshot["jobs"][job_id]
        return tuple(
            (str(label), str(value))
            for index in indices
            for label, value in snapshot["parts"][index]
        )
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def explain_change(
    old: Sequence[tuple[str, str]], new: Sequence[tuple[str, str]]
) -> tuple[Change, ...]:
    """Return the changed rows in the order of `new`, then the missing rows."""
    before, after = dict(old), dict(new)
    return tuple(
        Change(label=label, before=before.get(label), after=after.get(label))
        for label in {**after, **before}
        if before.get(label) != after.get(label)
    )


def _variant_rows(variant: Variant) -> Iterator[Row]:
    for name, value in _fields(variant):
        if name == "axes":
            yield from ((f"axis {axis}", _plain(point)) for axis, point in value)
        elif name == "assume":
            yield from map(_fact_row, value)
        elif name == "let":
            yield from ((f"let {axis}", _plain(derived)) for axis, derived in value)
        else:
            yield f"variant {name}", _plain(value)


def _fact_row(fact: Assumption) -> Row:
    """Return the row of an assumption; the label tells whether the tensor is None.

    Other facts keep the keys from before optional tensors existed.
    """
    plain = _plain(fact)
    return f"{'absent' if plain.pop('absent') else 'assume'} {fact.param}", plain


def _own(job: Job) -> tuple[Any, ...]:
    """Return a job's values without kernel and variant, which jobs share."""
    return tuple(getattr(job, name) for name in _OWN)


def _job_rows(*values: Any) -> Iterator[Row]:
    for name, value in zip(_OWN, values, strict=True):
        if name == "hints":
            yield from ((f"hint {hint}", _plain(setting)) for hint, setting in value)
        elif name == "group":
            # One row per member with the member in its label: a change of the group then shows the
            # new or removed member, and not all members behind it.
            yield from (
                (f"group {json.dumps(_plain(member), ensure_ascii=False)}", "") for member in value
            )
        else:
            yield name, _plain(value)


def _encoded(rows: Iterable[Row]) -> bytes:
    """Encode rows with their lengths, so that different rows give different bytes."""
    parts = []
    for label, value in rows:
        name = label.encode("utf-8", "surrogatepass")
        data = (_quote(value) if isinstance(value, str) else _ENCODER.encode(value)).encode()
        parts.append(b"%d:%d:%b%b" % (len(name), len(data), name, data))
    return b"".join(parts)


_quote = json.encoder.encode_basestring_ascii
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def _text(value: Any) -> str:
    return (
        value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    )


def _fields(value: Any) -> Iterator[Row]:
    return ((name, getattr(value, name)) for name in _walked(type(value)))


def _names(kind: Any) -> tuple[str, ...]:
    exempt = EXEMPT.get(kind, frozenset())
    return tuple(field.name for field in dataclasses.fields(kind) if field.name not in exempt)


_walked: Callable[[Any], tuple[str, ...]] = functools.cache(_names)
_OWN = tuple(name for name in _names(Job) if name not in ("spec", "variant"))


def _plain(value: Any) -> Any:
    """Convert a value for JSON, without exempt fields.

    1, 1.0, true and "1" stay different.
    """
    if isinstance(value, enum.Enum):
        return value.value
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Target):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else ["float", repr(value)]
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return {name: _plain(getattr(value, name)) for name in _walked(type(value))}
