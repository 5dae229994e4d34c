"""Which thread the system lets run when several want to.

The log's thread sleeps nearly always, and once the disk has answered, every receipt waits for it. An ordinary thread that wakes
has to wait until a running one gives up its processor: up to some milliseconds where all are busy. Beside consumers that read from
the disk that is a third to a half of what a receipt takes, so there the thread goes first. Without them it does not: processors
are free then, and it would only keep the loop from its own.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

REAL_TIME = 1  # of 1 to 99: all of them go before ordinary threads


def go_first() -> bool:
    """Lets the calling thread run before ordinary ones whenever it has something to do; not so the threads that it starts.

    False, and nothing changed, where the system does not let us: it takes the capability SYS_NICE or a limit (`ulimit -r`) of at
    least `REAL_TIME`, on Linux."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(REAL_TIME))
    except (AttributeError, OSError):
        return False
    return True


def go_back() -> None:
    """Undoes `go_first`, if that was true. Needs no permission, as long as what was said of threads started later stays."""
    os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))


def may_go_first() -> bool:
    """Whether a thread of this process could. Changes nothing."""
    with ThreadPoolExecutor(1) as threads:  # one that ends at once
        return threads.submit(go_first).result()
