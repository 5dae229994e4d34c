from __future__ import annotations

import threading

import pytest

from messaging.caller import Caller, current_caller, working_for
from messaging.errors import NotReady


def test_a_caller_that_leaves_ends_the_work_under_way_for_it() -> None:
    caller, ended = Caller("acme"), []
    with working_for(caller), caller.ending(lambda: ended.append("before")):
        assert current_caller() is caller
    with caller.ending(lambda: ended.append("now")):
        caller.leave()
    assert ended == ["now"]
    with pytest.raises(NotReady, match="the caller left"), caller.ending(lambda: ended.append("later")):
        raise AssertionError("nothing is begun for them")
    assert not current_caller().left, "nobody else has left"


def test_work_that_ended_by_itself_is_not_ended_again() -> None:
    """What it used, such as a connection, may serve another caller by then."""
    caller, entered, leaving, ended = Caller("acme"), threading.Event(), threading.Event(), threading.Event()
    too_late: list[bool] = []

    def end() -> None:
        leaving.set()
        too_late.append(ended.wait(0.02))

    def work() -> None:
        with caller.ending(end):
            entered.set()
            assert leaving.wait(30)
        ended.set()

    worker = threading.Thread(target=work)
    worker.start()
    assert entered.wait(30)
    caller.leave()
    worker.join()
    assert too_late == [False]
