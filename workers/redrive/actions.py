"""What a tenant may ask of redrive jobs: checked against the permission table, and written into the audit log."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from django.db import transaction

from messaging.adminrpc.methods import REDRIVE_SCAN
from messaging.adminrpc.redrive import RedriveEdit, RedriveFilter, RedriveFound, RedriveScan
from messaging.broker.core.dead_letters.redrive import REASON
from messaging.errors import Conflict, InvalidValue, NotAllowed, NotAuthorized, NotFound, PreconditionFailed
from messaging.json_types import converted
from messaging.payloads.masks import MASK, Masks
from messaging.permissions.model import USER_ROLE_PREFIX, Action, Resource, tenant_role
from messaging.protocol.names import TopicName, parse_topic, subscription_name
from tenants import broker
from tenants.access import Actor, require
from tenants.actions.change import limit_rate, record
from tenants.actions.namespaces import existing
from tenants.actions.topics import topic_resource
from tenants.masking import masks_of, masks_of_lists, shown_filter
from tenants.models import Tenant
from tenants.scoping import tenant_scope
from workers.queue import ask_for
from workers.redrive.destinations import destination
from workers.redrive.models import EDIT_DONE, RedriveJob, RedriveOutcome
from workers.schedule import REDRIVE

State = RedriveJob.State
SUBSCRIPTION = "redrive"  # unless another is named: it remembers what was moved, for later jobs too
SAMPLES = 20
DRY_RUN_ENTRIES, DRY_RUN_S = 20_000, 5.0  # that a dry run looks at, and after which it answers with what it has
RATE_MAX = 1_000_000
ACTIVE_MAX = 100  # jobs of one tenant that are not finished


@dataclass(frozen=True)
class Request:
    """What is asked for. `target` "": each message goes to the topic that it came from, in this namespace. `given`: fields of
    `RedriveFilter`. An `edit` is of the one message that `given` names by its position."""

    target: str = ""
    subscription: str = SUBSCRIPTION
    rate: int = 0
    idempotency_key: str = ""
    given: dict[str, Any] = field(default_factory=dict)
    edit: RedriveEdit | None = None


@dataclass(frozen=True)
class DryRun:
    """`complete`: whether all was looked at, in `DRY_RUN_S`. `samples`: the first that match."""

    looked_at: int
    entries: int
    messages: int
    left: int
    complete: bool
    samples: list[RedriveFound]


def start(actor: Actor, topic: TopicName, request: Request) -> RedriveJob:
    """A job that runs as soon as a worker takes it; with an idempotency key that was used before, that job. Raises `NotAuthorized`,
    `InvalidValue`, `NotAllowed`, `NotFound`, `Conflict` where the key was used for something else, `PreconditionFailed`, and
    `QuotaExceeded` where its tenant changes too much."""
    target, owner = _checked(actor, topic, request)
    wanted = msgspec.to_builtins(filter_of(request))
    key = request.idempotency_key or uuid.uuid4().hex
    with transaction.atomic(), tenant_scope(topic.tenant):
        uid = Tenant.objects.values_list("uid", flat=True).get()
        same: dict[str, Any] = {
            "topic": str(topic),
            "subscription": request.subscription,
            "target": target,
            "filter": wanted,
            "edit": None if request.edit is None else msgspec.to_builtins(request.edit),
        }
        job = RedriveJob.objects.filter(idempotency_key=key).first()
        if job is not None:
            if job.edit == EDIT_DONE and request.edit is not None:
                same["edit"] = EDIT_DONE
            if any(getattr(job, name) != value for name, value in same.items()):
                raise Conflict(f"idempotency key {key[:80]!r} was used for another redrive: choose another key")
            return job
        limit_rate(actor)
        if RedriveJob.objects.filter(state__in=(State.RUNNING, State.PAUSED)).count() >= ACTIVE_MAX:
            raise PreconditionFailed(f"{ACTIVE_MAX} redrives of this tenant are not finished: wait for them, or cancel some")
        job = RedriveJob.objects.create(
            idempotency_key=key,
            tenant=topic.tenant,
            tenant_uid=uid,
            owner=owner,
            requested_by=actor.principal.role,
            rate=request.rate,
            created_at=datetime.now(UTC),
            **same,
        )
        told = {**same, "edit": request.edit is not None}  # the log has no payloads
        record(actor, "redrive.start", topic.tenant, str(topic), after={"job": job.id, "rate": request.rate, **told})
        ask_for(REDRIVE, actor.principal.role, job=job.id)
    return job


def dry_run(actor: Actor, topic: TopicName, request: Request) -> DryRun:
    """What a job would move now. Changes nothing. Raises as `start`, and what the broker raises."""
    _, owner = _checked(actor, topic, request)
    masks = masks_of_lists(actor, topic)
    ledger_id, entry_id = -1, 0
    looked_at = entries = messages = left = 0
    samples: list[RedriveFound] = []
    until_s = time.monotonic() + DRY_RUN_S
    while True:
        page = broker.rpc().call(
            REDRIVE_SCAN,
            RedriveScan(
                topic=str(topic),
                subscription=request.subscription,
                owner=owner,
                **msgspec.structs.asdict(filter_of(request)),
                ledger_id=ledger_id,
                entry_id=entry_id,
            ),
        )
        for entry in page.found:
            if masks.key and entry.key:
                entry.key = MASK
            entry.refused = entry.refused or ("" if request.target else destination(topic, entry).why)
        moving = [entry for entry in page.found if not entry.refused]
        looked_at, left = looked_at + page.looked_at, left + len(page.found) - len(moving)
        entries, messages = entries + len(moving), messages + sum(entry.messages for entry in moving)
        samples += page.found[: SAMPLES - len(samples)]
        ledger_id, entry_id = page.ledger_id, page.entry_id
        if page.done or looked_at >= DRY_RUN_ENTRIES or time.monotonic() >= until_s:
            return DryRun(looked_at, entries, messages, left, page.done, samples)


def decide(actor: Actor, topic: TopicName, job_id: str, decision: str) -> RedriveJob:
    """`decision`: pause, resume or cancel. What was moved stays moved. Raises `NotFound`, `PreconditionFailed`."""
    allowed, after = {
        "pause": ((State.RUNNING,), State.PAUSED),
        "resume": ((State.PAUSED, State.FAILED), State.RUNNING),
        "cancel": ((State.RUNNING, State.PAUSED, State.FAILED), State.CANCELLED),
    }[decision]
    with transaction.atomic(), tenant_scope(topic.tenant):
        job = RedriveJob.objects.select_for_update().filter(id=job_id, topic=str(topic)).first()
        if job is None:
            raise NotFound(f"redrive {job_id[:64]!r} of {topic} does not exist")
        if job.state not in allowed:
            raise PreconditionFailed(f"redrive {job.id} is {job.state}: it cannot be told to {decision}")
        if decision == "resume":  # the permissions of now count
            edit = converted(job.edit, RedriveEdit) if job.edit else None
            _checked(actor, topic, Request(job.target, job.subscription, given=job.filter, edit=edit))
            job.error = ""
            ask_for(REDRIVE, actor.principal.role, job=job.id)
        before, job.state = job.state, after
        job.finished_at = datetime.now(UTC) if after == State.CANCELLED else None
        if after == State.CANCELLED and job.edit:
            job.edit = EDIT_DONE
        job.save(update_fields=["state", "error", "finished_at", "edit"])
        record(actor, f"redrive.{decision}", topic.tenant, str(topic), {"job": job.id, "state": before}, {"state": after.value})
    return job


def jobs_of(topic: TopicName) -> Any:
    """The jobs of a topic of the tenant in scope."""
    return RedriveJob.objects.filter(topic=str(topic))


def job_of(topic: TopicName, job_id: str) -> RedriveJob:
    job: RedriveJob | None = jobs_of(topic).filter(id=job_id).first()
    if job is None:
        raise NotFound(f"redrive {job_id[:64]!r} of {topic} does not exist")
    return job


def outcomes_of(job: RedriveJob) -> Any:
    return RedriveOutcome.objects.filter(job=job)


def owner_of(actor: Actor, topic: TopicName, subscription: str = SUBSCRIPTION) -> str:
    """The role on whose behalf the broker looks through a topic, and acts. Raises `NotAuthorized`."""
    person = _is_person(actor)
    require(actor, Action.OPERATE, topic_resource(topic))
    # Who keeps topics working moves messages and need not read them. A key does what the broker lets its role do.
    require(actor, Action.CURSOR_ADMIN if person else Action.CONSUME, topic_resource(topic, subscription))
    return tenant_role(topic.tenant) if person else actor.principal.role


def checked_masks(actor: Actor, topic: TopicName, request: Request) -> Masks:
    """What of its messages is hidden from the actor. Raises `NotAuthorized` where the request asks about it: what moves tells."""
    masks, wanted = masks_of_lists(actor, topic), filter_of(request)
    masks.check_filter(key=bool(wanted.key), property_name=wanted.property_name, text=False, path=())
    if wanted.reason:
        masks.check_filter(key=False, property_name=REASON, text=False, path=())
    return masks


def filter_for(actor: Actor, job: RedriveJob) -> dict[str, Any]:
    """The filter of a job as this actor may see it: what somebody else looked for may be hidden from them."""
    if job.filter.get("key") or job.filter.get("property_name") or job.filter.get("reason"):
        return shown_filter(job.filter, masks_of_lists(actor, parse_topic(job.topic)))
    return dict(job.filter)


def _is_person(actor: Actor) -> bool:
    return actor.principal.role.startswith(USER_ROLE_PREFIX)  # the broker knows no people, only what their tenants are


def _checked(actor: Actor, topic: TopicName, request: Request) -> tuple[str, str]:
    """The target, and the role on whose behalf the broker acts."""
    if not topic.persistent:
        raise InvalidValue("messages are redriven from one persistent topic to another")
    subscription_name(request.subscription)
    if not 0 <= request.rate <= RATE_MAX:
        raise InvalidValue(f"rate must be from 0 to {RATE_MAX} messages per second")
    owner, person = owner_of(actor, topic, request.subscription), _is_person(actor)
    checked_masks(actor, topic, request)
    if request.edit is not None:
        _require_edit(actor, topic, request)
    if not request.target:  # which topics of the namespace those are is for the messages to say
        within = Resource(topic.tenant, str(topic.namespace))
        if not (person and actor.may(Action.OPERATE, within)):
            require(actor, Action.PRODUCE, within)
        return "", owner
    if "://" not in request.target:
        raise InvalidValue(
            f"target {request.target[:80]!r} is not the full name of a topic: use persistent://tenant/namespace/topic"
        )
    target = parse_topic(request.target)
    if not target.persistent or str(target) == str(topic):
        raise InvalidValue("messages are redriven from one persistent topic to another")
    if not (person and actor.may(Action.OPERATE, topic_resource(target))):
        require(actor, Action.PRODUCE, topic_resource(target))
    existing(str(target.namespace))
    if person:
        _require_no_more_to_read(actor, topic, target)
    if person and target.tenant != topic.tenant:
        raise NotAllowed(f"{target} is of another tenant: start this redrive with a key that may produce there")
    return str(target), owner


def _require_no_more_to_read(actor: Actor, topic: TopicName, target: TopicName) -> None:
    """Nobody moves messages to where they may read what is hidden from them. Raises `NotAuthorized`."""
    if not actor.may(Action.MESSAGE_READ, topic_resource(target)):
        return
    require(actor, Action.MESSAGE_READ, topic_resource(topic))
    masks = masks_of(actor, topic)
    if masks.any and masks != masks_of(actor, target):
        raise NotAuthorized(
            f"parts of messages in {topic.namespace} are masked for you, and would not be in {target.namespace}: have somebody "
            "who may consume both start this redrive, or give both the same masked_fields"
        )


def _require_edit(actor: Actor, topic: TopicName, request: Request) -> None:
    """What is edited is published: who only keeps topics working says nothing in the name of a tenant."""
    if len(request.given.get("positions", ())) != 1:
        raise InvalidValue("an edit is of one message: name it, and no other")
    require(actor, Action.MESSAGE_READ, topic_resource(topic))
    require(
        actor,
        Action.PRODUCE,
        topic_resource(parse_topic(request.target)) if request.target else Resource(topic.tenant, str(topic.namespace)),
    )


def filter_of(request: Request) -> RedriveFilter:
    """Raises `InvalidValue`."""
    try:
        if any("\x00" in value for value in request.given.values() if isinstance(value, str)):
            raise msgspec.ValidationError("it has a NUL character, which no database keeps: remove it")
        return converted(request.given, RedriveFilter)
    except msgspec.ValidationError as error:
        raise InvalidValue(f"the filter is not valid: {error}") from None
