"""Names the tests that failed in a file, one a line: `.ci/run` runs them once more, alone, and is told which passed then."""

from __future__ import annotations

from pathlib import Path

import pytest

MODULES_MAX = 10
TESTS_MAX = 200


def name_of(nodeid: str) -> str:
    """As pytest takes it: xdist appends the group after the last "@", behind the brackets of the parameters."""
    name, _, group = nodeid.rpartition("@")
    return name if name and "]" not in group and "::" not in group else nodeid


class FailedTests:
    """A plugin for the process that hears of all results, not for the workers of xdist. The file says nothing where running tests
    again would not tell more: something else than a test failed, or tests of more than `MODULES_MAX` modules, or more than
    `TESTS_MAX`. Modules are counted since one cause, in what the tests of a module share, fails all of them. A test counts once,
    whether its setup, its call, its teardown or all three failed, or its worker died of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: dict[str, None] = {}
        self._other = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._names[name_of(report.nodeid)] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._other |= report.failed

    def pytest_internalerror(self) -> None:
        self._other = True

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        modules = {name.partition("::")[0] for name in self._names}
        again = (
            not self._other
            and exitstatus == pytest.ExitCode.TESTS_FAILED
            and len(modules) <= MODULES_MAX
            and len(self._names) <= TESTS_MAX
        )
        self._path.write_text("".join(f"{name}\n" for name in self._names if again))


class Alone:
    """A plugin for the run of those that failed: which of them passed."""

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        passed = self._names(terminalreporter, "passed") - self._names(terminalreporter, "failed", "error")
        if passed:
            terminalreporter.section("failed beside others, passed alone: each is a fault to fix")
            for name in sorted(passed):
                terminalreporter.line(name)

    @staticmethod
    def _names(terminalreporter: pytest.TerminalReporter, *outcomes: str) -> set[str]:
        return {name_of(report.nodeid) for outcome in outcomes for report in terminalreporter.stats.get(outcome, [])}
