"""What happens to one child, without any process: a table of (state, event) -> (state, effects), and the clock handed in.

    stopped --START--> starting --READY--> ready --EXITED--> backing-off --DUE--> starting ...
    STOP leads from anywhere to stopping and, when the process is gone, to stopped.
    failed is for good: a child that cannot start ends the whole platform with its message, as nobody would see it otherwise.

Times are seconds of one monotonic clock. Each state that may last only so long has a deadline; DUE is the event of passing it.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

BACKOFF_FIRST_S = 0.2
BACKOFF_LONGEST_S = 10.0
HEALTHY_AFTER_S = 30.0  # a child that was ready this long begins its backoff anew
FIRST_STARTS_MAX = 5  # a child that never got ready in so many tries will not
EXIT_CONFIGURATION = 2  # exit code of our programs for "this cannot work until a person changes something"


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
    EXITED = "exited"  # unexpectedly, or as asked while stopping
    DONE = "done"  # a child that is meant to end ended well
    HOPELESS = "hopeless"  # exited in a way that another try cannot mend
    DUE = "due"  # the deadline of the state passed
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
    (State.STARTING, Event.DUE): (State.STARTING, (Effect.KILL,)),  # too slow; its exit brings the backoff
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
    """Which event the end of the process is. `code` is negative for a signal, as `subprocess` has it."""
    if child.state is State.STOPPING:
        return Event.EXITED
    if child.meant_to_end:
        return Event.DONE if code == 0 else Event.HOPELESS
    if not child.was_ready and (code == EXIT_CONFIGURATION or child.failures + 1 >= FIRST_STARTS_MAX):
        return Event.HOPELESS
    return Event.EXITED


def backoff_s(failures: int) -> float:
    """How long to wait after the n-th exit in a row, n from 1."""
    return min(BACKOFF_LONGEST_S, BACKOFF_FIRST_S * 2.0 ** min(failures - 1, 16))


def step(child: Child, event: Event, now_s: float) -> tuple[Child, tuple[Effect, ...]]:
    """The child after `event`, and what to do. Raises `KeyError` for an event that cannot happen in its state."""
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
