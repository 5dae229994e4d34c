"""Which row a series of history has."""

from __future__ import annotations

import hashlib


def series_key(tenant_uid: str, namespace: str, topic: str, subscription: str, broker_id: str) -> str:
    """64 hexadecimal digits. No name contains a line feed."""
    return hashlib.sha256("\n".join((tenant_uid, namespace, topic, subscription, broker_id)).encode()).hexdigest()
