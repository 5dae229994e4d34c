"""The state machine of one child, without a process: a table of (state, event) -> (state, effects). The time is an argument.

    stopped --START--> starting --READY--> ready --EXITED--> backing-off --DUE--> starting ...
    STOP leads from any state to stopping and, when the process has ended, to stopped.
    failed is final: a child that cannot start stops the whole platform with its error message, which nobody would see otherwise.

Times are seconds of one monotonic clock. A state with a time limit has a deadline; DUE is the event of passing it.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

BACKOFF_FIRST_S = 0.2
BACKOFF_LONGEST_S = 10.0
HEALTHY_AFTER_S = 30.0  # being ready this long resets the backoff
FIRST_STARTS_MAX = 5  # a child that was never ready after so many tries has failed
EXIT_CONFIGURATION = 2  # exit code of our programs for a configuration error


class State(Enum):
    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    BACKING_OFF = "backing-off"
    STOPPING = "stopping"
    FAILED = "failed"


class Event(Enum):
    START = "start"
    READY = "ready"
    EXITED = "exited"  # unexpectedly, or as requested while stopping
    DONE = "done"  # a child that is meant to end succeeded
    HOPELESS = "hopeless"  # exited with an error that a restart cannot fix
    DUE = "due"  # the deadline of the state has passed
    STOP = "stop"


class Effect(Enum):
    SPAWN = "spawn"
    TERMINATE = "terminate"
    KILL = "kill"


_NONE: tuple[Effect, ...] = ()
TABLE: dict[tuple[State, Event], tuple[State, tuple[Effect, ...]]] = {
    (State.STOPPED, Event.START): (State.STARTING, (Effect.SPAWN,)),
    (State.STOPPED, Event.STOP): (State.STOPPED, _NONE),
    (State.STARTING, Event.READY): (State.READY, _NONE),
    (State.STARTING, Event.EXITED): (State.BACKING_OFF, _NONE),
    (State.STARTING, Event.DONE): (State.STOPPED, _NONE),
    (State.STARTING, Event.HOPELESS): (State.FAILED, _NONE),
    (State.STARTING, Event.DUE): (State.STARTING, (Effect.KILL,)),  # too slow; its exit starts the backoff
    (State.STARTING, Event.STOP): (State.STOPPING, (Effect.TERMINATE,)),
    (State.READY, Event.EXITED): (State.BACKING_OFF, _NONE),
    (State.READY, Event.DUE): (State.READY, _NONE),  # healthy long enough
    (State.READY, Event.STOP): (State.STOPPING, (Effect.TERMINATE,)),
    (State.BACKING_OFF, Event.DUE): (State.STARTING, (Effect.SPAWN,)),
    (State.BACKING_OFF, Event.STOP): (State.STOPPED, _NONE),
    (State.STOPPING, Event.EXITED): (State.STOPPED, _NONE),
    (State.STOPPING, Event.READY): (State.STOPPING, _NONE),
    (State.STOPPING, Event.STOP): (State.STOPPING, _NONE),
    (State.STOPPING, Event.DUE): (State.STOPPING, (Effect.KILL,)),
    (State.FAILED, Event.STOP): (State.FAILED, _NONE),
}


class Child(NamedTuple):
    """`failures` counts exits since the child was last healthy; `starts` counts every spawn."""

    start_timeout_s: float
    stop_timeout_s: float
    meant_to_end: bool = False
    state: State = State.STOPPED
    since_s: float = 0.0
    deadline_s: float | None = None
    failures: int = 0
    starts: int = 0
    was_ready: bool = False
    done: bool = False  # only of a child that is meant to end

    @property
    def restarts(self) -> int:
        return max(0, self.starts - 1)

    @property
    def up(self) -> bool:
        """Whether what depends on this child may start."""
        return self.state is State.READY or self.done


def exit_event(child: Child, code: int) -> Event:
    """The event for the end of the process. `code` is negative for a signal, as in `subprocess`."""
    if child.state is State.STOPPING:
        return Event.EXITED
    if child.meant_to_end:
        return Event.DONE if code == 0 else Event.HOPELESS
    if not child.was_ready and (code == EXIT_CONFIGURATION or child.failures + 1 >= FIRST_STARTS_MAX):
        return Event.HOPELESS
    return Event.EXITED


def backoff_s(failures: int) -> float:
    """How long to wait after the n-th consecutive exit, counted from 1."""
    return min(BACKOFF_LONGEST_S, BACKOFF_FIRST_S * 2.0 ** min(failures - 1, 16))


def step(child: Child, event: Event, now_s: float) -> tuple[Child, tuple[Effect, ...]]:
    """The child after `event` and the effects to perform. Raises `KeyError` for an event that is impossible in its state."""
    state, effects = TABLE[child.state, event]
    if event in (Event.EXITED, Event.HOPELESS) and child.state is not State.STOPPING:
        child = child._replace(failures=child.failures + 1)
    if event is Event.READY and state is State.READY:
        child = child._replace(was_ready=True)
    if event is Event.DUE and state is State.READY:
        child = child._replace(failures=0)
    if event is Event.DONE:
        child = child._replace(done=True)
    if Effect.SPAWN in effects:
        child = child._replace(starts=child.starts + 1)
    if state is child.state:
        return child._replace(deadline_s=None if event is Event.DUE else child.deadline_s), effects
    return child._replace(state=state, since_s=now_s, deadline_s=_deadline_s(child, state, now_s)), effects


def _deadline_s(child: Child, state: State, now_s: float) -> float | None:
    if state is State.STARTING:
        return now_s + child.start_timeout_s
    if state is State.READY:
        return now_s + HEALTHY_AFTER_S if child.failures else None
    if state is State.BACKING_OFF:
        return now_s + backoff_s(child.failures)
    if state is State.STOPPING:
        return now_s + child.stop_timeout_s
    return None
