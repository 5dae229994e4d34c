"""While brokers are silent one call at a time waits in full, the others for a moment."""

from __future__ import annotations

from contextlib import ExitStack, suppress

import pytest

from messaging.caller import Caller, working_for
from messaging.errors import NotReady, TopicNotFound
from tenants.answers import INSTANT_S, MOMENT_S, Answers, NoAnswer, NothingAnswered


def wait(answers: Answers, outcome: Exception | None = None) -> float:
    """Somebody asks, and waits that long; the answer is `outcome`."""
    with working_for(Caller("a")), suppress(Exception), answers.waiting(5.0) as wait_s:
        if outcome is not None:
            raise outcome
    return wait_s


@pytest.fixture
def silent() -> Answers:
    made = Answers()
    assert wait(made, TimeoutError()) == 5.0
    return made


def test_one_at_a_time_waits_in_full_for_a_silent_broker(silent: Answers) -> None:
    with silent.waiting(5.0) as first, silent.waiting(5.0) as second, silent.waiting(0.1) as third:
        assert (first, second, third) == (5.0, MOMENT_S, 0.1)
    assert wait(silent) == 5.0


@pytest.mark.parametrize("answer", [None, TopicNotFound("no such topic")], ids=["answer", "error"])
def test_any_answer_ends_the_silence(silent: Answers, answer: Exception | None) -> None:
    with ExitStack() as full:
        assert full.enter_context(silent.waiting(5.0)) == 5.0
        assert wait(silent, answer) == MOMENT_S
        assert wait(silent) == 5.0


@pytest.mark.parametrize("failure", [TimeoutError(), NoAnswer("late"), NotReady("it cannot be reached")], ids=str)
def test_what_is_no_answer_does_not(silent: Answers, failure: Exception) -> None:
    with silent.waiting(5.0):
        assert wait(silent, failure) == wait(silent, failure) == MOMENT_S


def test_a_call_that_is_slow_beside_others_that_are_answered_shortens_nobody_elses() -> None:
    answers = Answers()
    with suppress(TimeoutError), answers.waiting(5.0):
        assert wait(answers) == 5.0
        raise TimeoutError
    with answers.waiting(5.0):
        assert wait(answers) == 5.0


def test_who_was_not_answered_waits_for_a_moment_with_what_else_they_ask() -> None:
    answers = Answers()
    with working_for(Caller("a")):
        with suppress(NoAnswer), answers.waiting(2.0) as first:
            raise NoAnswer("late")
        with answers.waiting(2.0) as second:
            pass
    assert (first, second) == (2.0, MOMENT_S)


def test_for_a_while_after_it_answered_nothing_nobody_waits_in_full() -> None:
    """As where a page leads on to another one, whose caller is another."""
    answers = Answers()
    assert wait(answers, NothingAnswered("there was no answer")) == 5.0
    assert wait(answers) == MOMENT_S
    assert wait(answers) == 5.0, "it answered"


def test_all_that_a_page_asks_after_no_answer_has_one_moment_together() -> None:
    """So that a page which asks five times is not 2.5 s late."""
    answers = Answers()
    caller = Caller("a")
    with working_for(caller):
        with suppress(NoAnswer), answers.waiting(2.0):
            raise NoAnswer("late")
        caller.waited_s = MOMENT_S / 2
        with answers.waiting(2.0) as half:
            caller.waited_s = MOMENT_S
        with answers.waiting(2.0) as then:
            pass
    assert (half, then) == (MOMENT_S / 2, INSTANT_S)
