"""Property: a launcher that remembers plans does what a launcher that has never seen a call would
do, error messages included.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.amount import examples
from tests.runtime_samples import ADD, GEMM, Array, bundle_of, fake_driver
from tilec_runtime import load
from tilec_runtime.errors import LaunchError

ADD_CALL = (
    "add",
    ({"ptr": 0x10000}, {"ptr": 0x20000}, {"ptr": 0x30000}, 1.5),
    {"shape": (64,), "dtype": "f32"},
)
GEMM_CALL = (
    "gemm",
    ({"ptr": 0x10000}, {"ptr": 0x20000}, {"ptr": 0x30000}),
    {"shape": (64, 64), "dtype": "f16"},
)
# One thing that is different in a call: of one argument, or (None) of all of them.
ADDRESSES = [0x10000, 0x10002, 0x10004, 0x10008, 0x20000, 0x40000, 0x40010]
CHANGES = st.one_of(
    st.tuples(st.sampled_from([0, 1, 2]), st.just("ptr"), st.sampled_from(ADDRESSES)),
    st.tuples(
        st.sampled_from([None, 0, 1]), st.just("extent"), st.sampled_from([0, 1, 8, 16, 48, 128])
    ),
    st.tuples(
        st.sampled_from([None, 0, 1, 2]), st.just("dtype"), st.sampled_from(["f16", "bf16", "f32"])
    ),
    st.tuples(st.sampled_from([0, 1, 2]), st.just("step"), st.sampled_from([0, 2, 80])),
    st.tuples(st.sampled_from([None, 1]), st.just("device"), st.just(1)),
    st.tuples(st.sampled_from([0, 1]), st.just("readonly"), st.just(True)),
    st.tuples(
        st.just(3),
        st.just("scalar"),
        st.sampled_from([0.0, -0.0, 1, True, 1e40, float("nan"), 2**200, "2"]),
    ),
)


def changed(call, changes):
    """(kernel, values) of a call with some changes."""
    name, values, common = call
    arguments = [{**common, **v} if isinstance(v, dict) else v for v in values]
    for place, what, value in changes:
        for index, argument in enumerate(arguments):
            if place not in (None, index):
                continue
            if not isinstance(argument, dict):
                arguments[index] = value if what == "scalar" else argument
            elif what == "extent":
                argument["shape"] = (value,) * len(argument["shape"])
            elif what == "step":
                argument["stride"] = (value,) if len(argument["shape"]) == 1 else (value, 1)
            elif what != "scalar":
                argument[what] = value
    return name, arguments


CALLS = st.builds(
    changed, st.sampled_from([ADD_CALL, GEMM_CALL]), st.lists(CHANGES, min_size=1, max_size=2)
)


BUNDLE = bundle_of(ADD, GEMM)


def loaded():
    driver = fake_driver(ADD, GEMM)
    return load(BUNDLE, driver=driver), driver


def outcome(module, driver, name, values):
    before = len(driver.launches)
    arguments = [
        Array(*v["shape"], **{k: f for k, f in v.items() if k != "shape"})
        if isinstance(v, dict)
        else v
        for v in values
    ]
    try:
        module.kernels[name](*arguments, stream=7)
    except LaunchError as error:
        return type(error), error.what
    return repr(driver.launches[before:])


@examples(60)
@given(st.lists(CALLS, min_size=2, max_size=8))
def test_memory_changes_nothing(calls):
    module, driver = loaded()
    plain = [changed(call, ()) for call in (ADD_CALL, GEMM_CALL)]
    for name, values in [*plain, *calls, *calls]:
        fresh, fresh_driver = loaded()
        assert outcome(module, driver, name, values) == outcome(fresh, fresh_driver, name, values)
