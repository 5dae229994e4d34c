"""Takes time, chance and threads away from the broker and gives it ours: whatever module names them, now or after it was moved.

Every module of the data plane is searched for Python's own modules, classes and functions of that kind, and for thread pools that
it made when it was imported; while the simulation runs, ours stand in their place.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import inspect
import pkgutil
import queue
import random
import secrets
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import FunctionType, ModuleType
from typing import Any

from tests.simulation import threads
from tests.simulation.virtual_time import VirtualClock

PACKAGES = ("messaging.broker", "messaging.storage", "messaging.protocol")


class _Overlay:
    """A module of Python's with some of its names replaced."""

    def __init__(self, module: ModuleType, **replaced: Any) -> None:
        self._module = module
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


@contextmanager
def substituted(clock: VirtualClock, chance: Random) -> Iterator[None]:
    """Nothing in `messaging` knows of real time, real chance or real threads until this ends."""
    _import_everything()
    undo: list[Callable[[], None]] = []
    substitutes = _Substitutes(clock, chance)
    try:
        for name, module in sorted(sys.modules.items()):
            if name.split(".")[0] == "messaging":
                substitutes.into(module, undo)
        yield
    finally:
        for restore in reversed(undo):
            restore()


def _import_everything() -> None:
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


class _Substitutes:
    def __init__(self, clock: VirtualClock, chance: Random) -> None:
        clocks = clock.time_module(lambda seconds: threads.Threads.current.pause(seconds))
        pools: dict[str, Any] = {"ThreadPoolExecutor": threads.ThreadPool, "Future": threads.Future}
        locking: dict[str, Any] = {"Thread": threads.Thread, "Lock": threads.Lock}
        bits: dict[str, Any] = {
            "randbits": chance.getrandbits,
            "token_bytes": chance.randbytes,
            "token_hex": lambda size=32: chance.randbytes(size).hex(),
        }
        self._ours: dict[int, Any] = {
            id(time): clocks,
            id(threading): _Overlay(threading, **locking),
            id(queue): _Overlay(queue, SimpleQueue=threads.SimpleQueue),
            id(concurrent.futures): _Overlay(concurrent.futures, **pools),
            id(random): _Overlay(random, random=chance.random, choice=chance.choice, uniform=chance.uniform),
            id(secrets): _Overlay(secrets, **bits),
            id(uuid): _Overlay(uuid, uuid4=lambda: uuid.UUID(int=chance.getrandbits(128), version=4)),
            id(queue.SimpleQueue): threads.SimpleQueue,
        }
        for module, names in ((threading, locking), (concurrent.futures, pools), (secrets, bits)):
            self._ours |= {id(getattr(module, name)): ours for name, ours in names.items()}
        for name in ("time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "sleep"):
            self._ours[id(getattr(time, name))] = getattr(clocks, name)

    def into(self, module: ModuleType, undo: list[Callable[[], None]]) -> None:
        for name, value in list(vars(module).items()):
            if id(value) in self._ours:
                self._put(module, name, value, self._ours[id(value)], undo)
            elif isinstance(value, concurrent.futures.ThreadPoolExecutor):
                self._put(module, name, value, _PoolOfModule(), undo)
            elif isinstance(value, FunctionType):
                self._into_defaults(value, undo)
            elif inspect.isclass(value) and value.__module__ == module.__name__:
                for member in vars(value).values():
                    if isinstance(member, FunctionType):
                        self._into_defaults(member, undo)

    def _into_defaults(self, function: FunctionType, undo: list[Callable[[], None]]) -> None:
        before = function.__defaults__ or ()
        if any(id(value) in self._ours for value in before):
            self._put(function, "__defaults__", before, tuple(self._ours.get(id(value), value) for value in before), undo)

    def _put(self, holder: Any, name: str, before: Any, after: Any, undo: list[Callable[[], None]]) -> None:
        setattr(holder, name, after)
        undo.append(lambda: setattr(holder, name, before))


class _PoolOfModule(concurrent.futures.Executor):
    """A pool that a module made at import: in each life it is another."""

    def __init__(self) -> None:
        self._pools: dict[int, threads.ThreadPool] = {}
        self._of: threads.Threads | None = None
        self._pool: threads.ThreadPool | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> threads.Future:
        if self._pool is None or self._of is not threads.Threads.current:
            self._of, self._pool = threads.Threads.current, threads.ThreadPool(2)
        return self._pool.submit(fn, *args, **named)
