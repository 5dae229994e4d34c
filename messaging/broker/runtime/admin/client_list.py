"""Admin RPC: which clients are connected to this broker, in slices of the turns."""

from __future__ import annotations

from collections import Counter

from messaging.adminrpc.clients import LIBRARIES_MAX, ORDERS, ClientConnection, ClientsList, ClientsListed, in_order
from messaging.adminrpc.methods import CLIENTS_LIST
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.peers import Peer
from messaging.errors import InvalidValue
from messaging.permissions.model import tenant_of_key_role

LOOK_COST = 2  # at one connection, in units of `core/turns/command_costs.py`; and as much for each thing that is open on it
TOPICS_MAX = 3  # of one connection
KEPT = 2  # times as many rows as are asked for are kept before they are put in order


class ClientListHandlers:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @answers(CLIENTS_LIST)
    async def list_clients(self, request: ClientsList) -> ClientsListed:
        """Raises `InvalidValue`."""
        if request.order not in ORDERS:
            raise InvalidValue(f"order {request.order!r} is not known: use one of {', '.join(ORDERS)}")
        slices = self._broker.topics.services.loops.slices(request.tenant)
        rows: list[ClientConnection] = []
        libraries: Counter[str] = Counter()
        total = producers = consumers = 0
        for peer in list(self._broker.peers.connections):
            await slices.spend(LOOK_COST * (1 + peer.open_count))
            row = self._row(peer, request.tenant)
            if row is None or not _matches(row, request.words.lower()):
                continue
            total += 1
            producers += row.producers
            consumers += row.consumers
            libraries[row.client] += 1
            rows.append(row)
            if len(rows) >= KEPT * request.connections_max:
                rows = in_order(rows, request.order, descending=request.descending, connections_max=request.connections_max)
        counted = dict(libraries.most_common(LIBRARIES_MAX))
        return ClientsListed(
            rows=in_order(rows, request.order, descending=request.descending, connections_max=request.connections_max),
            total=total,
            producers=producers,
            consumers=consumers,
            libraries=counted,
            uncounted_libraries=total - sum(counted.values()),
        )

    def _row(self, peer: Peer, tenant: str) -> ClientConnection | None:
        """None for one that has nothing to do with the tenant, is one of our own, or has not said who it is."""
        principal = peer.principal
        if peer.closed or principal is None or principal.service:
            return None
        producers, consumers = ([name for name in names if not tenant or name.tenant == tenant] for names in peer.open_topics())
        is_own = not tenant or tenant_of_key_role(principal.role) == tenant
        if not producers and not consumers and not is_own:
            return None
        return ClientConnection(
            address=peer.peer,
            client=peer.client_version,
            protocol_version=peer.protocol_version,
            role=principal.role,
            key_id=principal.key_id if is_own else "",  # whoever was granted something here has keys of their own
            connected_ms=peer.connected_ms,
            producers=len(producers),
            consumers=len(consumers),
            topics=[str(name) for name in dict.fromkeys((*producers, *consumers))][:TOPICS_MAX],
            websocket=peer.over_websocket,
            tls=peer.tls,
            broker_id=self._broker.settings.broker_id,
        )


def _matches(row: ClientConnection, words: str) -> bool:
    texts = (row.address, row.client, row.role, row.key_id, *row.topics)
    return not words or any(words in text.lower() for text in texts)
