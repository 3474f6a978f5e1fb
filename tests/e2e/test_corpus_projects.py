"""What users bring - the kernels that the CUDA samples, Triton's tutorials and numba's
documentation teach - built with no GPU.

Their results are a matter of tests/gpu/test_corpus.py. Here every kernel has code for every target,
every reference gives what its kernel writes, and every case is launched as its manifest says, on a
driver that looks at the launch.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.corpus_projects import CORPORA, TARGETS, Corpus, results
from tests.e2e.harness import Cli, copied
from tests.runtime_samples import fake_driver
from tilec.case.functions import Functions
from tilec.case.inputs import make_inputs
from tilec.case.reference import expected_results
from tilec.testing.fake_driver import FakeDriver
from tilec_runtime import load
from tilec_runtime.bundle.read import Bundle

pytestmark = [pytest.mark.e2e, pytest.mark.toolchain, pytest.mark.long]


@pytest.fixture(scope="module", params=CORPORA, ids=lambda corpus: corpus.name)
def corpus(request: pytest.FixtureRequest) -> Corpus:
    found: Corpus = request.param
    if found.needs:
        pytest.importorskip(found.needs)
    return found


@pytest.fixture(scope="module")
def bundle(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Bundle:
    root = copied(corpus.root, tmp_path_factory.mktemp(corpus.name) / "project")
    cli.good(root, "build")
    return Bundle.open(Path(root, corpus.bundle))


@pytest.fixture(scope="module")
def driver(bundle: Bundle) -> FakeDriver:
    """Knows every entry point, and computes nothing."""
    return fake_driver(*bundle.info.kernels)


def test_every_kernel_is_built_for_every_target(corpus: Corpus, bundle: Bundle) -> None:
    built = {
        v.id: tuple(str(i.target) for i in v.images)
        for k in bundle.info.kernels
        for v in k.variants
    }
    # Blocks of a cluster share memory from sm_90 on.
    assert built == {
        variant: TARGETS[1:] if variant == "cluster_histogram" else TARGETS for variant in built
    }
    assert {k.name for k in bundle.info.kernels} == {k.name for k in corpus.manifest().kernels}


def test_every_reference_gives_what_its_kernel_writes(
    corpus: Corpus, bundle: Bundle, driver: FakeDriver
) -> None:
    cases = corpus.cases(load(bundle, 0, driver=driver))
    assert {case.kernel for case in cases} == {k.name for k in bundle.info.kernels} - set(
        corpus.without_case
    )
    functions = Functions(str(corpus.root))
    for case in cases:
        inputs = make_inputs(case)
        expected = expected_results(case, inputs, functions)
        assert {name: array.shape for name, array in expected.items()} == {
            name: np.shape(inputs[name]) for name in case.outs
        }, case.name
        for name, array in expected.items():
            assert array.size, case.name
            assert np.isfinite(array.astype(np.float64)).all(), f"{case.name}: {name}"
            assert array.tobytes() != np.asarray(inputs[name]).tobytes(), (
                f"{case.name}: {name}: a kernel that does nothing would pass"
            )


def test_every_case_is_launched_as_its_manifest_says(
    corpus: Corpus, bundle: Bundle, driver: FakeDriver
) -> None:
    module = load(bundle, 0, driver=driver)
    cases, before = corpus.cases(module), len(driver.launches)
    assert [
        (r.case.name, r.status, str(r.error))
        for r in results(corpus, cases, module, driver)
        if r.status != "failed"
    ] == []
    assert len(driver.launches) - before == len(cases)
