"""What installations of programs for tests have in common: tools that are looked for, and what a missing one is called."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from pathlib import Path


class Missing(Exception):
    """What an installation lacks, and how to get it."""


def version_of(command: list[str], folder: Path) -> tuple[int, ...]:
    told = subprocess.run(command, capture_output=True, text=True, cwd=folder).stdout
    return tuple(int(number) for number in re.findall(r"\d+", told)[:2])


def run_command(command: list[str], folder: Path, **variables: str) -> None:
    done = subprocess.run(command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise Missing(f"{' '.join(command[:3])} failed: {(done.stdout + done.stderr)[-1500:]}")


def tool(name: str, packages: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise Missing(f"no {name}: apt-get install {packages}")
    return path


def require_version(what: str, least: tuple[int, ...], installed: tuple[int, ...]) -> None:
    if installed < least:
        raise Missing(f"{what} {'.'.join(map(str, least))} or newer is needed, here is {'.'.join(map(str, installed)) or 'none'}")


def only_mavens_own_repository(maven: Path) -> str:
    """Parents of Pulsar's modules name further repositories. This sends every look-up to the one that Maven knows by itself."""
    for jar in (maven.parents[1] / "lib").glob("maven-model-builder*.jar"):
        with zipfile.ZipFile(jar) as opened:
            match = re.search(r"<url>(.*?)</url>", opened.read("org/apache/maven/model/pom-4.0.0.xml").decode())
        if match:
            mirror = f"<mirror><id>central</id><mirrorOf>*</mirrorOf><url>{match[1]}</url></mirror>"
            return f"<settings><mirrors>{mirror}</mirrors></settings>"
    return "<settings/>"
