"""Admin RPC: changes of topic policies, on their way to the event topic of their namespace."""

from __future__ import annotations

import structlog

from messaging.adminrpc import policies
from messaging.adminrpc.methods import POLICIES_APPEND_EVENTS
from messaging.broker.runtime.admin.binding import answers
from messaging.broker.runtime.broker import Broker
from messaging.broker.runtime.change_events import ChangeEvents
from messaging.errors import MagnetarError
from messaging.storage.ledger_store import StoreError

log = structlog.get_logger("broker.change_events")


class PolicyEventHandlers:
    def __init__(self, broker: Broker) -> None:
        self._events = ChangeEvents(broker.open_persistent_topic, broker.schemas, broker.settings.cluster_name, broker.now_ms)

    @answers(POLICIES_APPEND_EVENTS)
    async def append(self, request: policies.ChangeEventsAppend) -> policies.ChangeEventsResult:
        """What one topic refuses is no error of the call: the caller goes on with other namespaces."""
        try:
            await self._events.append(request.namespace, request.changes)
        except (MagnetarError, StoreError) as error:
            why = error.message if isinstance(error, MagnetarError) else str(error)
            log.warning("change_events.not_appended", namespace=request.namespace, changes=len(request.changes), why=why)
            return policies.ChangeEventsResult(refused=why or "refused")
        return policies.ChangeEventsResult()
