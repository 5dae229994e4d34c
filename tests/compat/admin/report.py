"""`make oracle ARGS=--admin`: Pulsar's tool on both platforms, and what a user of the tool could tell apart."""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager
from fnmatch import fnmatch
from pathlib import Path

from tests.compat.admin.catalogue import NOT_YET, OURS, PRINTED, Recording, chapters, load_recorded, save_recorded
from tests.compat.admin.plain import differences
from tests.compat.admin.record import record
from tests.compat.scenarios import Platform

_LIST = re.compile(r"\[([^][]*)\]")
_NUMBER = re.compile(r"-?\d+(\.\d+)?(E-?\d+)?")


def compare(
    pulsar: AbstractContextManager[Platform] | None,
    magnetar: AbstractContextManager[Platform],
    folder: Path,
    *,
    only: str,
    write: bool,
) -> int:
    """Without a Pulsar, what was recorded counts. With `write`, Pulsar's answers are recorded."""
    chosen = {name: steps for name, steps in chapters().items() if fnmatch(name, only)}
    theirs = load_recorded()
    if pulsar is not None:
        with pulsar as platform:
            theirs = record(chosen, platform, folder)
            if write:
                again = record(chosen, platform, folder)
                for key in theirs:
                    if theirs[key]["requests"] != again[key]["requests"]:
                        print(f"UNSTABLE on Pulsar: {key}\n  {json.dumps(theirs[key])[:600]}\n  {json.dumps(again[key])[:600]}")
                save_recorded(theirs)
    with magnetar as platform:
        ours = record(chosen, platform, folder)
    unexpected = 0
    for key, wanted in theirs.items():
        if key not in ours:
            continue
        differing = tool_differences(wanted, ours[key])
        listed = NOT_YET.get(key) or OURS.get(key) or PRINTED.get(key)
        if differing and not listed:
            unexpected += 1
            print(f"DIFFERS: {key}\n  " + "\n  ".join(differing[:5]))
        elif key in PRINTED and not differing:
            unexpected += 1
            print(f"PRINTED ALIKE NOW, and is still in printed.toml: {key}")
    lists = f"{len(NOT_YET)} not yet, {len(OURS)} otherwise on purpose, {len(PRINTED)} printed otherwise"
    print(f"{len(ours)} commands: {unexpected} unexpected; {lists}")
    return int(unexpected > 0)


def tool_differences(wanted: Recording, ours: Recording) -> list[str]:
    """In the exit code and the output of the tool. Of JSON, what only ours has does not count; of other text, numbers do not."""
    if wanted.get("exit") != ours.get("exit"):
        return [f"exit code {ours.get('exit')} {ours.get('output')} instead of {wanted.get('exit')} {wanted.get('output')}"]
    theirs_text, ours_text = "\n".join(wanted.get("output", [])), "\n".join(ours.get("output", []))
    try:
        return differences(
            _shape(json.loads(theirs_text.replace("<ms>", "0"))), _shape(json.loads(ours_text.replace("<ms>", "0"))), "output"
        )
    except ValueError:
        same = _lines(theirs_text) == _lines(ours_text)
        return [] if same else [f"output {ours_text[:300]!r} instead of {theirs_text[:300]!r}"]


def _lines(text: str) -> list[str]:
    """Without numbers, and without the order of lines and of lists within them: Java's sets have none."""
    text = _LIST.sub(lambda match: f"[{', '.join(sorted(match[1].split(', ')))}]", text)
    return sorted(_NUMBER.sub("0", text).split("\n"))


def _shape(value: object) -> object:
    """Types and names; values are compared over HTTP."""
    if isinstance(value, dict):
        return {key: _shape(item) for key, item in value.items()}
    return type(value).__name__ if not isinstance(value, list) else [_shape(item) for item in value[:1]]
