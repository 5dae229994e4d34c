"""The links of a broker to the others: one for each client and broker, as long as something is open on it."""

from __future__ import annotations

import asyncio
from dataclasses import astuple
from typing import NamedTuple

from messaging.broker.runtime.ownership.delegation import act_for, delegated_client, port_of
from messaging.broker.runtime.ownership.owners import Elsewhere
from messaging.broker.runtime.remote.link import CLIENT_VERSION, BrokerLink
from messaging.errors import MagnetarError
from messaging.local_caller import own_address
from messaging.permissions.model import Principal
from messaging.protocol import frames
from messaging.protocol import pulsar_pb2 as pb
from messaging.settings import Settings


class _Place(NamedTuple):
    port: int
    principal: tuple[object, ...]


class _Shared:
    def __init__(self, link: BrokerLink) -> None:
        self.link = link
        self.users = 0
        self.opening: asyncio.Task[None] | None = None


class BrokerLinks:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._links: dict[_Place, _Shared] = {}

    def __len__(self) -> int:
        return len(self._links)

    async def take(self, principal: Principal, elsewhere: Elsewhere) -> LinkUse:
        """Raises `NotReady`, or the error with which the other broker refuses the client."""
        place = _Place(port_of(elsewhere.addresses["broker_url"]), astuple(principal))
        shared = self._links.get(place)
        if shared is None or not shared.link.usable:
            shared = self._links[place] = self._dial(place, principal)
        shared.users += 1
        use = LinkUse(self, place, shared)
        try:
            if shared.opening is not None:
                await asyncio.shield(shared.opening)
        except BaseException:
            use.release()
            raise
        return use

    def _dial(self, place: _Place, principal: Principal) -> _Shared:
        settings = self._settings
        connect = pb.Connect(
            client_version=CLIENT_VERSION,
            protocol_version=frames.PROTOCOL_VERSION,
            feature_flags=pb.FeatureFlags(supports_auth_refresh=False, supports_broker_entry_metadata=False),
        )
        act_for(settings, connect, delegated_client(principal, sessions=True))
        link = BrokerLink(connect, settings.message_bytes_max, settings.keep_alive_ms / 1000, lambda: self._ended(place, shared))
        shared = _Shared(link)
        shared.opening = asyncio.get_running_loop().create_task(
            link.open(own_address(settings.plain_host), place.port), name="link to another broker"
        )
        shared.opening.add_done_callback(_look)
        return shared

    def _ended(self, place: _Place, shared: _Shared) -> None:
        if self._links.get(place) is shared:
            del self._links[place]

    def release(self, place: _Place, shared: _Shared, error: MagnetarError) -> None:
        shared.users -= 1
        if not shared.users:
            if shared.opening is not None:
                shared.opening.cancel()
            self._ended(place, shared)
            shared.link.end(error)


class LinkUse:
    """The use of a link by a producer or consumer; the last one that releases it closes it."""

    def __init__(self, links: BrokerLinks, place: _Place, shared: _Shared) -> None:
        self._links = links
        self._place = place
        self._shared: _Shared | None = shared
        self.link = shared.link

    def release(self) -> None:
        """Idempotent."""
        shared, self._shared = self._shared, None
        if shared is not None:
            self._links.release(self._place, shared, _UNUSED)

    def release_after(self, answer: asyncio.Future[pb.Command]) -> None:
        """What was sent before is certain to be read: a socket that is closed with answers unread may lose it."""
        answer.add_done_callback(lambda _: self.release())


_UNUSED = MagnetarError("the link to another broker is not used any more")


def _look(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()  # whoever waits is told; it may be that nobody does any more
