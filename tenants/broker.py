"""The broker, as the control plane calls it.

`AdminRpc` keeps one connection a thread. Django's request threads come and go, so calls run on a few threads that stay. They are
taken in turns by tenant, and a read whose caller has left is ended, or not begun.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import nullcontext
from functools import cache, partial
from typing import Any, TypeVar

from django.conf import settings as django_settings

from messaging.adminrpc.base import A, Method, R
from messaging.adminrpc.brokers import BrokerSeen
from messaging.adminrpc.calls import Standing, TypedCalls
from messaging.adminrpc.finding import BrokerChoice, admin_rpc, choice_of
from messaging.broker_files import any_broker
from messaging.caller import Caller, current_caller, working_for
from messaging.errors import NotReady
from messaging.fairness.threads import FairThreads
from messaging.settings import Settings
from tenants.answers import Answers, NoAnswer, NothingAnswered

_THREADS = 16
ANSWER_S = 20.0
LOOK_S, STILL_S = 1.2, 2.0  # without an answer: until a page asks whether the broker stands still, and until it does
SMALL_S = 0.6  # within that a broker answers what takes it no time
T = TypeVar("T")
PROBE = "health"  # who a health check is

_lock = threading.Lock()
_rpc: TypedCalls | None = None
answers = Answers()


class PooledRpc(TypedCalls):
    """Each call waits for its turn and its answer, `ANSWER_S` at most; then it raises `NotReady`."""

    def __init__(self, inner: TypedCalls, threads_max: int = _THREADS) -> None:
        self._inner = inner
        self._threads = FairThreads(threads_max, "broker-rpc")

    def perform(self, method: Method[R, A], request: R, answer_s: float | None = None) -> A:
        """`answer_s`: instead of `ANSWER_S`. A read is ended when nobody waits for it any more, a change goes on."""
        caller = current_caller()
        if answer_s is None and caller.patience_s is not None:
            with answers.waiting(caller.patience_s) as wait_s:
                return self._perform(method, request, wait_s, caller)
        return self._perform(method, request, ANSWER_S if answer_s is None else answer_s, caller)

    def _perform(self, method: Method[R, A], request: R, answer_s: float, caller: Caller) -> A:
        asking = Caller(caller.tenant) if method.long_read else caller
        with working_for(asking):
            answer = self._threads.submit(caller.tenant, lambda: self._inner.perform(method, request))
        try:
            with caller.ending(partial(_end, answer, asking)) if method.long_read else nullcontext():
                return self.awaited(answer, answer_s) if caller.patience_s is not None else self._in_full(answer, answer_s)
        except CancelledError:
            raise NotReady(f"the caller left before the answer to {method.name}") from None
        except NothingAnswered:
            if method.long_read:
                asking.leave()
            raise
        except TimeoutError:
            if method.long_read:
                asking.leave()
            raise NoAnswer("the broker did not respond in time: try again in a moment") from None
        finally:
            answer.cancel()  # what nobody waits for any more is not begun

    def awaited(self, answer: Future[T], answer_s: float) -> T:
        """Its result. Raises `TimeoutError` after `answer_s`, and `NothingAnswered` after `STILL_S` where the broker does not even
        answer what takes it no time: work that takes long is waited for, a process that stands still is not. Where another broker
        is there, what only reads is asked of that one."""
        if answer_s <= STILL_S:
            return answer.result(answer_s)
        began_s = time.monotonic()
        try:
            return answer.result(LOOK_S)
        except TimeoutError:
            if answer.done():  # it is what the call raised
                raise
        asking, looking = self._look()
        both: list[Future[Any]] = [looking, answer]
        done, _ = wait(both, STILL_S - LOOK_S + SMALL_S, return_when=FIRST_COMPLETED)
        _end(looking, asking)
        standing = looking.result() if looking in done and looking.exception() is None else None
        if standing is Standing.ANSWERS:
            answers.answered()  # so that one call that takes long does not shorten what others have
        elif standing is Standing.SILENT or not done:
            wait([answer], max(0, began_s + STILL_S - time.monotonic()))
            if not answer.done():
                raise NothingAnswered("the broker did not respond in time: try again in a moment")
        return answer.result(max(0, began_s + answer_s - time.monotonic()))

    def _in_full(self, answer: Future[T], answer_s: float) -> T:
        """Its result, however long it takes. Another broker is asked where one stands still, but for changes."""
        if answer_s <= STILL_S:
            return answer.result(answer_s)
        try:
            return answer.result(LOOK_S)
        except TimeoutError:
            if answer.done():
                raise
        _, looking = self._look()
        try:
            return answer.result(answer_s - LOOK_S)
        finally:
            looking.cancel()  # where it has not begun: a health check would have its turn after it

    def _look(self) -> tuple[Caller, Future[Standing]]:
        asking = Caller(PROBE)
        with working_for(asking):
            return asking, self._threads.submit(PROBE, lambda: self._inner.look(LOOK_S / 2, SMALL_S))

    @property
    def waiting(self) -> int:
        return self._threads.waiting

    def takes_calls(self, within_s: float) -> bool:
        """Whether somebody who has no calls gets a turn in time. Whether the broker answers is another question."""
        turn = self._threads.submit(PROBE, lambda: None)
        try:
            turn.result(within_s)
        except TimeoutError:
            turn.cancel()
            return False
        return True


def _end(answer: Future[Any], asking: Caller) -> None:
    answer.cancel()
    asking.leave()


def awaited(answer: Future[T], answer_s: float) -> T:
    """As `PooledRpc.awaited`, of a call that runs in a thread of somebody else's."""
    client = rpc()
    return client.awaited(answer, answer_s) if isinstance(client, PooledRpc) else answer.result(answer_s)


