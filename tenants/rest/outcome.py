"""What a change did, or, of a dry run, what it would do. One shape for all of them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from messaging.adminrpc.subscriptions import SubscriptionMoved


class Moved(msgspec.Struct, kw_only=True):
    topic: Annotated[str, Meta(description="Full name of the topic, or of a partition.")]
    before: Annotated[str, Meta(description="Mark-delete position, ledger:entry; empty: there was none.")]
    after: Annotated[str, Meta(description="Mark-delete position, ledger:entry; empty: there is none.")]


class Outcome(msgspec.Struct, kw_only=True):
    dry_run: Annotated[bool, Meta(description="true: nothing was changed; this is what would happen.")]
    action: Annotated[str, Meta(description="As in the audit log, such as topic.delete.")]
    resource: str
    affected: Annotated[dict[str, int], Meta(description="What it is about, by kind, such as messages or storage_bytes.")]
    moved: Annotated[list[Moved], Meta(description="Of at most 100 partitions.")] = []


def outcome_of_move(action: str, resource: str, answer: SubscriptionMoved, *, dry_run: bool) -> Outcome:
    moved = [Moved(topic=topic, before=before, after=after) for topic, (before, after) in answer.moved.items()]
    affected = {
        "backlog_entries": answer.backlog_entries,
        "skipped_entries": answer.skipped_entries,
        "again_entries": answer.again_entries,
        "consumers": answer.consumers,
        "topics": len(moved),
    }
    return Outcome(dry_run=dry_run, action=action, resource=resource, affected=affected, moved=moved)
