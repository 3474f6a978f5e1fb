"""Hatchling's hook that compiles the launch core (setup.py describes it) into the wheel, or into the checkout of an editable install."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CoreHook(BuildHookInterface[Any]):
    """Compiles the extension in place and adds it to the wheel; without a C compiler, or with TILEC_NATIVE=0, the wheel is pure."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        """Build before hatchling collects files."""
        if self.target_name != "wheel" or os.environ.get("TILEC_NATIVE") == "0":
            return
        subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=self.root, check=True)
        built = Path("tilec", "runtime", f"_core{sysconfig.get_config_var('EXT_SUFFIX')}")
        if Path(self.root, built).exists():
            build_data["artifacts"].append(str(built))
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
