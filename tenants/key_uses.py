"""Writing down when keys were used last. It is no change of a key: neither the audit log nor brokers are told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from django.db.models import Q

from tenants.models import Key
from tenants.scoping import platform_scope

_KEYS_AT_ONCE = 500


def record_key_uses(uses: Mapping[str, int]) -> int:
    """`uses`: key id -> when, in ms since 1970. Never goes back in time. Returns how many keys that concerned. One statement for
    each minute, as there are one or two of them; blocks."""
    by_minute: dict[int, list[str]] = {}
    for key_id, used_ms in uses.items():
        by_minute.setdefault(used_ms, []).append(key_id)
    changed = 0
    with platform_scope():
        for used_ms, key_ids in by_minute.items():
            at = datetime.fromtimestamp(used_ms / 1000, UTC)
            earlier = Q(last_used_at=None) | Q(last_used_at__lt=at)
            for start in range(0, len(key_ids), _KEYS_AT_ONCE):
                rows = Key.objects.filter(earlier, id__in=key_ids[start : start + _KEYS_AT_ONCE])
                changed += rows.update(last_used_at=at)
    return changed
