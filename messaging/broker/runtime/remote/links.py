"""The links of a broker to the others, each as long as something is open on it: one for the consumers of a client, and one for its
producers of a topic, since a broker reads nothing of a link whose messages come faster than the topic may take them.

A broker that answers nothing of what it is told once a second (`ownership/silence.py`) is out of reach, though other brokers may
reach it. Links to it are given up, and no new ones made, so that clients come to another broker: the web process passes them on to
one that turned nobody away.
"""

from __future__ import annotations

import asyncio
from dataclasses import astuple
from typing import NamedTuple

from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.ownership.delegation import act_for, delegated_client
from messaging.broker.runtime.ownership.dialling import BrokerPlace
from messaging.broker.runtime.ownership.owners import Elsewhere
from messaging.broker.runtime.ownership.silence import Silence
from messaging.broker.runtime.remote.link import CLIENT_VERSION, BrokerLink
from messaging.errors import MagnetarError, NotReady
from messaging.permissions.model import Principal
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb

LOOK_S = 1.0
SILENT_S = 5.0  # far more than a broker needs for an answer, however busy it is
LINKS_AT_ONCE = 100  # in a turn of the loop
UNREACHABLE = "the broker that serves the topic cannot be reached from this one at the moment: try again"


class _Place(NamedTuple):
    broker: BrokerPlace
    rpc_url: str
    principal: tuple[object, ...]
    lane: str


class _Shared:
    def __init__(self, link: BrokerLink) -> None:
        self.link = link
        self.users = 0
        self.opening: asyncio.Task[None] | None = None


class BrokerLinks:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._settings = broker.settings
        self._links: dict[_Place, _Shared] = {}
        self._silence = broker.other_brokers.silence if broker.other_brokers is not None else Silence()
        broker.background.every(LOOK_S, "give_up_links", self.look)

    async def take(self, principal: Principal, elsewhere: Elsewhere, lane: str) -> LinkUse:
        """`lane`: what shares one. Raises `NotReady`, or the error with which the other broker refuses the client."""
        rpc_url = elsewhere.addresses.get("rpc_url", "")
        if self._silence.is_silent(rpc_url, SILENT_S):
            raise NotReady(UNREACHABLE)
        place = _Place(self._broker.dialler.place_of(elsewhere.addresses), rpc_url, astuple(principal), lane)
        shared = self._links.get(place)
        if shared is None or not shared.link.usable:
            shared = self._links[place] = self._dial(place, principal)
        shared.users += 1
        use = LinkUse(self, shared)
        try:
            if shared.opening is not None:
                await asyncio.shield(shared.opening)
        except BaseException:
            use.release()
            raise
        return use

    async def look(self) -> None:
        silent = self._silence.silent(SILENT_S)
        if not silent:
            return
        for number, (place, shared) in enumerate(list(self._links.items()), 1):
            if place.rpc_url in silent:
                shared.link.give_up(UNREACHABLE)
            if number % LINKS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _dial(self, place: _Place, principal: Principal) -> _Shared:
        settings = self._settings
        connect = pb.Connect(
            client_version=CLIENT_VERSION,
            protocol_version=frames.PROTOCOL_VERSION,
            feature_flags=pb.FeatureFlags(supports_auth_refresh=False, supports_broker_entry_metadata=False),
        )
        act_for(settings, connect, delegated_client(principal, sessions=True))
        self._broker.outgoing.take(principal.tenant)
        link = BrokerLink(
            connect, settings.message_bytes_max, settings.keep_alive_ms / 1000, lambda: self._ended(place, principal.tenant, shared)
        )
        shared = _Shared(link)
        shared.opening = asyncio.get_running_loop().create_task(
            link.open(self._broker.dialler, place.broker), name="link to another broker"
        )
        shared.opening.add_done_callback(_look)
        return shared

    def _ended(self, place: _Place, tenant: str, shared: _Shared) -> None:
        """The link tells it once."""
        self._broker.outgoing.give(tenant)
        if self._links.get(place) is shared:
            del self._links[place]

    def release(self, shared: _Shared, error: MagnetarError) -> None:
        shared.users -= 1
        if not shared.users:
            if shared.opening is not None:
                shared.opening.cancel()
            shared.link.end(error)


class LinkUse:
    """The use of a link by a producer or consumer; the last one that releases it closes it."""

    def __init__(self, links: BrokerLinks, shared: _Shared) -> None:
        self._links = links
        self._shared: _Shared | None = shared
        self.link = shared.link

    def release(self) -> None:
        """Idempotent."""
        shared, self._shared = self._shared, None
        if shared is not None:
            self._links.release(shared, _UNUSED)

    def release_after(self, answer: asyncio.Future[pb.Command]) -> None:
        """What was sent before is certain to be read: a socket that is closed with answers unread may lose it."""
        answer.add_done_callback(lambda _: self.release())


_UNUSED = MagnetarError("the link to another broker is not used any more")


def _look(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()  # whoever waits is told; it may be that nobody does any more
