"""Compiles the modules of `hot` with Cython and the machine's C compiler; run as a script by `make setup`.

The sources stay plain Python and stay the reference: an import prefers the extension modules (`hot_extensions.py`), and removing
those undoes it. The modules share C types, so they are compiled and used together or not at all. Two plain commands for each
replace a build system, because modules without headers need no more. `--possible` only answers, by the exit code, whether a
compiler and Python's headers are at hand. A wheel gets its modules from `deploy/release/wheel_hook.py`.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from messaging.protocol.hot_extensions import COMPILED, PACKAGE, SOURCES, SUFFIX, folder


def compiler() -> list[str]:
    """The command of an available C compiler, or an empty list."""
    configured = shlex.split(str(sysconfig.get_config_var("CC") or ""))
    for command in (configured, ["cc"], ["gcc"], ["clang"]):
        if command and shutil.which(command[0]):
            return command
    return []


def possible() -> bool:
    return bool(compiler()) and Path(sysconfig.get_path("include"), "Python.h").exists()


def build() -> None:
    """Raises `CalledProcessError` with the compiler's messages on stderr. The modules are put in place once all are compiled; those
    of other versions of the sources are removed."""
    COMPILED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=COMPILED) as made:
        build_into(Path(made))
        for former in COMPILED.iterdir():
            if former != Path(made):
                shutil.rmtree(former, ignore_errors=True)
        for former in PACKAGE.glob("*" + SUFFIX):  # their location before they had a folder
            former.unlink()
        folder().mkdir()
        for module in Path(made).glob("*" + SUFFIX):
            module.replace(folder() / module.name)


def build_into(target: Path) -> list[Path]:
    """Compiles all modules into the folder `target`, to the same bytes wherever the sources lie. Raises as `build`."""
    modules = [target / (source.stem + SUFFIX) for source in SOURCES]
    for source, module in zip(SOURCES, modules, strict=True):
        _compile(source, module)
        module.with_name(source.stem + ".c").unlink()
    return modules


def _compile(source: Path, module: Path) -> None:
    c_file = module.with_name(source.stem + ".c")
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
    try:
        build()
    except (subprocess.CalledProcessError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
