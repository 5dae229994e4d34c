"""What there is: steps, recordings and the two lists (see the package)."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COMMANDS, RECORDED = HERE / "commands", HERE / "recorded"
NOT_YET: dict[str, str] = tomllib.loads((HERE / "not_yet.toml").read_text())
"""``chapter: command`` -> why. One that is answered as by Pulsar fails its test until it leaves this list."""
OURS: dict[str, str] = tomllib.loads((HERE / "ours.toml").read_text())
"""``chapter: command`` -> why it is answered otherwise, for good."""
PRINTED: dict[str, str] = tomllib.loads((HERE / "printed.toml").read_text())
"""``chapter: command`` -> why the tool prints something else although the answers are alike. Looked at by `make oracle` alone."""
TREE: list[str] = (HERE / "tree.txt").read_text().split("\n")[:-1]
"""The commands of Pulsar's tool, as `AdminCommands.java tree` lists them; `sink` and `source` are other names of two groups."""
UNTRIED = {
    "brokers shutdown": "ends the broker that would be recorded",
    "documents generate": "writes pages, and asks no broker",
    "functions localrun": "runs a process, and asks no broker",
    "sinks localrun": "runs a process, and asks no broker",
    "sources localrun": "runs a process, and asks no broker",
    "schemas extract": "reads a schema out of Java classes, and then does what `schemas upload` does",
}
"""Command -> why no chapter has it."""

Recording = dict[str, Any]
"""``exit``: of the tool. ``requests``: in order, each with ``do``, ``body``, ``status``, ``type`` and ``answer``."""


def chapters() -> dict[str, list[str]]:
    """The steps of each chapter."""
    steps_by_chapter: dict[str, list[str]] = {}
    for path in sorted(COMMANDS.glob("*.toml")):
        for name, steps in tomllib.loads(path.read_text()).items():
            steps_by_chapter[f"{path.stem}.{name}"] = steps
    return steps_by_chapter


def keyed(chapter: str, steps: list[str]) -> dict[str, str]:
    """Steps by a name of their own: the chapter and the text, and a number where the text comes again."""
    by_key: dict[str, str] = {}
    for step in steps:
        key, times = f"{chapter}: {step}", 1
        while key in by_key:
            times += 1
            key = f"{chapter}: {step} #{times}"
        by_key[key] = step
    return by_key


def load_recorded() -> dict[str, Recording]:
    recorded: dict[str, Recording] = {}
    for path in sorted(RECORDED.glob("*.json")):
        recorded |= json.loads(path.read_text())
    return recorded


def save_recorded(recordings: dict[str, Recording]) -> None:
    """One file for each file of chapters; a step that was not run keeps its recording, one that is gone loses it."""
    everything = load_recorded() | recordings
    known = [key for chapter, steps in chapters().items() for key in keyed(chapter, steps)]
    for path in COMMANDS.glob("*.toml"):
        lines = [
            f"{json.dumps(key)}: {json.dumps(_kept(everything[key]), ensure_ascii=False)}"
            for key in known
            if key.startswith(f"{path.stem}.") and key in everything
        ]
        (RECORDED / f"{path.stem}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _kept(recording: Recording) -> Recording:
    """Without what the tool printed, which follows from the answers."""
    return {name: value for name, value in recording.items() if name != "output"}
