"""The producer by which the broker appends dead letters to their target, on behalf of the owner of the policy."""

from __future__ import annotations

from messaging.broker.core.dead_letters.dead_entries import move_extension
from messaging.broker.runtime.broker_producer import BrokerProducer
from messaging.broker.runtime.topics.limits.admission import check_creation_by_use
from messaging.broker.runtime.topics.persistent import PersistentTopic
from messaging.storage.block_header import DEAD_LETTER_MOVE
from messaging.storage.ledger_store import EARLIEST
from messaging.storage.meta_store import MetaConflict


class DeadLetterProducer(BrokerProducer):
    async def publish(self, frames: list[bytes], policy_id: str, sequence_id: int) -> None:
        """Returns when they are durable, as one block that names the move. Raises a `MagnetarError` if it is not known whether they
        are stored."""
        await self.publish_block(frames, ((DEAD_LETTER_MOVE, move_extension(policy_id, sequence_id)),))


async def ensure_subscription(target: PersistentTopic, name: str) -> None:
    """So that nothing is lost before somebody subscribes. Raises `SubscriptionNotFound` where the namespace creates none by use."""
    if name not in target.subscriptions.table:
        check_creation_by_use(target.services.policies.value, target, name)
        try:
            await target.subscriptions.create(name, EARLIEST)
        except MetaConflict:
            pass  # a client was faster
