"""Finds out that another broker's process is gone before its lease ends: nothing listens on its port any more.

A connection that is refused comes from the system of a machine that runs: nobody has the port. A broker that is only slow, stopped
or cut off refuses nothing, and keeps its bundles until its lease ends. If this is wrong all the same, the broker is fenced, which
harms nothing but itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from urllib.parse import urlsplit

import structlog

from messaging.broker.runtime.ownership.fleet_member import FleetMember
from messaging.broker.runtime.ownership.instance import machine
from messaging.broker.runtime.ownership.shared_member import SharedMember
from messaging.local_caller import is_loopback
from messaging.storage.ownership import MACHINE, BrokerSession, RecoveryFailed

log = structlog.get_logger("broker.ownership")

LOOK_S = 0.3
TIMEOUT_S = 0.3  # of a connection
REFUSALS = 2  # in a row, until the first of the others ends it
REFUSALS_MORE = 4  # for each broker that is to be before this one


class GoneBrokers:
    def __init__(self, member: SharedMember) -> None:
        self._member = member
        self._refusals: Counter[tuple[str, int]] = Counter()

    async def look(self) -> None:
        """Raises `StoreError`."""
        others = [each for each in self._member.other_sessions() if each.serves]
        there = await asyncio.gather(*map(listens, others))
        gone = [each for each, listening in zip(others, there, strict=True) if listening is False]
        self._member.refused_by(set(map(_key, gone)))  # whoever asks for its topics waits, and is not sent there any more
        self._refusals = Counter({_key(each): self._refusals[_key(each)] + 1 for each in gone})
        before = sum(each.broker_id < self._member.broker_id for each in others if each not in gone)
        for each in gone:
            if self._refusals[_key(each)] >= REFUSALS + REFUSALS_MORE * before:
                log.warning("ownership.broker_gone", gone_broker_id=each.broker_id, gone_session=each.session)
                with suppress(RecoveryFailed):  # said where it is noticed; others are ended all the same
                    await self._member.end_session(each.broker_id, each.session, gone=True)


class RefusingBrokers:
    """The same where each broker has a log of its own, on one machine: nobody takes over from one that is gone, and nobody is sent
    there until it is back. Whoever asks for its topics waits for it instead."""

    def __init__(self, member: FleetMember) -> None:
        self._member = member

    async def look(self) -> None:
        others = [each for each in self._member.other_sessions() if each.serves]
        there = await asyncio.gather(*(listens(each, of_this_machine=True) for each in others))
        self._member.refused_by({_key(each) for each, listening in zip(others, there, strict=True) if listening is False})


def _key(session: BrokerSession) -> tuple[str, int]:
    return session.broker_id, session.session


async def listens(session: BrokerSession, *, of_this_machine: bool = False) -> bool | None:
    """Whether anything does where the broker did. None: that is not known, and its lease says whether it is there.
    `of_this_machine`: it is."""
    address = urlsplit(session.addresses.get("rpc_url", ""))
    if address.hostname is None or address.port is None:
        return None
    if not of_this_machine and is_loopback(address.hostname) and session.addresses.get(MACHINE, "") != (machine() or None):
        return None  # of another machine: whatever listens there on this one is something else
    try:
        async with asyncio.timeout(TIMEOUT_S):
            _, writer = await asyncio.open_connection(address.hostname, address.port)
    except ConnectionRefusedError:
        return False
    except (OSError, TimeoutError):
        return None
    writer.close()
    return True
