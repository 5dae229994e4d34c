"""Protection from deletion: the policy `deletion_protected` of topics, namespaces and tenants. The nearest level that sets it wins.

A protected topic is not deleted by inactivity either (`messaging.broker.core.maintenance.inactivity`).
"""

from __future__ import annotations

from messaging.errors import DeletionProtected
from messaging.policies.resolution import Levels, resolve_policy

POLICY = "deletion_protected"
_DEFAULT = {POLICY: False}


def check_deletable(what: str, levels: Levels) -> None:
    """`what`: what is deleted, such as ``topic persistent://...``; `levels`: what is set for it. Raises `DeletionProtected`."""
    protected = resolve_policy(POLICY, levels, _DEFAULT)
    if protected.value:
        raise DeletionProtected(f"{what} is protected from deletion by policy {POLICY} of the {protected.level}: unset it first")
