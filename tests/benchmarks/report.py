"""What a run measured, as a page: the same writer for every benchmark. A figure with a target says whether it was reached."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from messaging.protocol import hot

FLOORS = {
    "busy_before_percent": "processor busy with other things just before, %",
    "sync_4kib_p50_ms": "4 KiB made durable (fdatasync, preallocated), p50, ms",
    "durable_sequential_mib_per_s": "durable sequential writing, MiB/s, median of writes of 1, 4 and 8 MiB",
    "loopback_ping_pong_p50_ms": "loopback ping-pong, p50, ms",
    "memory_copy_gib_per_s": "memory copy, GiB/s",
}

Progress = Callable[[str], None]


class Figure(NamedTuple):
    """One value beside its target. `target` is the limit itself; `at_least`: larger is better. `unit` follows both ("x", "KiB")."""

    what: str
    value: float
    target: float
    unit: str = "x"
    at_least: bool = True

    @property
    def reached(self) -> bool:
        return self.value >= self.target if self.at_least else self.value <= self.target

    def cells(self) -> tuple[str, ...]:
        sign = ">=" if self.at_least else "<="
        verdict = "reached" if self.reached else "**missed**"
        return self.what, f"{number(self.value)} {self.unit}", f"{sign} {number(self.target)} {self.unit}", verdict


class Table(NamedTuple):
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def lines(self) -> list[str]:
        return [_line(self.columns), _line("---" for _ in self.columns), *(_line(row) for row in self.rows), ""]


@dataclass
class Section:
    """One benchmark's part of a page. `failures`: what did not get through, each as a sentence. `details`: (title, text as it is).

    Filled while its benchmark runs, so that what was measured before a failure is on the page.
    """

    title: str
    words: str = ""
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    details: list[tuple[str, str]] = field(default_factory=list)


def number(value: float) -> str:
    """Three digits that count; thousands with commas."""
    size = abs(value)
    digits = 0 if value == 0 or size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{digits}f}"


def floors_section(measured: dict[str, float]) -> Section:
    rows: list[tuple[str, ...]] = [(text, number(measured[key])) for key, text in FLOORS.items()]
    return Section("Floors", "What this machine can do at best, measured just before.", [Table(("floor", "measured"), rows)])


def page(name: str, command: str, sections: list[Section], took_s: float) -> str:
    """Markdown: where and how it was measured, every target with its verdict, what failed, then each section."""
    figures = [figure for section in sections for figure in section.figures]
    failures = [f"{section.title}: {failure}" for section in sections for failure in section.failures]
    lines = [f"# Benchmark: {name}", "", _made(command, took_s), ""]
    if figures:
        reached = sum(figure.reached for figure in figures)
        lines += ["## Targets", "", f"{reached} of {len(figures)} reached.", ""]
        lines += Table(("figure", "measured", "target", ""), [figure.cells() for figure in figures]).lines()
    if failures:
        lines += ["## Not measured", "", *(f"- {' '.join(failure.split())}" for failure in failures), ""]
    for section in sections:
        lines += [f"## {section.title}", ""]
        if section.words:
            lines += [section.words, ""]
        for table in section.tables:
            lines += table.lines()
        for title, text in section.details:
            lines += [f"### {title}", "", "```text", *(line.rstrip() for line in text.strip("\n").splitlines()), "```", ""]
    return "\n".join(lines)


def _made(command: str, took_s: float) -> str:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    hot_loops = "compiled" if hot.COMPILED else "plain Python"
    return (
        f"Measured {now} in {took_s / 60:.1f} minutes, of commit {_commit()}, with `{command}`: {_processor()}, {os.cpu_count()} "
        f"cores shared with the load generator, {_memory_gib():.0f} GiB, {platform.system()} {platform.release()}, Python "
        f"{platform.python_version()}, hot loops here: {hot_loops}. Every receipt is sent after its sync. "
        "Figures of machines whose floors differ do not compare; ratios within one run do."
    )


def _commit() -> str:
    """The commit that the sources here are, and whether they differ from it."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/messaging", ":/tests/benchmarks")
        return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
