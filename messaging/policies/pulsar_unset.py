"""Features of Pulsar that do not exist here, as its admin API reads them: as nothing, which is what a Pulsar answers where nobody
has set them up. Removing one does nothing; setting one is refused.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Unset(NamedTuple):
    """`answer` None: no body. `removed_at`: the path on which DELETE removes it, below the same namespace or topic; "" for none."""

    path: str
    answer: Any = None
    status: int = 200
    removed_at: str = ""

    @property
    def paths(self) -> dict[str, tuple[str, ...]]:
        """Its paths with their methods."""
        if self.removed_at in ("", self.path):
            return {self.path: ("GET", "DELETE") if self.removed_at else ("GET",)}
        return {self.path: ("GET",), self.removed_at: ("DELETE",)}


NAMESPACE_UNSET = (
    Unset("allowedClusters", answer=[]),
    Unset("dispatcherPauseOnAckStatePersistent", answer=False, removed_at="dispatcherPauseOnAckStatePersistent"),
    Unset("entryFilters", removed_at="entryFilters"),
    Unset("offloadDeletionLagMs", removed_at="offloadDeletionLagMs"),
    Unset("offloadPolicies", removed_at="removeOffloadPolicies"),
    Unset("offloadThreshold", answer=-1),
    Unset("offloadThresholdInSeconds", answer=-1),
    Unset("persistence/bookieAffinity", status=204, removed_at="persistence/bookieAffinity"),
    Unset("resourcegroup", removed_at="resourcegroup"),
    Unset("schemaAutoUpdateCompatibilityStrategy", status=204),
)
_NOWHERE = {"ledgerId": -1, "entryId": -1, "partitionIndex": -1, "batchIndex": -1, "batchSize": 0}
TOPIC_UNSET = (
    Unset("dispatcherPauseOnAckStatePersistent", answer=False, removed_at="dispatcherPauseOnAckStatePersistent"),
    Unset("entryFilters", removed_at="entryFilters"),
    Unset("offload", answer={"status": "NOT_RUN", "lastError": "", "firstUnoffloadedMessage": _NOWHERE}),
    Unset("offloadPolicies", removed_at="offloadPolicies"),
    Unset("replication", removed_at="replication"),
    Unset("shadowTopics", removed_at="shadowTopics"),
)
APPLIED: dict[str, Any] = {"entryFilters": {"entryFilterNames": ""}}
"""What GET ?applied=true answers otherwise."""

UNSET_BELOW_NAMESPACE = {path: methods for unset in NAMESPACE_UNSET for path, methods in unset.paths.items()}
UNSET_BELOW_TOPIC = {path: methods for unset in TOPIC_UNSET for path, methods in unset.paths.items()}
