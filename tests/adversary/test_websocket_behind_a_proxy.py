"""Whose address a WebSocket has where a proxy passes it on: in the audit log, and in the shares of addresses."""

from __future__ import annotations

from pathlib import Path

import pytest
import websockets

from messaging.adminrpc.audit import AuditTake
from tests.support.brokers.running_broker import running_broker

CONSUMER = "/ws/v2/consumer/persistent/acme/orders/t/s"


@pytest.mark.parametrize(
    ("trusted", "address"),
    [(("127.0.0.1",), "203.0.113.7"), ((), "127.0.0.1"), (("10.0.0.0/8",), "127.0.0.1")],
    ids=["of a trusted proxy", "without trusted proxies", "of another proxy"],
)
async def test_the_address_is_the_clients_where_the_proxy_is_trusted(
    tmp_path: Path, trusted: tuple[str, ...], address: str
) -> None:
    """`trusted_proxies` held for REST alone: behind a proxy all WebSockets were one address."""
    async with running_broker(tmp_path, trusted_proxies=trusted) as broker:
        headers = {"Authorization": "Bearer of-nobody", "X-Forwarded-For": "198.51.100.1, 203.0.113.7"}
        with pytest.raises(websockets.InvalidStatus):
            async with websockets.connect(broker.ws_url + CONSUMER, additional_headers=headers, proxy=None):
                pass
        [event] = broker.service.audit.take(AuditTake(boot_id="", acknowledged_sequence=0)).events
        assert event.address == address
