"""Compiles `hot.py` beside itself with Cython and the machine's C compiler; run as a script by `make setup`.

The source stays plain Python and stays the reference: an import prefers the compiled twin, and removing the file undoes it. Two
plain commands instead of a build system, because one module with no headers needs no more. `--possible` only answers, by the exit
code, whether a compiler and Python's headers are at hand. A twin older than its source is removed, so that it never runs instead.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().with_name("hot.py")
TYPES = SOURCE.with_suffix(".pxd")
TWIN = SOURCE.with_name("hot" + str(sysconfig.get_config_var("EXT_SUFFIX") or ".so"))


def compiler() -> list[str]:
    """The command of a C compiler that exists here, or an empty list."""
    configured = shlex.split(str(sysconfig.get_config_var("CC") or ""))
    for command in (configured, ["cc"], ["gcc"], ["clang"]):
        if command and shutil.which(command[0]):
            return command
    return []


def possible() -> bool:
    return bool(compiler()) and Path(sysconfig.get_path("include"), "Python.h").exists()


def stale() -> bool:
    """Whether the twin was made from an older source than the one here."""
    if not TWIN.exists():
        return False
    newest = max(path.stat().st_mtime for path in (SOURCE, TYPES) if path.exists())
    return TWIN.stat().st_mtime < newest


def build() -> Path:
    """Raises `CalledProcessError` with the compiler's own words on stderr. The twin appears whole or not at all."""
    with tempfile.TemporaryDirectory(dir=SOURCE.parent) as folder:
        c_file, module = Path(folder, "hot.c"), Path(folder, "hot.so")
        translate = [sys.executable, "-m", "cython", "-3", "-X", "annotation_typing=False", "-X", "wraparound=False"]
        subprocess.run([*translate, str(SOURCE), "-o", str(c_file)], check=True)
        include = sysconfig.get_path("include")
        flags = ["-O3", "-shared", "-fPIC", "-fwrapv", "-fno-strict-aliasing", "-DNDEBUG", "-w"]
        if sys.platform == "darwin":
            flags += ["-undefined", "dynamic_lookup"]
        subprocess.run([*compiler(), *flags, f"-I{include}", str(c_file), "-o", str(module)], check=True)
        module.replace(TWIN)
    return TWIN


def main(arguments: list[str]) -> int:
    if arguments == ["--possible"]:
        return 0 if possible() else 1
    if stale():
        TWIN.unlink()
    try:
        build()
    except (subprocess.CalledProcessError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
