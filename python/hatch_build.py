"""How hatchling builds the package: with the programs of the folder DBQPG_PROGRAMS inside (scripts/wheel.sh), or without."""

import os
import platform
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VERSION = os.environ.get("DBQPG_VERSION", "0.1.0")


class Programs(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if programs := os.environ.get("DBQPG_PROGRAMS"):
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-linux_{platform.machine()}"
            build_data["force_include"][programs] = "dbqpg/programs"
