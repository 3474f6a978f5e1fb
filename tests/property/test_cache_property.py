"""The cache against a dictionary, and keys against every pair of different jobs that can be thought
of.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tilec.compile.cache import Cache, index_row
from tilec.compile.keys import KeyMaker, explain_change
from tilec.model.declaration import KernelDecl
from tilec.model.job import InputFile, Job, KernelSpec, Source, Variant
from tilec_runtime.bundle import store
from tilec_runtime.errors import Location
from tilec_runtime.model.arch import Target
from tilec_runtime.model.image import Image, ImageInfo
from tilec_runtime.model.kernel import ToolInfo

NAMES = st.sampled_from(["a", "b", "a b", "", "1:a", "é"])
VALUES = st.one_of(
    st.integers(-2, 2),
    st.booleans(),
    st.sampled_from(["", "a", "1", "true"]),
    st.sampled_from([0.0, -0.0, 1.0, float("inf")]),
)
PAIRS = st.lists(st.tuples(NAMES, VALUES), max_size=3).map(tuple)
OPTIONS = st.lists(
    st.tuples(
        NAMES,
        st.one_of(
            VALUES,
            st.lists(NAMES, max_size=2).map(tuple),
            st.lists(st.tuples(NAMES, NAMES), max_size=2).map(tuple),
        ),
    ),
    max_size=2,
).map(tuple)
INPUTS = st.lists(
    st.builds(lambda n, d: InputFile(name=n, digest=d), NAMES, NAMES), max_size=3
).map(tuple)
TOOLS = st.lists(
    st.builds(lambda n, v, d: ToolInfo(name=n, version=v, digest=d), NAMES, NAMES, NAMES),
    max_size=2,
).map(tuple)


@st.composite
def walks(draw: st.DrawFn) -> tuple[KeyMaker, Job, str]:
    """A key maker, a job, and all that the key has to tell apart, as text."""
    source = Source(
        root=draw(st.sampled_from(["/a", "/b"])), path=draw(NAMES), options=draw(OPTIONS)
    )
    decl = KernelDecl(
        name=draw(NAMES),
        location=Location(file="f"),
        template=draw(st.lists(NAMES, max_size=2).map(tuple)),
    )
    spec = KernelSpec(
        name="k",
        language="l",
        source=source,
        decl=decl,
        symbol=draw(NAMES),
        params=(),
        opt=draw(st.integers(0, 3)),
    )
    hints = tuple((name, value) for name, value in draw(PAIRS) if isinstance(value, int))
    job = Job(
        spec=spec,
        variant=Variant(kernel="k", id="v", axes=draw(PAIRS)),
        target=Target.parse("sm_90"),
        hints=hints,
    )
    tools, inputs = draw(TOOLS), draw(INPUTS)
    maker = KeyMaker(tools={"l": tools}, inputs={"k": inputs})
    told = repr(
        (
            source.path,
            source.options,
            decl,
            spec.symbol,
            spec.opt,
            job.variant,
            job.hints,
            tools,
            inputs,
        )
    )
    return maker, job, told


@given(walks(), walks())
@examples(300)
def test_keys_are_equal_only_when_everything_is(one, two) -> None:
    (maker, job, told), (other_maker, other_job, other_told) = one, two
    assert (maker.key(job) == other_maker.key(other_job)) == (told == other_told)


@given(walks())
@examples(50)
def test_keys_and_explanations_are_reproducible(walk) -> None:
    maker, job, _ = walk
    again = KeyMaker(tools=maker._tools, inputs=maker._inputs)
    assert again.key(job) == maker.key(job)
    assert explain_change(maker.explain(job), again.explain(job)) == ()


KEYS = [hashlib.sha256(str(i).encode()).hexdigest() for i in range(4)]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "get", "break", "drop", "clear", "record"]),
        st.integers(0, 3),
        st.binary(max_size=300),
    ),
    max_size=25,
)


def image_of(data: bytes) -> Image:
    info = ImageInfo(
        target=Target.parse("sm_80"),
        digest=hashlib.sha256(data).hexdigest(),
        size=len(data),
        symbol="s",
    )
    return Image(info=info, data=data, abi=())


@given(STEPS)
@examples(60)
def test_the_cache_gives_back_what_was_put_or_nothing(steps) -> None:
    with tempfile.TemporaryDirectory() as folder:
        notes: list[str] = []
        cache = Cache(Path(folder), note=notes.append)
        model: dict[str, bytes] = {}
        records: dict[str, list[int]] = {}
        for step, number, data in steps:
            key = KEYS[number]
            path = Path(store.path_of(Path(folder), "images", key))
            if step == "put":
                image = image_of(data)
                assert cache.put(key, image, index_row(key, image))
                model[key] = data
            elif step == "drop":
                cache.drop(key)
                model.pop(key, None)
            elif step == "clear":
                cache.clear()
                model.clear()
                records.clear()
            elif step == "record":
                cache.put_record(key, list(data))
                records[key] = list(data)
            elif step == "break" and key in model:
                good = path.read_bytes()
                place = number * 37 % len(good)
                path.write_bytes(good[:place] + data + good[place:] if data else good[:place])
                del model[key]
            entry = cache.get(key)
            assert (entry.blob.read() if entry else None) == model.get(key)
            assert cache.get_record(key) == records.get(key)
        assert cache.info().entries == len(model) + len(records)
