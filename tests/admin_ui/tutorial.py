"""Runs a tutorial of docs/tutorials as its reader does: files are written, commands run in order, and what they print is compared.

In a page, a block of `python`, `yaml` or `json` with a name after the language is a file. A block of `sh` is run, with errors
ending it, and the block of `text` right behind it, if there is one, is what it prints, where `...` stands for anything.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.support.brokers.standalone import Standalone

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
# What only a reader does: the tests have a platform and its libraries.
FOR_READERS = (
    "make run",
    ". .venv/bin/activate\npip install -q -c constraints.txt pulsar-client",
    "MAGNETAR_USAGE_INTERVAL_S=1 MAGNETAR_USAGE_JOB_INTERVAL_S=5 MAGNETAR_BILLING_INTERVAL_S=5 make run",
)
_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    file: str
    text: str


class Mismatch(AssertionError):
    """A block did not do what the page says."""


def blocks(page: str) -> list[Block]:
    return [Block(*groups) for groups in _FENCE.findall(page)]


def fits(expected: str, printed: str) -> bool:
    """Dots within a line stand for the rest of it or a part, a line of dots for any number of lines, none among them."""
    pattern = "".join(
        "(?:.*\n)*?" if line == "..." else ".*".join(re.escape(part) for part in line.split("...")) + "\n"
        for line in _plain(expected).splitlines()
    )
    return re.fullmatch(pattern, _plain(printed) + "\n") is not None


def _plain(printed: str) -> str:
    """Without what a progress bar has overwritten, and blanks at the ends of lines."""
    return "\n".join(line.rpartition("\r")[2].rstrip() for line in printed.strip().splitlines())


class Reader:
    """Somebody who follows a tutorial in a folder of their own."""

    def __init__(self, folder: Path, platform: Standalone, **addresses: str) -> None:
        self._folder = folder
        self._home = folder / "home"
        self._home.mkdir(parents=True)
        data = self._home / ".local" / "share"
        data.mkdir(parents=True)
        (data / "magnetar").symlink_to(platform.folder)
        ready = platform.ready
        self._addresses = {
            "http://127.0.0.1:8080": ready["web_url"],
            "pulsar://127.0.0.1:6650": ready["broker_url"],
            **addresses,
        }

    def follow(self, page: str) -> None:
        """Raises `Mismatch` with the block and what it printed."""
        told = blocks((FOLDER / page).read_text(encoding="utf-8"))
        for block, after in zip(told, [*told[1:], Block("", "", "")], strict=True):
            if block.file:
                (self._folder / block.file).write_text(self._here(block.text))
            elif block.language == "sh" and block.text.strip() not in FOR_READERS:
                self._run(block.text, after.text if after.language == "text" else None)

    def _run(self, commands: str, expected: str | None) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAGNETAR_", "DJANGO_", "PYTEST"))}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", self._here(commands)],
            cwd=self._folder,
            env=kept | {"HOME": str(self._home), "PATH": path, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=150,
            check=False,
        )
        if done.returncode:
            raise Mismatch(f"{commands}ended with {done.returncode}:\n{done.stdout}")
        if expected is not None and not fits(self._here(expected), done.stdout):
            raise Mismatch(f"{commands}printed:\n{done.stdout}\nthe page says:\n{expected}")

    def _here(self, text: str) -> str:
        for written, real in self._addresses.items():
            text = text.replace(written, real)
        return text


def commands_of(page: str) -> Iterator[str]:
    for block in blocks((FOLDER / page).read_text(encoding="utf-8")):
        if block.language == "sh":
            yield block.text.strip()
