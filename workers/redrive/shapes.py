"""The objects of the part of our API that is about redrives."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from messaging.bodies import AS_SENT, Text, Time, one_of, sent_fields
from messaging.limits import rest as limits
from messaging.limits.model import Limit
from messaging.limits.sizes import PAIR_BYTES_MAX, WHY_PAIRS
from tenants.rest.shapes import shown
from workers.redrive.actions import SUBSCRIPTION, DryRun
from workers.redrive.models import RedriveJob, RedriveOutcome

_FILTER = ("key", "property_name", "property_value", "origin_subscription", "from_ms", "until_ms", "redriven_max")


Name = Annotated[Text, limits.NAME]
Pair = Annotated[str, Limit(WHY_PAIRS, bytes_max=PAIR_BYTES_MAX)]
Milliseconds = Annotated[int, limits.MILLISECONDS]
Rate = Annotated[int, Limit("messages per second", minimum=0, maximum=1_000_000)]


class NewRedrive(msgspec.Struct, kw_only=True):
    target: Annotated[Text, limits.TOPIC, Meta(description="Full name of the topic to move to.")]
    subscription: Annotated[
        Name, Meta(description="What it has not acknowledged is moved; missing: `redrive`, made where it is missing.")
    ] = SUBSCRIPTION
    key: Annotated[str, limits.TOPIC, AS_SENT, Meta(description="Only messages with this key.")] | UnsetType = UNSET
    property_name: Annotated[Pair, AS_SENT] | UnsetType = UNSET
    property_value: Annotated[Pair, AS_SENT] | UnsetType = UNSET
    origin_subscription: Annotated[str, limits.NAME, Meta(description="From which it was dead-lettered.")] | UnsetType = UNSET
    from_ms: Annotated[Milliseconds, Meta(description="Published at or after, milliseconds since 1970.")] | UnsetType = UNSET
    until_ms: Annotated[Milliseconds, Meta(description="Published before; 0: any time.")] | UnsetType = UNSET
    redriven_max: Annotated[int, limits.REDRIVEN, Meta(description="One redriven so often stays; 0: any.")] | UnsetType = UNSET
    rate: Annotated[Rate, Meta(description="Messages per second; 0: as fast as it goes.")] = 0
    idempotency_key: Annotated[Name, Meta(description="The same key names the same job.")] = ""


class RedriveShape(msgspec.Struct, kw_only=True):
    id: str
    job: Annotated[str, Meta(description="Its id among the jobs of the tenant, /api/v1/tenants/TENANT/jobs/JOB.")]
    idempotency_key: str
    topic: str
    subscription: str
    target: str
    filter: dict[str, Any]
    rate: int
    state: Annotated[str, one_of(RedriveJob.State.values)]
    requested_by: str
    created_at: Time
    finished_at: Time | None
    looked_at: Annotated[int, Meta(description="Entries.")]
    moved: Annotated[int, Meta(description="Messages.")]
    left: Annotated[int, Meta(description="Entries that match and stay.")]
    error: Annotated[str, Meta(description="Why it does not go on.")]


class RedriveSample(msgspec.Struct, kw_only=True):
    message_id: str
    key: str
    messages: int
    publish_time_ms: int
    why: Annotated[str, Meta(description="Why it stays; empty: it moves.")]


class RedriveDryRun(msgspec.Struct, kw_only=True):
    looked_at: int
    entries: int
    messages: int
    left: int
    complete: Annotated[bool, Meta(description="false: there is more than was looked at.")]
    samples: list[RedriveSample]


class RedriveOutcomeShape(msgspec.Struct, kw_only=True):
    id: int
    message_id: str
    key: Annotated[str, Meta(description="At most 256 characters of it.")]
    messages: int
    why: Annotated[str, Meta(description="Empty: it was moved.")]


def filter_of(asked: NewRedrive) -> dict[str, Any]:
    return {name: value for name, value in sent_fields(asked).items() if name in _FILTER}


def show_job(job: RedriveJob) -> RedriveShape:
    return shown(RedriveShape, job, job=f"redrive-{job.id}")


def show_outcome(outcome: RedriveOutcome) -> RedriveOutcomeShape:
    return shown(RedriveOutcomeShape, outcome, id=outcome.pk, message_id=f"{outcome.ledger_id}:{outcome.entry_id}")


def show_dry_run(result: DryRun) -> RedriveDryRun:
    samples = [
        shown(RedriveSample, sample, message_id=f"{sample.ledger_id}:{sample.entry_id}", why=sample.refused)
        for sample in result.samples
    ]
    return shown(RedriveDryRun, result, samples=samples)
