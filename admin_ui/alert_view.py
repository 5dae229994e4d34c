"""An alert rule for its row and its page."""

from __future__ import annotations

from typing import Any

from admin_ui.translation.said import lazily_said
from workers.alerts import sentences
from workers.alerts.models import AlertRule

PARTITIONS_SHOWN = TOPICS_SHOWN = 5  # those with the largest values
KINDS = tuple((kind, lazily_said(sentences.KINDS[kind])) for kind in AlertRule.Kind)


def shown(rule: AlertRule) -> dict[str, Any]:
    """`topics`: of a pattern, (local name, value, whether it fires), those that fire first. `value`: of a pattern the greatest that
    is known. A value that the last look could not find out is None."""
    blind = bool(rule.problem) and not any(stands.unknown for _, stands in rule.by_topic)  # nothing at all could be looked at
    topics = [
        (name.rpartition("/")[2], None if blind or stands.unknown else stands.value, stands.firing)
        for name, stands in rule.by_topic
    ]
    known = [value for _, value, _ in topics if value is not None]
    return {
        "rule": rule,
        "value": max(known, default=None) if rule.problem else rule.value,
        "blind": blind,
        "kind": dict(KINDS)[AlertRule.Kind(rule.kind)],
        "partitions": rule.by_partition[:PARTITIONS_SHOWN],
        "topics": topics[:TOPICS_SHOWN],
        "further": max(0, sum(fires for _, _, fires in topics) - TOPICS_SHOWN),  # that fire, too
        "all_topics": topics,
    }
