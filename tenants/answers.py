"""How long pages and requests wait for a broker that may have stopped answering."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from messaging.caller import current_caller
from messaging.errors import NotReady

SILENT_S = 3.0  # so long after a broker answered nothing at all nobody waits for it in full: a page that leads on to another one
MOMENT_S = 0.5  # for what is asked of a broker that was silent before: it may be back, and another may answer
INSTANT_S = 0.1  # for what is asked once that moment is used up: what a broker that is well answers at once


class NoAnswer(NotReady):
    """There was no answer in time."""


class NothingAnswered(NoAnswer):
    """The broker answers nothing, whatever it is asked."""


class Answers:
    """Whoever was not answered in time has a moment for all else that they ask together. If nobody was answered meanwhile, so has
    everybody, but one at a time, until somebody is answered: pages that look again every few seconds would otherwise hold all
    connections of their browser, and other pages would never load. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers = 0
        self._in_full = 0  # calls that wait in full
        self._silent = False
        self._still_until_s = 0.0

    @contextmanager
    def waiting(self, answer_s: float) -> Iterator[float]:
        """Seconds to wait for an answer: `answer_s` at most. One that is too late raises `TimeoutError` or `NoAnswer` in here."""
        caller = current_caller()
        with self._lock:
            in_full = not caller.unanswered and not (self._silent and (self._in_full or time.monotonic() < self._still_until_s))
            self._in_full += in_full
            before = self._answers
        began_s = time.monotonic()
        try:
            yield answer_s if in_full else min(answer_s, max(INSTANT_S, MOMENT_S - caller.waited_s))
        except (TimeoutError, NoAnswer) as error:
            caller.unanswered = True
            with self._lock:
                self._silent |= in_full and self._answers == before
                if in_full and isinstance(error, NothingAnswered):
                    self._still_until_s = time.monotonic() + SILENT_S
            raise
        except NotReady:  # what cannot be reached says nothing
            raise
        except Exception:  # whatever the broker says is an answer
            self.answered()
            raise
        else:
            self.answered()
        finally:
            if not in_full:
                caller.waited_s += time.monotonic() - began_s
            with self._lock:
                self._in_full -= in_full

    def answered(self) -> None:
        """The broker answered something, to whomever."""
        with self._lock:
            self._answers += 1
            self._silent = False
