"""The files of a release, made from what git has, never from what else lies in the checkout. The same commit gives the same bytes.

Everything is made from the source archive, unpacked: what is missing there fails here, and not with the first who builds from it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

from deploy.release.bill_of_materials import bill

ROOT = Path(__file__).resolve().parents[2]
FORMER = ("magnetar-*.tar.gz", "magnetar*.whl", "magnetar-*.cdx.json", "CHANGELOG-*.md", "constraints-*.txt", "SHA256SUMS")


class Refused(Exception):
    """Why there is no release, and what to do."""


def version(root: Path = ROOT) -> str:
    """The one place where it is: the project file."""
    value: str = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return value


def release(folder: Path, *, uncommitted: bool = False, root: Path = ROOT) -> list[Path]:
    """Writes the files of a release into `folder` and returns them; those of a former one there are removed.

    Raises `Refused`, and `CalledProcessError` with the builder's messages on stderr.
    """
    if not (root / ".git").exists():
        raise Refused("A release is made from a commit, and here is no checkout of git: clone the repository")
    changed = _git(root, "status", "--porcelain")
    if changed and not uncommitted:
        raise Refused(f"A release is made from a commit, and these files differ from it: commit or stash them\n{changed}")
    made_at_s = int(_git(root, "log", "-1", "--format=%ct"))
    name = version(root)
    excerpt = changes((root / "CHANGELOG.md").read_text(encoding="utf-8"), name)
    folder.mkdir(parents=True, exist_ok=True)
    for pattern in FORMER:
        for former in folder.glob(pattern):
            former.unlink()
    build(root, folder, made_at_s)
    (folder / f"magnetar-{name}.cdx.json").write_text(bill(name, made_at_s), encoding="utf-8")
    (folder / f"CHANGELOG-{name}.md").write_text(excerpt, encoding="utf-8")
    shutil.copyfile(root / "constraints.txt", folder / f"constraints-{name}.txt")
    made = sorted(path for pattern in FORMER[:-1] for path in folder.glob(pattern))
    sums = folder / "SHA256SUMS"
    sums.write_text("".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made), encoding="utf-8")
    return [*made, sums]


def build(root: Path, folder: Path, made_at_s: int) -> None:
    """The source archive and the wheels: with compiled loops where a compiler is, without them, and of the SDK alone."""
    with tempfile.TemporaryDirectory(prefix="release-") as made:
        tracked = Path(made, "tracked")
        for name in _git(root, "ls-files", "-z").split("\0"):
            if name and (root / name).is_file():
                (tracked / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(root / name, tracked / name)
        _hatchling(tracked, "sdist", folder, made_at_s)
        with tarfile.open(next(folder.glob("magnetar-*.tar.gz"))) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2 has none
            archive.extractall(made)
        unpacked = next(Path(made).glob("magnetar-*"))
        if possible_in(unpacked):
            _hatchling(unpacked, "wheel", folder, made_at_s, HOT_LOOPS="compiled")
        _hatchling(unpacked, "wheel", folder, made_at_s, HOT_LOOPS="plain")
        _run(
            [sys.executable, "-P", str(unpacked / "messaging" / "client" / "wheel.py"), str(folder.resolve())], unpacked, made_at_s
        )


def changes(changelog: str, name: str) -> str:
    """The part of the changelog about the version `name`."""
    parts = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    titled = {part.partition("\n")[0].split()[0]: part.partition("\n")[2].strip() for part in parts}
    if titled.get(name):
        return f"# Magnetar {name}\n\n{titled[name]}\n"
    raise Refused(f"CHANGELOG.md has nothing about {name}: add a section `## {name}`, or name its version in pyproject.toml")


def possible_in(unpacked: Path) -> bool:
    """Whether the hot loops of these sources can be compiled here."""
    command = [sys.executable, "-P", "-m", "messaging.protocol.build_hot", "--possible"]
    return subprocess.run(command, cwd=unpacked, env=os.environ | {"PYTHONPATH": str(unpacked)}).returncode == 0


def _hatchling(sources: Path, target: str, folder: Path, made_at_s: int, **variables: str) -> None:
    command = [sys.executable, "-P", "-m", "hatchling", "build", "-t", target, "-d", str(folder.resolve())]
    _run(command, sources, made_at_s, **variables)


def _run(command: list[str], sources: Path, made_at_s: int, **variables: str) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(made_at_s), **variables}
    subprocess.run(command, cwd=sources, env=environment, check=True, capture_output=True, text=True)


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True).stdout.strip()
