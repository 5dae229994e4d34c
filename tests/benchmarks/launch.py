"""Starts a broker with switches that the product does not have. Run as a script, so that nothing is imported before it:

    python -P launch.py [--plain] [--tasks FILE] [--profile FILE]

`--plain` runs the hot loops from their source although a compiled twin lies beside it. With `--tasks`, SIGUSR1 has the broker
write how many asyncio tasks it has. With `--profile`, SIGUSR2 starts Python's profiler on the loop's thread, and the next one stops
it and writes its table, the functions that took longest themselves first.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import importlib.abc
import importlib.util
import io
import pstats
import runpy
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType

PROFILE_LINES = 30


class _Sources(importlib.abc.MetaPathFinder):
    """Finds the modules of `hot` as they are written, whatever lies beside them."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        if package != "messaging.protocol.hot" or path is None:
            return None
        return importlib.util.spec_from_file_location(fullname, Path(path[-1], f"{name}.py"))


def run_plain() -> None:
    sys.meta_path.insert(0, _Sources())


def count_tasks(answer: Path) -> None:
    _on(signal.SIGUSR1, lambda: _write(answer, str(len(asyncio.all_tasks()))))


def profile(answer: Path) -> None:
    profiler: cProfile.Profile | None = None

    def toggle() -> None:
        nonlocal profiler
        if profiler is None:
            profiler = cProfile.Profile()
            profiler.enable()
            return
        profiler.disable()
        text = io.StringIO()
        pstats.Stats(profiler, stream=text).strip_dirs().sort_stats("tottime").print_stats(PROFILE_LINES)
        profiler = None
        _write(answer, text.getvalue())

    _on(signal.SIGUSR2, toggle)


def _on(number: signal.Signals, act: Callable[[], None]) -> None:
    def handle(received: int, frame: FrameType | None) -> None:
        act()

    signal.signal(number, handle)


def _write(path: Path, text: str) -> None:
    """Appears whole or not at all."""
    draft = path.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(path)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--profile", type=Path)
    options = parser.parse_args(arguments)
    if options.plain:
        run_plain()
    if options.tasks:
        count_tasks(options.tasks)
    if options.profile:
        profile(options.profile)
    sys.argv = ["messaging.broker"]
    runpy.run_module("messaging.broker", run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