def answer_within(method: Method[R, A], request: R, answer_s: float) -> A:
    """What the broker answers somebody who would rather be told that it does not answer than wait longer. Raises its errors, and
    `NoAnswer` after `answer_s`, or a moment where it was silent before."""
    client = rpc()
    if not isinstance(client, PooledRpc):
        return client.call(method, request)
    with answers.waiting(answer_s) as wait_s:
        return client.perform(method, request, wait_s)


def rpc() -> TypedCalls:
    """Calls the broker as the process that this is. Blocks when called. Raises `NotReady` on a call while the broker is away."""
    global _rpc
    with _lock:
        if _rpc is None:
            settings: Settings = django_settings.MAGNETAR
            _rpc = PooledRpc(admin_rpc(settings, django_settings.MAGNETAR_SERVICE, choice()))
        return _rpc


@cache
def choice() -> BrokerChoice:
    """Which broker this process calls."""
    settings: Settings = django_settings.MAGNETAR
    return choice_of(settings, django_settings.MAGNETAR_SERVICE)


def addresses() -> dict[str, str]:
    """Where clients find the broker, as it wrote when it became ready, or brokers on other machines tell: `broker_url`,
    `broker_url_tls`, `ws_url`. Empty while there is none. Reads a small file, or asks a broker, once in a while."""
    settings: Settings = django_settings.MAGNETAR
    if settings.broker_rpc_urls:
        return addresses_of([broker for broker in choice().seen() if broker.live])
    try:
        return {key: str(value) for key, value in any_broker(settings).items() if value}
    except (OSError, ValueError):
        return {}


def addresses_of(brokers: Sequence[BrokerSeen]) -> dict[str, str]:
    """Clients begin at any of them: Pulsar's take several in one URL. A WebSocket has one address."""
    found = {
        "broker_url": _together([broker.service_url or broker.broker_url for broker in brokers]),
        "broker_url_tls": _together([broker.service_url_tls or broker.broker_url_tls for broker in brokers]),
        "ws_url": next((broker.ws_url for broker in brokers if broker.ws_url), ""),
    }
    return {key: value for key, value in found.items() if value}


def _together(urls: Sequence[str]) -> str:
    """pulsar://A:6650,B:6650"""
    given = list(dict.fromkeys(url for url in urls if url))
    return ",".join([*given[:1], *(url.partition("://")[2] for url in given[1:])])


def takes_calls(within_s: float) -> bool:
    """Whether calls to the broker are begun. Blocks for up to `within_s`."""
    client = rpc()
    return not isinstance(client, PooledRpc) or client.takes_calls(within_s)


def use(client: TypedCalls | None) -> None:
    """Another client, for tests; None goes back to our own."""
    global _rpc, answers
    with _lock:
        _rpc, answers = client, Answers()
