"""Calls of the admin RPC on the broker: blocking for pages, awaited for the live feed.

A page waits at most `ANSWER_S`, and then says that the broker is not responding; its calls are not made any more, or ended.
A broker that answers nothing at all is waited for half as long.
Whatever else the page asks then has a moment, and so have other pages until the broker answers (`tenants.answers`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext
from messaging.adminrpc.calls import TypedCalls
from messaging.adminrpc.methods import NAMESPACES_LIVE
from messaging.adminrpc.topics import LiveAsked, NamespaceLive
from messaging.caller import Caller, current_caller, working_for
from messaging.errors import MagnetarError, NotReady
from messaging.fairness.threads import FairThreads
from tenants import broker as tenants_broker
from tenants.answers import NothingAnswered
from tenants.broker import rpc

ANSWER_S = 5.0
THREADS = 16
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Addresses:
    """URLs for clients; empty if the broker is not running or has no such listener."""

    broker_url: str = ""
    broker_url_tls: str = ""
    ws_url: str = ""


@cache
def _threads() -> FairThreads:
    return FairThreads(THREADS, "page-rpc")


def _submit(caller: Caller, call: Callable[[TypedCalls], T]) -> Future[T]:
    with working_for(caller):
        return _threads().submit(caller.tenant, lambda: call(rpc()))


def ask(call: Callable[[TypedCalls], T]) -> T:
    """The result of `call`, for pages. Raises the broker's errors, and `NotReady` if it does not respond in time."""
    who = current_caller()
    waiting = Caller(who.tenant)
    try:
        with tenants_broker.answers.waiting(ANSWER_S) as wait_s:
            answer = _submit(waiting, call)
            try:
                with who.ending(waiting.leave):
                    return tenants_broker.awaited(answer, wait_s)
            except (TimeoutError, NothingAnswered):
                answer.cancel()
                waiting.leave()
                raise
    except (TimeoutError, NothingAnswered):
        raise _late() from None


def _late() -> NotReady:
    """Without how long it was waited for, which is another time at each refresh."""
    return NotReady(gettext("the broker did not respond in time: try again in a moment"))


def why(error: MagnetarError) -> str:
    """The problem without the advice: for a page that retries by itself or gives its own advice."""
    text = said(error.message) or gettext("the broker cannot be reached")
    return text.partition(": ")[0] if isinstance(error, NotReady) else text


def ask_or_why(call: Callable[[TypedCalls], T]) -> tuple[T | None, str]:
    """The result and "", or None and the reason. For pages that can be shown without the result."""
    try:
        return ask(call), ""
    except MagnetarError as error:
        return None, why(error)


def ask_each_or_why(calls: Sequence[Callable[[TypedCalls], T]]) -> list[tuple[T | None, str]]:
    """As `ask_or_why` of each, in their order, but all at once: it takes as long as one, `ANSWER_S` at most."""
    if not calls:
        return []
    who = current_caller()
    waiting = [Caller(who.tenant) for _ in calls]

    def leave() -> None:
        for each in waiting:
            each.leave()

    asked = [_submit(caller, call) for caller, call in zip(waiting, calls, strict=True)]
    with suppress(TimeoutError, NotReady), tenants_broker.answers.waiting(ANSWER_S) as wait_s, who.ending(leave):
        wait(asked, wait_s)
        if not any(each.done() and not isinstance(each.exception(), NotReady) for each in asked):
            raise NotReady("nobody answered") if all(each.done() for each in asked) else TimeoutError
    return list(map(_outcome, asked, waiting))


def _outcome(asked: Future[T], caller: Caller) -> tuple[T | None, str]:
    """Of what nobody waits for any longer."""
    if not asked.done():
        asked.cancel()
        caller.leave()
        return None, why(_late())
    try:
        return asked.result(), ""
    except MagnetarError as error:
        return None, why(error)


async def namespace_live(asked: LiveAsked) -> NamespaceLive:
    """For `LiveHub`: one poll."""
    poll = Caller(asked.namespace.partition("/")[0])
    poll.patience_s = ANSWER_S
    return await asyncio.wrap_future(_submit(poll, lambda client: client.call(NAMESPACES_LIVE, asked).whole()))


def addresses() -> Addresses:
    """Where clients find the brokers. Reads a small file, or asks a broker, once in a while."""
    found = tenants_broker.addresses()
    return Addresses(*(found.get(key, "") for key in ("broker_url", "broker_url_tls", "ws_url")))
