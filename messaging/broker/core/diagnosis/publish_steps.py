"""Where each step of a topic stands that a message passes before it is stored: why a publish is refused, or held. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from messaging.broker.core.backlog.quota import BacklogQuota, QuotaAction
from messaging.broker.core.diagnosis.steps import WHO_MAX, StepLook, limit_facts
from messaging.broker.core.limits.rate_limits import LevelLimiter
from messaging.problems.steps import Step, StepState

NONE, OPEN, SHUT, SLOWS = StepState.NONE, StepState.OPEN, StepState.SHUT, StepState.SLOWS


class PublishState(NamedTuple):
    """Why something is refused is "" where it is not. `fewer_copies_ms`: since when messages are stored with fewer copies than they
    should have. `last_published_ms` 0: not since the topic was loaded. `parked`: producers of
    which messages wait for the rate limit; `rate_waits` None: no limit applies."""

    producers: Sequence[str] = ()
    waiting: int = 0  # producers that wait until they have the topic alone
    last_published_ms: int = 0
    closing: bool = False
    terminated: bool = False
    storage_failure: str = ""
    fewer_copies_ms: int | None = None
    spending_stopped: str = ""
    encryption_required: bool = False
    schema_refused: str = ""
    schema_refused_ms: int | None = None
    message_bytes_max: int = 0
    tenant_bytes: int = 0
    tenant_bytes_max: int = 0  # 0: no limit
    tenant_full: str = ""
    quota: BacklogQuota | None = None
    quota_held: str = ""
    rate_waits: int | None = None
    rate_blocked_by: LevelLimiter | None = None
    parked: Sequence[str] = ()
    deduplicates: bool = False
    dropped_entries: int = 0  # duplicates; and when the last one was, if that is not long ago
    last_dropped_ms: int | None = None


def publish_steps(state: PublishState) -> list[StepLook]:
    return [
        _published(state),
        _topic(state),
        _said(Step.SPENDING, state.spending_stopped, "spending.stopped", StepLook(Step.SPENDING, OPEN, "spending.open")),
        StepLook(Step.ENCRYPTION, OPEN, "encryption.required")
        if state.encryption_required
        else StepLook(Step.ENCRYPTION, NONE, "encryption.none"),
        _schema(state),
        StepLook(Step.MESSAGE_SIZE, OPEN, "message_size.set", {"most_bytes": state.message_bytes_max})
        if state.message_bytes_max
        else StepLook(Step.MESSAGE_SIZE, NONE, "message_size.none"),
        _stored_bytes(state),
        _quota(state),
        _rate(state),
        _deduplication(state),
    ]


def _deduplication(state: PublishState) -> StepLook:
    step = Step.DEDUPLICATION
    if not state.deduplicates:
        return StepLook(step, NONE, "deduplication.none")
    if not state.dropped_entries or state.last_dropped_ms is None:
        return StepLook(step, OPEN, "deduplication.on")
    facts = {"dropped": state.dropped_entries, "last_ms": state.last_dropped_ms}
    return StepLook(step, SLOWS, "deduplication.dropped", facts, since_ms=state.last_dropped_ms)


def publishing_held_at(looks: Iterable[StepLook]) -> str:
    """The first step at which what is published stops, or at least waits; "": at none."""
    order = sorted((look for look in looks if look.state in (SHUT, SLOWS)), key=lambda look: look.state is not SHUT)
    return order[0].step if order else ""


def _said(step: Step, why: str, code: str, otherwise: StepLook) -> StepLook:
    """Shut, where there is a reason."""
    return StepLook(step, SHUT, code, {"why": f"{why[:1].upper()}{why[1:]}."}) if why else otherwise


def _published(state: PublishState) -> StepLook:
    step, last_ms, count = Step.PUBLISHED, state.last_published_ms, len(state.producers)
    who, since_ms = list(state.producers)[:WHO_MAX], last_ms or None
    if state.waiting:
        facts = {"waiting": state.waiting, "last_ms": last_ms}
        return StepLook(step, SLOWS, "published.waiting", facts, who, since_ms)
    if count:
        code, facts = ("published.connected", {"last_ms": last_ms}) if last_ms else ("published.silent", {})
        return StepLook(step, OPEN, code, {"producers": count, **facts}, who, since_ms)
    if last_ms:
        return StepLook(step, NONE, "published.nobody", {"last_ms": last_ms}, since_ms=since_ms)
    return StepLook(step, NONE, "published.never")


def _topic(state: PublishState) -> StepLook:
    if state.closing:
        return StepLook(Step.TOPIC, SHUT, "topic.closing")
    if state.terminated:
        return StepLook(Step.TOPIC, SHUT, "topic.terminated")
    return _said(Step.TOPIC, state.storage_failure, "topic.failed", _taking(state.fewer_copies_ms))


def _taking(fewer_copies_ms: int | None) -> StepLook:
    if fewer_copies_ms is None:
        return StepLook(Step.TOPIC, OPEN, "topic.open")
    return StepLook(Step.TOPIC, OPEN, "topic.fewer_copies", {"since_ms": fewer_copies_ms}, since_ms=fewer_copies_ms)


def _schema(state: PublishState) -> StepLook:
    if not state.schema_refused:
        return StepLook(Step.SCHEMA, OPEN, "schema.open")
    return StepLook(Step.SCHEMA, SLOWS, "schema.refused", {"why": state.schema_refused}, since_ms=state.schema_refused_ms)


def _stored_bytes(state: PublishState) -> StepLook:
    if not state.tenant_bytes_max:
        return StepLook(Step.STORED_BYTES, NONE, "stored_bytes.none")
    facts = {"used_bytes": state.tenant_bytes, "most_bytes": state.tenant_bytes_max}
    return _said(
        Step.STORED_BYTES, state.tenant_full, "stored_bytes.full", StepLook(Step.STORED_BYTES, OPEN, "stored_bytes.open", facts)
    )


def _quota(state: PublishState) -> StepLook:
    step, quota = Step.BACKLOG_QUOTA, state.quota
    if quota is None or quota.unlimited:
        return StepLook(step, NONE, "backlog_quota.none")
    evicts = QuotaAction.EVICT in (
        quota.bytes_action if quota.bytes_max >= 0 else None,
        quota.age_action if quota.age_max_s >= 0 else None,
    )
    otherwise = StepLook(step, OPEN, "backlog_quota.evicts" if evicts else "backlog_quota.open")
    return _said(step, state.quota_held, "backlog_quota.held", otherwise)


def _rate(state: PublishState) -> StepLook:
    step, limiter = Step.PUBLISH_RATE, state.rate_blocked_by
    if limiter is not None:
        return StepLook(step, SLOWS, "publish_rate.waiting", limit_facts(limiter), list(state.parked)[:WHO_MAX])
    if state.rate_waits is None:
        return StepLook(step, NONE, "publish_rate.none")
    return StepLook(step, OPEN, "publish_rate.open", {"waits": state.rate_waits})
