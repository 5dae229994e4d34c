"""Whether what we depend on has known vulnerabilities: `make audit`, and CI.

Asks the advisory database of PyPI about every line of constraints.txt. An advisory fails the check unless
`tests/audit-allowed.toml` names it with a reason and a date by which somebody looks again. Where the database cannot be reached
nothing is known: that is said, and fails only with ``--strict``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
ALLOWED_FILE = Path(__file__).with_name("audit-allowed.toml")


class Verdict(NamedTuple):
    """`problems`: lines that fail the check. `unknown`: packages that the database said nothing of; `known`: how many it knew."""

    problems: list[str]
    unknown: list[str]
    known: int


def judge(report: Mapping[str, Any], allowed: Mapping[str, Mapping[str, Any]], today: datetime.date) -> Verdict:
    """`report`: what pip-audit prints as JSON. `allowed`: advisory -> {"reason", "until"}."""
    problems, unknown, known = [], [], 0
    used = set()
    for dependency in report["dependencies"]:
        if "skip_reason" in dependency:
            unknown.append(dependency["name"])
            continue
        known += 1
        for advisory in dependency["vulns"]:
            names = {advisory["id"], *advisory.get("aliases", ())}
            entry = next((name for name in sorted(names) if name in allowed), None)
            if entry is None:
                fixed = ", ".join(advisory.get("fix_versions", ())) or "no release"
                package = f"{dependency['name']} {dependency['version']}"
                problems.append(f"{package}: {advisory['id']} ({_aliases(names, advisory['id'])}fixed in {fixed})")
                continue
            used.add(entry)
            if allowed[entry]["until"] < today:
                problems.append(f"{entry} was allowed until {allowed[entry]['until']}: look at it again")
    if known and not unknown:
        problems += [f"{name} is allowed and not found any more: take it out" for name in sorted(allowed.keys() - used)]
    return Verdict(problems, unknown, known)


def _aliases(names: Iterable[str], but: str) -> str:
    others = sorted(set(names) - {but})
    return f"{', '.join(others)}; " if others else ""


def allowed() -> dict[str, dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = tomllib.loads(ALLOWED_FILE.read_text())
    for name, entry in entries.items():
        if not entry.get("reason") or not isinstance(entry.get("until"), datetime.date):
            raise ValueError(f"{ALLOWED_FILE.name}: {name} needs a reason and a date `until`")
    return entries


def main() -> int:
    parser = argparse.ArgumentParser(description="Look for known vulnerabilities in what Magnetar depends on.")
    parser.add_argument("--strict", action="store_true", help="fail where the database cannot be reached")
    strict = parser.parse_args().strict
    options = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json", "--timeout", "15"]
    command = [sys.executable, "-m", "pip_audit", "-r", str(ROOT / "constraints.txt"), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        verdict = judge(json.loads(done.stdout), allowed(), datetime.datetime.now(datetime.UTC).date())
    except json.JSONDecodeError:
        print(f"nothing is known: pip-audit could not ask ({done.stderr.strip().splitlines()[-1:]})")
        return 1 if strict else 0
    for line in verdict.problems:
        print(f"VULNERABLE {line}")
    print(f"{verdict.known} packages looked up, {len(verdict.problems)} problems")
    if verdict.unknown:
        print(f"nothing is known of {len(verdict.unknown)} packages: the database could not be asked about them")
    return 1 if verdict.problems or (strict and verdict.unknown) else 0


if __name__ == "__main__":
    sys.exit(main())
