"""The objects of the part of our API that is about jobs."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from messaging.bodies import Time

State = Literal["waiting", "running", "paused", "done", "failed", "cancelled"]


class JobShape(msgspec.Struct, kw_only=True):
    id: Annotated[str, Meta(description="What does it, and its id there: redrive-..., change-... or task-...")]
    kind: Annotated[str, Meta(description="What is done, such as redrive, topics.delete or workers.make_invoices.")]
    resource: Annotated[str, Meta(description="What it is about; empty: the platform, or what is due.")]
    tenant: Annotated[str, Meta(description="Empty: the platform.")]
    state: State
    done: Annotated[int | None, Meta(description="In `unit`; null: it is not known.")]
    total: Annotated[int | None, Meta(description="The same; null: it is not known how much there is.")]
    unit: str
    counts: Annotated[dict[str, int | str], Meta(description="What else it has counted.")]
    begun_at: Annotated[Time | None, Meta(description="Of a task the last attempt; of one that waits, when it was asked for.")]
    ended_at: Time | None
    error: Annotated[str, Meta(description="Why it failed, or why it does not go on.")]
    requested_by: Annotated[str, Meta(description="The role that asked for it; empty: the schedule, or it is not known.")]
    cancellable: Annotated[bool, Meta(description="DELETE ends it; what it has done stays done.")]
