"""Compiles the modules of `hot` in place with Cython and the machine's C compiler; `make setup` runs it.

The Python sources remain the reference: an import prefers the compiled modules, and deleting them undoes it. They share C types,
so they are built and used together: if one is older than its source, all are removed. Two plain commands each are enough, because
the modules have no headers. `--possible` only reports, by the exit code, whether a compiler and Python's headers are available.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

SOURCES = tuple(Path(__file__).resolve().with_name("hot") / name for name in ("common.py", "incoming.py", "outgoing.py"))
SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX") or ".so")
TWINS = tuple(source.with_name(source.stem + SUFFIX) for source in SOURCES)


def compiler() -> list[str]:
    """The command of a C compiler that exists here, or an empty list."""
    configured = shlex.split(str(sysconfig.get_config_var("CC") or ""))
    for command in (configured, ["cc"], ["gcc"], ["clang"]):
        if command and shutil.which(command[0]):
            return command
    return []


def possible() -> bool:
    return bool(compiler()) and Path(sysconfig.get_path("include"), "Python.h").exists()


def built() -> bool:
    return all(twin.exists() for twin in TWINS)


def stale() -> list[Path]:
    """All twins, where one of them is missing or was made from an older source than the one here."""
    there = [twin for twin in TWINS if twin.exists()]
    newest = max(_modified(source) for source in SOURCES)
    return there if len(there) < len(TWINS) or any(twin.stat().st_mtime < newest for twin in there) else []


def _modified(source: Path) -> float:
    return max(path.stat().st_mtime for path in (source, source.with_suffix(".pxd")) if path.exists())


def build() -> None:
    """Raises `CalledProcessError` with the compiler's own words on stderr. The twins appear when all of them were made."""
    folder = SOURCES[0].parent
    with tempfile.TemporaryDirectory(dir=folder) as made:
        for source in SOURCES:
            _compile(source, Path(made, source.stem))
        for source, twin in zip(SOURCES, TWINS, strict=True):
            Path(made, source.stem).replace(twin)


def _compile(source: Path, module: Path) -> None:
    c_file = module.with_suffix(".c")
    translate = [sys.executable, "-m", "cython", "-3", "-X", "annotation_typing=False", "-X", "wraparound=False"]
    subprocess.run([*translate, str(source), "-o", str(c_file)], check=True)
    include = sysconfig.get_path("include")
    flags = ["-O3", "-shared", "-fPIC", "-fwrapv", "-fno-strict-aliasing", "-DNDEBUG", "-w"]
    if sys.platform == "darwin":
        flags += ["-undefined", "dynamic_lookup"]
    subprocess.run([*compiler(), *flags, f"-I{include}", str(c_file), "-o", str(module)], check=True)


def main(arguments: list[str]) -> int:
    if arguments == ["--possible"]:
        return 0 if possible() else 1
    for twin in stale():
        twin.unlink()
    try:
        build()
    except (subprocess.CalledProcessError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
