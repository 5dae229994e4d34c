"""An alert rule for its row and its page."""

from __future__ import annotations

from typing import Any

from admin_ui.translation.texts import gettext_lazy
from workers.alerts.models import AlertRule

PARTITIONS_SHOWN = TOPICS_SHOWN = 5  # those with the largest values
KINDS = (
    (AlertRule.Kind.BACKLOG_ENTRIES, gettext_lazy("Backlog entries")),
    (AlertRule.Kind.BACKLOG_BYTES, gettext_lazy("Backlog bytes")),
    (AlertRule.Kind.BACKLOG_AGE_S, gettext_lazy("Backlog age in seconds")),
    (AlertRule.Kind.NO_CONSUMER, gettext_lazy("No consumer")),
    (AlertRule.Kind.BLOCKED, gettext_lazy("Blocked subscription")),
    (AlertRule.Kind.MESSAGES_GROW, gettext_lazy("New messages")),
    (AlertRule.Kind.PUBLISH_THROTTLED, gettext_lazy("Producers held back")),
)


def shown(rule: AlertRule) -> dict[str, Any]:
    """`topics`: of a pattern, (local name, value, whether it fires), those that fire first."""
    topics = [(name.rpartition("/")[2], stands.value, stands.firing) for name, stands in rule.by_topic]
    return {
        "rule": rule,
        "kind": dict(KINDS)[AlertRule.Kind(rule.kind)],
        "partitions": rule.by_partition[:PARTITIONS_SHOWN],
        "topics": topics[:TOPICS_SHOWN],
        "further": max(0, sum(fires for _, _, fires in topics) - TOPICS_SHOWN),  # that fire, too
        "all_topics": topics,
    }
