"""A frontend whose tools depend on the machine, and that can take its Dask worker down with it."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Sequence

from tilec.model.job import Job
from tilec.testing.fakes import FakeFrontend
from tilec_runtime.model.image import Image
from tilec_runtime.model.kernel import ToolInfo


class MachineFrontend(FakeFrontend):
    """The fake frontend, with `fakec` of the version that the variable FAKEC gives.

    Its option `fatal` kills the process that started this one, for jobs whose id contains its value.
    """

    def toolchain(self) -> Sequence[ToolInfo]:
        version = os.environ.get("FAKEC", "1.0")
        digest = hashlib.sha256(f"fakec {version}".encode()).hexdigest()
        return (ToolInfo(name="fakec", version=version, digest=digest),)

    def compile(self, job: Job) -> Image:
        if dict(job.spec.source.options).get("fatal", "nothing") in job.id:
            time.sleep(0.3)  # a machine's memory fills in some time too
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(600)
        return super().compile(job)
