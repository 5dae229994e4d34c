"""Runs the checks and prints the findings as text or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from controlplane.doctor import checks, locate, running
from controlplane.doctor.checks import Finding
from controlplane.doctor.databases import databases
from controlplane.doctor.fleet import fleet
from controlplane.supervisor.status import running_state
from messaging.settings import Settings

_MARKS = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL"}


def examine(settings: Settings) -> Iterator[Finding]:
    """`settings`: those of the platform that `locate.choose` chose."""
    for check in (*checks.INSTALLATION, *checks.DATA):
        yield from check(settings)
    yield from databases(settings)
    if running_state(settings.data_path) is None:
        yield from checks.free_ports(settings)
    yield from running.running(settings)
    yield from fleet(settings)


def run(settings: Settings, *, as_json: bool) -> int:
    """Prints each finding as soon as it is known. Returns the exit code: 1 if any check failed, else 0."""
    settings, findings = locate.choose(settings)
    for finding in findings:
        if not as_json:
            print(_line(finding), flush=True)  # noqa: T201
    for finding in examine(settings):
        findings.append(finding)
        if not as_json:
            print(_line(finding), flush=True)  # noqa: T201
    if as_json:
        state = running_state(settings.data_path)
        memory = {name: round(mib, 1) for name, mib in running.memory_mib(state).items()} if state else {}
        report = {
            "findings": [finding._asdict() for finding in findings],
            "supervisor": state,
            "memory_mib": memory,
            "memory_mib_total": round(sum(memory.values()), 1),
        }
        json.dump(report, sys.stdout, indent=2)
        sys.stdout.write("\n")
    return 1 if any(finding.level == "fail" for finding in findings) else 0


def _line(finding: Finding) -> str:
    text = f"{_MARKS[finding.level]}  {finding.what}: {finding.says}"
    return f"{text}\n      -> {finding.do}" if finding.do else text
