"""The launch core, for its tests: they skip where it was not built, unless the gate asks for it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tilec.runtime import native

core: Any = native.CORE
if core is None and os.environ.get("TILEC_NATIVE_STRICT", "0") in ("", "0"):
    pytest.skip("the launch core was not built, or is turned off", allow_module_level=True)
