"""How a broker's process is set up, seen from a process of its own."""

from __future__ import annotations

import subprocess
import sys

from messaging.broker.runtime.process import ProcessorUse

SCRIPT = """
import gc, sys
from messaging.broker.runtime.process import tune_gc, tune_malloc, resident_bytes, tune_thread_switching

tune_gc()
tune_thread_switching()
tune_malloc()
buffers = [bytes(300_000) for _ in range(100)]  # what is kept is still to be had
del buffers
young, _, old = gc.get_threshold()
assert gc.isenabled() and young >= 10_000 and old >= 100, gc.get_threshold()
assert gc.get_freeze_count() > 1_000
assert sys.getswitchinterval() < 0.001
assert 1 << 20 < resident_bytes() < 1 << 30
"""


def test_a_broker_collects_rarely_switches_often_and_keeps_what_is_freed() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)


def test_the_use_of_processors_is_that_since_it_was_asked_for() -> None:
    now_s, used_s = 100.0, 7.0
    use = ProcessorUse(lambda: now_s, lambda: used_s)
    assert use.percent() == 0.0
    now_s, used_s = 104.0, 9.0
    assert use.percent() == 50.0
    now_s, used_s = 104.5, 9.5
    assert use.percent() == 50.0, "so short a time says little"
    now_s, used_s = 106.0, 9.5
    assert use.percent() == 25.0
