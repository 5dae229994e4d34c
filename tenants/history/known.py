"""Of which time everything is known."""

from __future__ import annotations

from messaging.history.spans import ALWAYS_MS, Span, without
from tenants.models import HistoryKnown

COVERED, LOST, BEHIND = "covered", "lost", "behind"


def covered_of(broker_id: str, tenant_uid: str, from_ms: int, until_ms: int) -> list[Span]:
    """The times of which everything is known of a tenant at a broker, in order. A clock that was set back covers a time twice."""
    rows = list(
        HistoryKnown.objects.filter(
            broker_id=broker_id, tenant_uid__in=("", tenant_uid), until_ms__gte=from_ms, from_ms__lt=until_ms
        ).values_list("kind", "from_ms", "until_ms")
    )
    behind = HistoryKnown.objects.filter(broker_id=broker_id, tenant_uid=tenant_uid, kind=BEHIND).values_list("from_ms", flat=True)
    gaps = [(start, end) for kind, start, end in rows if kind == LOST] + [(start, ALWAYS_MS) for start in behind]
    return without([(start, end) for kind, start, end in rows if kind == COVERED], gaps)
