"""What retention keeps beyond what any subscription has to read: asked of the broker, of the topics whose storage costs most."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from messaging.adminrpc.methods import POLICIES_PREVIEW, TOPICS_FIGURES
from messaging.adminrpc.policies import PolicyPreview
from messaging.adminrpc.topics import TopicRef
from messaging.errors import InvalidName, MagnetarError, NotFound
from messaging.protocol.names import parse_topic
from tenants import broker
from workers.billing.outlook import Saving, storage_costs

ASKED_MAX = 10  # topics of one answer
NOT_KEPT = {"retention_time_min": 0, "retention_size_mb": 0}


def retention_savings(tenant_uid: str, now: datetime) -> tuple[list[Saving], bool]:
    """For each such topic what it would save not to keep what all its subscriptions have acknowledged, by the proportion of now.
    And whether the broker told it of all that were asked about. Blocks; raises nothing."""
    kept: list[Saving] = []
    for saving in storage_costs(tenant_uid, now, ASKED_MAX):
        try:
            kept_bytes, stored_bytes = _kept(saving.topic)
        except (NotFound, InvalidName):  # it was deleted, or is in the recycle bin
            continue
        except MagnetarError:
            return kept, False
        if kept_bytes and stored_bytes:
            nano = saving.nano * min(kept_bytes, stored_bytes) // stored_bytes
            kept.append(replace(saving, nano=nano, kept_bytes=kept_bytes, stored_bytes=stored_bytes))
    return kept, True


def _kept(topic: str) -> tuple[int, int]:
    """Bytes that the next retention run would delete if nothing was kept, and all that are stored."""
    name = parse_topic(topic)
    asked = PolicyPreview(namespace=str(name.namespace), topic=topic, policies=NOT_KEPT)
    found = broker.rpc().call(POLICIES_PREVIEW, asked)
    kept_bytes = sum(effect.affected for effect in found.effects if effect.policy in NOT_KEPT)
    stats = broker.rpc().call(TOPICS_FIGURES, TopicRef(topic=topic)).stats if kept_bytes else {}
    return kept_bytes, int(stats.get("storageSize", 0))
