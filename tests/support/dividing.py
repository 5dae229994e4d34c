"""How several workers divide the tests: a group is of one worker, and so is a module, whose fixtures are made once then.

Groups begin first, and what is likely to take longest before the others, so that all workers end at about the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

# How many others a test stands for that starts processes: those take milliseconds, it takes seconds.
_LONG = {"slow": 300, "spark": 300, "browser": 100, "standalone": 100, "crash": 100}


class ByGroupAndModule(LoadGroupScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        """xdist appends the group after the last "@", behind the brackets of the parameters."""
        scope: str = super()._split_scope(nodeid)
        return scope.partition("::")[0]

    def remove_node(self, node: WorkerController) -> str | None:
        """A test that ended its worker has failed: xdist would give it to the next worker as well, to the end of all of them."""
        workload = self.assigned_work.get(node, {})
        ended = next((name for tests in workload.values() for name, done in tests.items() if not done), None)
        for part, tests in list(workload.items()):
            if ended in tests:
                tests[ended] = True
            if all(tests.values()):
                del workload[part]
        super().remove_node(node)
        return ended


_endings: list[Callable[[], None]] = []


def when_the_group_ends(end: Callable[[], None]) -> None:
    """Calls `end` once when this worker has run the last test of the group that it is at. What lives as long as the session costs
    until its end: a platform that does nothing 6 % of a processor, four bookies 2 %."""
    _endings.append(end)


def after_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Only where tests are sorted: elsewhere the group may go on."""
    if not _endings or not item.config.getoption("loadgroup", default=False):
        return
    if nextitem is None or _part(nextitem) != _part(item):
        while _endings:
            _endings.pop()()


def weight(item: pytest.Item) -> int:
    """How many quick tests take as long as this one, roughly."""
    return max([quick for mark, quick in _LONG.items() if item.get_closest_marker(mark)], default=1)


def leave_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """Takes those from `items` that a usual run leaves out, and gives them."""
    left_out = [item for item in items if item.get_closest_marker("thorough")]
    items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    return left_out


def sort(items: list[pytest.Item]) -> None:
    """Tests of one part keep their order."""
    parts = {item: _part(item) for item in items}
    sizes: Counter[tuple[bool, str]] = Counter()
    for item, part in parts.items():
        sizes[part] += weight(item)
    items.sort(key=lambda item: (not parts[item][0], -sizes[parts[item]], parts[item]))


def _part(item: pytest.Item) -> tuple[bool, str]:
    """Whether it is a group, and its name or that of the module."""
    mark = item.get_closest_marker("xdist_group")
    if mark is None:
        return False, item.nodeid.partition("::")[0]
    return True, str(mark.args[0] if mark.args else mark.kwargs["name"])
