"""Called by hatchling while it builds a wheel of the platform: compiles the hot loops into it, where a compiler is.

`HOT_LOOPS=compiled` fails where they cannot be compiled, `HOT_LOOPS=plain` leaves them as plain Python; without it, as on a
machine that installs from the source archive, they are compiled where that is possible. A wheel with compiled modules is for one
version of Python, one kind of processor, and a C library at least as new as that of the machine that built it: they need no other
library.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

CHOICES = ("", "compiled", "plain")


def choice() -> str:
    given = os.environ.get("HOT_LOOPS", "")
    if given not in CHOICES:
        raise ValueError(f"HOT_LOOPS = {given!r} is not compiled or plain: set one of them, or leave it out")
    return given


def cython_pin(root: Path) -> str:
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("cython=="))


def tag() -> str:
    """Of wheels for machines like this one. "linux" alone says nothing of the C library, and no index takes it."""
    return str(next(tag for tag in sys_tags() if not tag.platform.startswith("linux")))


class CompiledLoops(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [cython_pin(Path(self.root))] if self._wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`version` is "editable" for a checkout: there `make setup` compiles."""
        if version == "editable" or not self._wanted():
            return
        build_hot, hot_extensions = self._modules()
        folder = hot_extensions.folder().relative_to(self.root)
        # Installers build twice, the first time for the metadata alone: they find what they compiled.
        made = Path(self.root, "build", folder.name)
        if not made.exists():
            unfinished = made.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            try:
                build_hot.build_into(unfinished)
            except (subprocess.CalledProcessError, OSError) as error:
                if choice() == "compiled":
                    raise
                self.app.display_warning(f"The hot loops could not be compiled, the wheel has them as plain Python: {error}")
                return
            unfinished.rename(made)
        build_data["force_include"] |= {str(module): str(folder / module.name) for module in sorted(made.iterdir())}
        build_data["pure_python"] = False
        build_data["tag"] = tag()

    def _wanted(self) -> bool:
        if choice() == "plain":
            return False
        possible: bool = self._modules()[0].possible()
        if choice() == "compiled" and not possible:
            raise ValueError("HOT_LOOPS = compiled needs a C compiler and Python's headers: apt-get install gcc python3-dev")
        return possible

    def _modules(self) -> tuple[Any, Any]:
        """Those of the sources that the wheel is built from, which need nothing but Python."""
        if self.root not in sys.path:
            sys.path.insert(0, self.root)
        from messaging.protocol import build_hot, hot_extensions

        return build_hot, hot_extensions
