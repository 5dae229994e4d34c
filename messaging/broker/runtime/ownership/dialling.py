"""How a broker connects to another one on behalf of a client: over loopback on one machine, and wherever our processes speak mutual
TLS, to a listener that takes nobody but brokers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from messaging.errors import NotReady
from messaging.identity.certificates import common_names
from messaging.internal_tls import internal_client_tls
from messaging.local_caller import own_address
from messaging.settings import Settings

BROKER = "broker"  # the common name of its certificate
INTERNAL_URL = "internal_url"  # among the addresses of a session: of that listener


class BrokerPlace(NamedTuple):
    host: str
    port: int
    tls: bool


class BrokerDialler:
    """Raises `ConfigError` for a certificate that cannot be used."""

    def __init__(self, settings: Settings) -> None:
        self._here = own_address(settings.plain_host)
        self._tls = internal_client_tls(settings, BROKER)

    def place_of(self, addresses: Mapping[str, str]) -> BrokerPlace:
        """`addresses`: those of a broker's session."""
        internal = addresses.get(INTERNAL_URL)
        if self._tls is not None and internal:
            parts = urlsplit(internal)
            return BrokerPlace(parts.hostname or "", parts.port or 0, True)
        return BrokerPlace(self._here, urlsplit(addresses["broker_url"]).port or 0, False)

    async def dial(self, make: Callable[[], asyncio.BaseProtocol], place: BrokerPlace) -> None:
        """The protocol that `make` makes is connected to that broker, and to nobody else. Raises `OSError`, `NotReady`."""
        loop = asyncio.get_running_loop()
        if not place.tls:
            await loop.create_connection(make, place.host, place.port)
            return
        assert self._tls is not None
        # Nothing is said before it is known who is there: what a protocol says first is on behalf of a client.
        checked = _Checked(make)
        transport, _ = await loop.create_connection(lambda: checked, place.host, place.port, ssl=self._tls.context())
        names = common_names(transport.get_extra_info("peercert"))
        if names != [BROKER]:
            transport.abort()
            raise NotReady(f"{place.host}:{place.port} has the certificate of {', '.join(names) or 'nobody'}, not of a broker")
        checked.hand_over(transport)


class _Checked(asyncio.Protocol):
    """In the place of a protocol until the certificate was looked at."""

    def __init__(self, make: Callable[[], asyncio.BaseProtocol]) -> None:
        self._make = make

    def hand_over(self, transport: asyncio.Transport) -> None:
        protocol = self._make()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
