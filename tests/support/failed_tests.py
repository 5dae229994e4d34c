"""Names the tests that failed in a file, one a line, so that `.ci/run` can run them once more, alone."""

from __future__ import annotations

from pathlib import Path

import pytest


class FailedTests:
    """A plugin for the process that hears of all results, not for the workers of xdist. The file says nothing where something else
    than a test failed: then running tests again would not tell more."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: dict[str, None] = {}
        self._other = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            # xdist appends the group after the last "@", behind the brackets of the parameters
            name, _, group = report.nodeid.rpartition("@")
            self._names[name if name and "]" not in group and "::" not in group else report.nodeid] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._other |= report.failed

    def pytest_internalerror(self) -> None:
        self._other = True

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        names = [] if self._other or exitstatus != pytest.ExitCode.TESTS_FAILED else list(self._names)
        self._path.write_text("".join(f"{name}\n" for name in names))
