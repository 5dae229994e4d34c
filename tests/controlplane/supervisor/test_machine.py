"""The life of a child as a table: no process, no clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.supervisor.machine import (
    BACKOFF_LONGEST_S,
    EXIT_CONFIGURATION,
    FIRST_STARTS_MAX,
    HEALTHY_AFTER_S,
    TABLE,
    Child,
    Effect,
    Event,
    State,
    backoff_s,
    exit_event,
    step,
)

FRESH = Child(start_timeout_s=60, stop_timeout_s=3)


def drive(child: Child, *events: tuple[float, Event]) -> tuple[Child, list[Effect]]:
    done: list[Effect] = []
    for now_s, event in events:
        child, effects = step(child, event, now_s)
        done += effects
    return child, done


def test_a_quiet_life() -> None:
    child, effects = drive(FRESH, (0, Event.START), (1, Event.READY), (100, Event.STOP), (101, Event.EXITED))
    assert (child.state, effects) == (State.STOPPED, [Effect.SPAWN, Effect.TERMINATE])
    assert (child.restarts, child.failures) == (0, 0)


def test_a_death_is_answered_by_a_restart_after_a_pause() -> None:
    child, effects = drive(FRESH, (0, Event.START), (1, Event.READY), (5, Event.EXITED))
    assert child.state is State.BACKING_OFF and child.deadline_s == 5 + backoff_s(1)
    child, more = drive(child, (5.2, Event.DUE))
    assert (child.state, child.restarts) == (State.STARTING, 1)
    assert effects + more == [Effect.SPAWN, Effect.SPAWN]


def test_pauses_double_up_to_ten_seconds() -> None:
    assert [backoff_s(n) for n in range(1, 9)] == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, BACKOFF_LONGEST_S, BACKOFF_LONGEST_S]
    assert backoff_s(10_000) == BACKOFF_LONGEST_S


def test_thirty_healthy_seconds_forget_earlier_failures() -> None:
    child, _ = drive(FRESH, (0, Event.START), (1, Event.READY), (2, Event.EXITED), (3, Event.DUE), (4, Event.READY))
    assert (child.failures, child.deadline_s) == (1, 4 + HEALTHY_AFTER_S)
    child, effects = drive(child, (34, Event.DUE))
    assert (child.state, child.failures, child.deadline_s, effects) == (State.READY, 0, None, [])
    child, _ = drive(child, (40, Event.EXITED))
    assert child.deadline_s == 40 + backoff_s(1)


def test_failures_add_up_while_it_is_not_healthy() -> None:
    child, _ = drive(
        FRESH, (0, Event.START), (1, Event.READY), (2, Event.EXITED), (3, Event.DUE), (4, Event.READY), (5, Event.EXITED)
    )
    assert child.deadline_s == 5 + backoff_s(2)


def test_a_child_too_slow_to_start_is_killed_once_and_tried_again() -> None:
    child, effects = drive(FRESH, (0, Event.START), (60, Event.DUE))
    assert (child.state, child.deadline_s, effects) == (State.STARTING, None, [Effect.SPAWN, Effect.KILL])
    child, _ = drive(child, (60.1, Event.EXITED))
    assert child.state is State.BACKING_OFF


def test_a_child_too_slow_to_stop_is_killed() -> None:
    child, effects = drive(FRESH, (0, Event.START), (1, Event.READY), (2, Event.STOP), (5, Event.DUE), (5, Event.EXITED))
    assert (child.state, effects[1:]) == (State.STOPPED, [Effect.TERMINATE, Effect.KILL])


def test_a_stop_during_the_pause_needs_no_process() -> None:
    child, effects = drive(FRESH, (0, Event.START), (1, Event.READY), (2, Event.EXITED), (2.1, Event.STOP))
    assert (child.state, effects) == (State.STOPPED, [Effect.SPAWN])


@pytest.mark.parametrize(
    ("child", "code", "event"),
    [
        (FRESH._replace(state=State.STARTING), EXIT_CONFIGURATION, Event.HOPELESS),
        (FRESH._replace(state=State.STARTING), 1, Event.EXITED),
        (FRESH._replace(state=State.STARTING, failures=FIRST_STARTS_MAX - 1), 1, Event.HOPELESS),
        # Once it has served, what keeps it from starting may pass by itself: the port of a process that is just ending.
        (FRESH._replace(state=State.STARTING, was_ready=True, failures=100), EXIT_CONFIGURATION, Event.EXITED),
        (FRESH._replace(state=State.READY, was_ready=True), 0, Event.EXITED),
        (FRESH._replace(state=State.STOPPING), -15, Event.EXITED),
        (FRESH._replace(state=State.STARTING, meant_to_end=True), 0, Event.DONE),
        (FRESH._replace(state=State.STARTING, meant_to_end=True), 1, Event.HOPELESS),
        (FRESH._replace(state=State.STOPPING, meant_to_end=True), 0, Event.EXITED),
    ],
)
def test_an_exit_code_is_done_hopeless_or_an_exit(child: Child, code: int, event: Event) -> None:
    assert exit_event(child, code) is event


def test_a_child_that_is_meant_to_end_is_up_when_it_is_done() -> None:
    child, _ = drive(FRESH._replace(meant_to_end=True), (0, Event.START), (1, Event.DONE))
    assert child.up and child.state is State.STOPPED


def test_stop_is_an_answer_in_every_state() -> None:
    assert all((state, Event.STOP) in TABLE for state in State)


@given(st.lists(st.sampled_from(Event), max_size=40))
def test_a_child_has_at_most_a_single_process_and_stop_ends_it(events: list[Event]) -> None:
    child, running, now_s = FRESH, False, 0.0
    for event in [*events, Event.STOP, Event.EXITED]:
        now_s += 1
        ends = event in (Event.EXITED, Event.DONE, Event.HOPELESS)
        if (child.state, event) not in TABLE or (ends and not running):
            continue
        if ends:
            running = False
        child, effects = step(child, event, now_s)
        if Effect.SPAWN in effects:
            assert not running
            running = True
        assert running == (child.state in (State.STARTING, State.READY, State.STOPPING))
        assert child.state is not State.BACKING_OFF or child.deadline_s is not None
    assert not running
