"""The operations of /api/v1. Generated from the OpenAPI document by `make client`. Edit the source, not this module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NotRequired, TypedDict

from messaging.client.admin.http import Http, segment


class AccessOfOne(TypedDict):
    role: str
    key_id: str
    reasons: list[ReasonShape]


class AccessShape(TypedDict):
    role: str
    key_id: str
    reasons: list[ReasonShape]
    allowed: bool
    refusal: str
    others: list[AccessOfOne]
    others_complete: bool


class AdministratorShape(TypedDict):
    username: str
    expires_at: str | None


class AdministratorTermsRequest(TypedDict):
    expires_at: NotRequired[str | None]


class AlertRuleShape(TypedDict):
    id: str
    name: str
    kind: Literal[
        "backlog_entries", "backlog_bytes", "backlog_age_s", "no_consumer", "blocked", "messages_grow", "publish_throttled"
    ]
    topic: str
    subscription: str
    threshold: int
    clear: int
    hold_s: int
    runbook_url: str
    is_pattern: bool
    silenced_until: str | None
    silenced_by: str
    silence_reason: str
    value: int
    partitions: list[PartitionValue]
    topics: list[TopicValue]
    topics_left_out: bool
    firing: bool
    looked_at: str | None
    problem: str


class AuditChange(TypedDict):
    path: str
    before: str | None
    after: str | None


class AuditHeadShape(TypedDict):
    sequence: int
    hash: str
    at: str
    statement: str


class AuditHeadsShape(TypedDict):
    items: list[AuditHeadShape]
    next: str | None
    public_key: str


class AuditShape(TypedDict):
    id: str
    at: str
    role: str
    address: str
    key_id: str
    tenant: str
    action: str
    resource: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    changes: list[AuditChange]
    request_id: str
    previous_hash: str
    tenant_previous_hash: str
    hash: str
    masked: bool


class AuditStreamShape(TypedDict):
    url: str
    topic: str
    secret: str
    created_at: str
    sent_id: int
    newest_id: int
    sent_at: str | None
    gaps: int
    failures: int
    problem: str
    next_at: str


class BacklogShape(TypedDict):
    entries: int
    messages: int
    first: str
    last: str
    complete: bool


class BillingShape(TypedDict):
    tenant: str
    details: dict[str, str]
    tax_label: str
    tax_rate: str
    payment_days: int


class BudgetShape(TypedDict):
    id: str
    name: str
    amount: str
    currency: str
    namespace: str
    thresholds: list[int]
    emails: list[str]
    created_at: str


class CeilingShape(TypedDict):
    name: str
    title: str
    limit: int | None
    used: int | None
    used_percent: int | None
    limit_text: str
    used_text: str
    unit: str
    level: str
    meaning: str


class CeilingsSet(TypedDict):
    set: dict[str, Any]


class CeilingsShape(TypedDict):
    ceilings: list[CeilingShape]


class ChangeProgress(TypedDict):
    id: str
    change: str
    resource: str
    state: str
    done: int
    partitions: int
    error: str
    started_ms: int
    ended_ms: int | None


class ChangesShape(TypedDict):
    items: list[ChangeProgress]


class CompactionShape(TypedDict):
    status: str
    last_error: str


class ConnectedClient(TypedDict):
    address: str
    client: str
    protocol_version: int
    role: str
    key_id: str
    connected_at: str
    producers: int
    consumers: int
    topics: list[str]
    websocket: bool
    tls: bool
    broker_id: str


class ConnectedClients(TypedDict):
    items: list[ConnectedClient]
    total: int
    producers: int
    consumers: int
    libraries: dict[str, int]
    unreached: int


class CostCell(TypedDict):
    name: str
    start: str
    cost: str


class CostTotal(TypedDict):
    currency: str
    total: str


class CostsShape(TypedDict):
    currency: str
    total: str
    totals: list[CostTotal]
    items: list[CostCell]


class CreditShape(TypedDict):
    id: str
    title: str
    currency: str
    amount: str
    expires: str | None


class DeadLetterPolicyAnswer(TypedDict):
    max_redeliver_count: int
    target: str
    initial_subscription: str
    owner: str
    waiting_entries: int
    moved_messages: int
    last_error: str


class DelayedBucket(TypedDict):
    from_ms: int
    until_ms: int | None
    entries: int


class DelayedChanged(TypedDict):
    already: bool
    former_ms: int


class DelayedCounts(TypedDict):
    buckets: list[DelayedBucket]
    entries: int
    exact: bool
    complete: bool


class DelayedKeyChanged(TypedDict):
    changed: int
    refused_count: int
    refused: list[DelayedRefused]
    looked_at: int
    next: str | None


class DelayedMessage(TypedDict):
    message_id: str
    deliver_at_ms: int
    former_ms: int | None
    publish_time_ms: int
    producer: str
    key: str
    messages: int
    size_bytes: int


class DelayedPage(TypedDict):
    items: list[DelayedMessage]
    next: str | None
    complete: bool


class DelayedRefused(TypedDict):
    message_id: str
    sentence: str


class DisconnectRequest(TypedDict):
    kind: NotRequired[Literal["consumer", "producer"]]
    name: NotRequired[str]
    subscription: NotRequired[str]
    address: NotRequired[str]


class DraftRun(TypedDict):
    under_way: bool
    asked_at: str | None
    finished_at: str | None
    drafts_done: int | None
    usage_until: str | None


class EditedMessage(TypedDict):
    text: NotRequired[str]
    payload_base64: NotRequired[str]
    key: NotRequired[str]
    properties: NotRequired[dict[str, str]]


class ExpireRequest(TypedDict):
    older_than_s: NotRequired[int]
    message_id: NotRequired[str]
    excluded: NotRequired[bool]


class ExplainFinding(TypedDict):
    reason: str
    sentence: str
    remedy: str
    consumer: str
    key: str
    position: str
    until_ms: int | None


class ExplainStep(TypedDict):
    step: str
    state: str
    sentence: str
    code: str
    facts: dict[str, str | int | float]
    who: list[str]
    since_ms: int | None


class ForecastShape(TypedDict):
    currency: str
    so_far: str
    likely: str | None
    low: str | None
    high: str | None
    days: int
    computed_until: str | None


class HistoryFigures(TypedDict):
    begins: str
    known_seconds: float
    messages_in: int | None
    messages_out: int | None
    bytes_in: int | None
    bytes_out: int | None
    rate_in: float | None
    rate_out: float | None
    throughput_in: float | None
    throughput_out: float | None
    peak_in: float | None
    peak_out: float | None
    backlog_mean: float | None
    backlog_max: int | None
    backlog_entries: int | None
    oldest_age_max_seconds: float | None
    publish_ms_mean: float | None
    publish_ms_max: float | None
    throttled_part: float | None
    expired_entries: int | None
    stored_bytes: int | None
    producers: int | None
    consumers: int | None


class HistoryShape(TypedDict):
    begins: str
    ends: str
    step_seconds: int
    steps: list[HistoryFigures]


class InvitationShape(TypedDict):
    id: str
    email: str
    role: str
    state: Literal["accepted", "expired", "open", "revoked"]
    works: bool
    mailed: bool
    created_at: str
    created_by: str
    expires_at: str
    member_days: int
    accepted_at: str | None
    accepted_by: str
    revoked_at: str | None


class InvitationWithLink(TypedDict):
    id: str
    email: str
    role: str
    state: Literal["accepted", "expired", "open", "revoked"]
    works: bool
    mailed: bool
    created_at: str
    created_by: str
    expires_at: str
    member_days: int
    accepted_at: str | None
    accepted_by: str
    revoked_at: str | None
    link: str


class InvoiceShape(TypedDict):
    id: str
    number: str | None
    kind: Literal["invoice", "credit_note"]
    state: Literal["draft", "final"]
    start: str
    end: str
    currency: str
    total: str
    made_at: str
    issued_at: str | None


class IssuerShape(TypedDict):
    details: dict[str, str]
    forgiven_minor: int


class JobShape(TypedDict):
    id: str
    kind: str
    resource: str
    tenant: str
    state: Literal["cancelled", "done", "failed", "paused", "running", "waiting"]
    done: int | None
    total: int | None
    unit: str
    counts: dict[str, int | str]
    begun_at: str | None
    ended_at: str | None
    error: str
    requested_by: str
    cancellable: bool


class KeyRotationRequest(TypedDict):
    overlap_s: NotRequired[int]


class KeyShape(TypedDict):
    id: str
    name: str
    role: str
    created_at: str
    created_by: str
    expires_at: str | None
    revoked_at: str | None
    scope: list[KeyUseShape] | None
    networks: list[str]
    last_used_at: str | None
    replaces: str | None


class KeyUseShape(TypedDict):
    actions: list[str]
    namespace: str
    topics: str


class KeyWithToken(TypedDict):
    id: str
    name: str
    role: str
    created_at: str
    created_by: str
    expires_at: str | None
    revoked_at: str | None
    scope: list[KeyUseShape] | None
    networks: list[str]
    last_used_at: str | None
    replaces: str | None
    token: str


class LabelsShape(TypedDict):
    labels: dict[str, str]


class LabelsShapeRequest(TypedDict):
    labels: dict[str, str]


class LanguageShape(TypedDict):
    language: Literal["de", "en"] | Literal[""]


class LanguageShapeRequest(TypedDict):
    language: Literal["de", "en"] | Literal[""]


class LeakedTokenRequest(TypedDict):
    token: str


class Letter(TypedDict):
    topic: str
    message_id: str
    messages: int
    size_bytes: int
    key: str
    publish_time_ms: int
    origin_topic: str
    origin_subscription: str
    reason: str
    producer: str
    destination: str
    why: str


class LetterGroup(TypedDict):
    value: str
    entries: int
    messages: int
    staying: int
    oldest_ms: int
    newest_ms: int


class LettersList(TypedDict):
    items: list[Letter]
    looked_at: int
    left_out: list[NotStarted]
    next: str | None


class LettersPage(TypedDict):
    groups: list[LetterGroup]
    beyond: int
    looked_at: int
    topics: int
    topics_done: int
    left_out: list[NotStarted]
    more_topics: bool
    next: str | None


class LettersRedrives(TypedDict):
    started: list[RedriveShape]
    not_started: list[NotStarted]


class LineHour(TypedDict):
    hour: str
    run: str
    quantity: int


class LineRun(TypedDict):
    run: str
    finished_at: str | None
    files: int


class LineTopic(TypedDict):
    namespace: str
    topic: str
    quantity: int
    amount: str


class LineUsage(TypedDict):
    line: str
    hours: list[LineHour]
    topics: list[LineTopic]
    topics_left: int
    runs: list[LineRun]


class MadeShape(TypedDict):
    kind: str
    id: str
    name: str
    how: Literal["changed", "made"]
    at: str
    record: str
    expires_at: str | None
    exists: bool | None


class MaskedFields(TypedDict):
    masked_fields: list[str]


class MaskedFieldsRequest(TypedDict):
    masked_fields: list[str]


class Me(TypedDict):
    role: str
    key_id: str
    superuser: bool
    broker_url: str
    broker_url_tls: str
    ws_url: str


class MemberShape(TypedDict):
    username: str
    role: str
    namespace: str
    topics: str
    expires_at: str | None


class MessageRow(TypedDict):
    message_id: str
    publish_time_ms: int
    stored_at_ms: int
    event_time_ms: int
    deliver_at_ms: int
    producer: str
    sequence_id: int
    key: str | None
    key_is_base64: bool
    properties: dict[str, str]
    metadata_cut: bool
    batch_size: int
    chunks: int
    compression: str
    encryption_keys: list[str]
    schema_version: int | None
    schema_type: str
    size_bytes: int
    format: str
    decoded: bool
    value: Any
    text: str
    payload_base64: str
    payload_cut: bool
    problem: str
    masked: bool


class MessageShape(TypedDict):
    message_id: str
    payload_base64: str
    headers: dict[str, str]


class MessageTraced(TypedDict):
    sentence: str
    entry: TracedEntry | None
    recorded_since_ms: int | None
    subscriptions: list[TracedSubscription]


class MessagesPage(TypedDict):
    items: list[MessageRow]
    next: str | None
    end: str
    looked_at: int
    left: int
    partition: int
    partitions: int
    unreadable: int


class MoveShape(TypedDict):
    id: str
    at: str
    until: str
    action: str
    before: dict[str, str]
    left_out_entries: int
    undoable: bool


class Moved(TypedDict):
    topic: str
    before: str
    after: str


class NamespaceShape(TypedDict):
    name: str
    tenant: str
    policies: dict[str, Any]
    policies_not_enforced: dict[str, Any]
    created_at: str


class NewAlertRuleRequest(TypedDict):
    name: str
    kind: Literal[
        "backlog_entries", "backlog_bytes", "backlog_age_s", "no_consumer", "blocked", "messages_grow", "publish_throttled"
    ]
    topic: str
    subscription: NotRequired[str]
    threshold: NotRequired[int]
    clear: NotRequired[int]
    hold_s: NotRequired[int]
    runbook_url: NotRequired[str]


class NewAuditStreamRequest(TypedDict):
    url: NotRequired[str]
    topic: NotRequired[str]
    from_oldest: NotRequired[bool]


class NewBudgetRequest(TypedDict):
    name: str
    amount: str
    currency: str
    namespace: NotRequired[str]
    thresholds: NotRequired[list[int]]
    emails: NotRequired[list[str]]


class NewCreditNoteRequest(TypedDict):
    note: str
    amounts: NotRequired[dict[str, str] | None]


class NewCreditRequest(TypedDict):
    title: str
    currency: str
    amount: str
    expires: NotRequired[str | None]


class NewDeadLetterPolicyRequest(TypedDict):
    max_redeliver_count: int
    target: NotRequired[str]
    initial_subscription: NotRequired[str]


class NewInvitationRequest(TypedDict):
    email: str
    role: NotRequired[str]
    by_mail: NotRequired[bool]
    member_days: NotRequired[int]


class NewIssuerRequest(TypedDict):
    details: dict[str, str]
    forgiven_minor: NotRequired[int]


class NewKeyRequest(TypedDict):
    name: str
    expires_at: NotRequired[str | None]
    scope: NotRequired[list[KeyUseShape]]
    networks: NotRequired[list[str]]


class NewLettersRedriveRequest(TypedDict):
    subscription: NotRequired[str]
    key: NotRequired[str]
    property_name: NotRequired[str]
    property_value: NotRequired[str]
    origin_subscription: NotRequired[str]
    origin_topic: NotRequired[str]
    reason: NotRequired[str]
    producer: NotRequired[str]
    message_ids: NotRequired[list[str]]
    from_ms: NotRequired[int]
    until_ms: NotRequired[int]
    redriven_max: NotRequired[int]
    rate: NotRequired[int]
    target: NotRequired[str]
    edit: NotRequired[EditedMessage]
    idempotency_key: NotRequired[str]
    topics: NotRequired[list[str]]


class NewMemberRoleRequest(TypedDict):
    role: str
    namespace: NotRequired[str]
    topics: NotRequired[str]
    expires_at: NotRequired[str | None]


class NewMessage(TypedDict):
    text: NotRequired[str]
    payload_base64: NotRequired[str]
    key: NotRequired[str]
    properties: NotRequired[dict[str, str]]
    event_time_ms: NotRequired[int]
    deliver_at_ms: NotRequired[int]


class NewMessagesRequest(TypedDict):
    messages: list[NewMessage]


class NewNamespaceRequest(TypedDict):
    name: str
    policies: NotRequired[dict[str, Any]]


class NewNotificationsRequest(TypedDict):
    webhook_url: NotRequired[str]
    mail_to: NotRequired[list[str]]
    topic: NotRequired[str]


class NewPlanAssignmentRequest(TypedDict):
    plan: str
    starts_at: str


class NewPricePlanRequest(TypedDict):
    document: dict[str, Any]


class NewProperties(TypedDict):
    properties: dict[str, str]


class NewPropertiesRequest(TypedDict):
    properties: dict[str, str]


class NewRedriveRequest(TypedDict):
    subscription: NotRequired[str]
    key: NotRequired[str]
    property_name: NotRequired[str]
    property_value: NotRequired[str]
    origin_subscription: NotRequired[str]
    origin_topic: NotRequired[str]
    reason: NotRequired[str]
    producer: NotRequired[str]
    message_ids: NotRequired[list[str]]
    from_ms: NotRequired[int]
    until_ms: NotRequired[int]
    redriven_max: NotRequired[int]
    rate: NotRequired[int]
    target: NotRequired[str]
    edit: NotRequired[EditedMessage]
    idempotency_key: NotRequired[str]


class NewReportScheduleRequest(TypedDict):
    name: str
    every: Literal["day", "week", "month"]
    by: str
    emails: NotRequired[list[str]]


class NewRoleRequest(TypedDict):
    actions: list[str]
    description: NotRequired[str]


class NewSchemaRequest(TypedDict):
    type: str
    schema: NotRequired[str]
    properties: NotRequired[dict[str, str]]


class NewSilenceRequest(TypedDict):
    for_s: int
    reason: NotRequired[str]


class NewSpendCapRequest(TypedDict):
    amount: str
    currency: str
    action: Literal["throttle", "stop"]
    publish_rate_messages: NotRequired[int]
    publish_rate_bytes: NotRequired[int]
    dispatch_rate_messages: NotRequired[int]
    dispatch_rate_bytes: NotRequired[int]


class NewSubscriptionRequest(TypedDict):
    name: str
    position: NotRequired[str]
    properties: NotRequired[dict[str, str]]


class NewTeamRequest(TypedDict):
    roles: list[TeamRoleShape]
    description: NotRequired[str]


class NewTenantRequest(TypedDict):
    name: str
    admin_roles: NotRequired[list[str]]
    allowed_clusters: NotRequired[list[str]]


class NewTokenIssuerRequest(TypedDict):
    issuer: str
    audience: str
    jwks_url: str
    roles: dict[str, str]
    role_claim: NotRequired[str]
    clock_skew_s: NotRequired[int]


class NewTopicRequest(TypedDict):
    name: str
    partitions: NotRequired[int]
    persistent: NotRequired[bool]


class NotStarted(TypedDict):
    topic: str
    why: str


class NoticeShape(TypedDict):
    id: str
    kind: str
    title: str
    text: str
    at: str
    rule: str
    runbook_url: str
    delivered: dict[str, Any]


class NoticesReplayRequest(TypedDict):
    since: str
    until: NotRequired[str | None]
    failed_only: NotRequired[bool]


class NotificationsShape(TypedDict):
    webhook_url: str
    mail_to: list[str]
    topic: str
    secret: str


class Outcome(TypedDict):
    dry_run: bool
    action: str
    resource: str
    affected: dict[str, int]
    moved: list[Moved]


class PageOfAdministratorShape(TypedDict):
    items: list[AdministratorShape]
    next: str | None


class PageOfAlertRuleShape(TypedDict):
    items: list[AlertRuleShape]
    next: str | None


class PageOfAuditShape(TypedDict):
    items: list[AuditShape]
    next: str | None


class PageOfBudgetShape(TypedDict):
    items: list[BudgetShape]
    next: str | None


class PageOfCreditShape(TypedDict):
    items: list[CreditShape]
    next: str | None


class PageOfInvitationShape(TypedDict):
    items: list[InvitationShape]
    next: str | None


class PageOfInvoiceShape(TypedDict):
    items: list[InvoiceShape]
    next: str | None


class PageOfJobShape(TypedDict):
    items: list[JobShape]
    next: str | None


class PageOfKeyShape(TypedDict):
    items: list[KeyShape]
    next: str | None


class PageOfMadeShape(TypedDict):
    items: list[MadeShape]
    next: str | None


class PageOfMemberShape(TypedDict):
    items: list[MemberShape]
    next: str | None


class PageOfMessageShape(TypedDict):
    items: list[MessageShape]
    next: str | None


class PageOfMoveShape(TypedDict):
    items: list[MoveShape]
    next: str | None


class PageOfNamespaceShape(TypedDict):
    items: list[NamespaceShape]
    next: str | None


class PageOfNoticeShape(TypedDict):
    items: list[NoticeShape]
    next: str | None


class PageOfPlanAssignmentShape(TypedDict):
    items: list[PlanAssignmentShape]
    next: str | None


class PageOfPricePlanShape(TypedDict):
    items: list[PricePlanShape]
    next: str | None


class PageOfRecycledShape(TypedDict):
    items: list[RecycledShape]
    next: str | None


class PageOfRecycledTopicShape(TypedDict):
    items: list[RecycledTopicShape]
    next: str | None


class PageOfRedriveOutcomeShape(TypedDict):
    items: list[RedriveOutcomeShape]
    next: str | None


class PageOfRedriveShape(TypedDict):
    items: list[RedriveShape]
    next: str | None


class PageOfReportScheduleShape(TypedDict):
    items: list[ReportScheduleShape]
    next: str | None


class PageOfReportShape(TypedDict):
    items: list[ReportShape]
    next: str | None


class PageOfRoleShape(TypedDict):
    items: list[RoleShape]
    next: str | None


class PageOfSavingShape(TypedDict):
    items: list[SavingShape]
    next: str | None


class PageOfSchemaShape(TypedDict):
    items: list[SchemaShape]
    next: str | None


class PageOfSessionShape(TypedDict):
    items: list[SessionShape]
    next: str | None


class PageOfSpendAlertShape(TypedDict):
    items: list[SpendAlertShape]
    next: str | None


class PageOfSubscriptionShape(TypedDict):
    items: list[SubscriptionShape]
    next: str | None


class PageOfTaskRunShape(TypedDict):
    items: list[TaskRunShape]
    next: str | None


class PageOfTaskShape(TypedDict):
    items: list[TaskShape]
    next: str | None


class PageOfTeamMemberShape(TypedDict):
    items: list[TeamMemberShape]
    next: str | None


class PageOfTeamShape(TypedDict):
    items: list[TeamShape]
    next: str | None


class PageOfTenantShape(TypedDict):
    items: list[TenantShape]
    next: str | None


class PageOfTokenIssuerShape(TypedDict):
    items: list[TokenIssuerShape]
    next: str | None


class PageOfTopics(TypedDict):
    items: list[TopicShape]
    next: str | None
    unreachable: list[str]


class PartReader(TypedDict):
    role: str
    key_id: str
    where: str
    reads: bool
    consumes: bool
    because: list[str]


class PartitionValue(TypedDict):
    partition: int
    value: int


class PatchedBillingChangeRequest(TypedDict):
    details: NotRequired[dict[str, str]]
    tax_label: NotRequired[str]
    tax_rate: NotRequired[str]
    payment_days: NotRequired[int]


class PatchedBudgetChangeRequest(TypedDict):
    name: NotRequired[str]
    amount: NotRequired[str]
    currency: NotRequired[str]
    namespace: NotRequired[str]
    thresholds: NotRequired[list[int]]
    emails: NotRequired[list[str]]


class PatchedChangedAlertRuleRequest(TypedDict):
    name: NotRequired[str]
    threshold: NotRequired[int]
    clear: NotRequired[int]
    hold_s: NotRequired[int]
    runbook_url: NotRequired[str]


class PatchedDelayedTimeOfKeyRequest(TypedDict):
    deliver_at_ms: NotRequired[int]
    delay_ms: NotRequired[int]
    key: str
    after: NotRequired[str]
    limit: NotRequired[int]


class PatchedDelayedTimeRequest(TypedDict):
    deliver_at_ms: NotRequired[int]
    delay_ms: NotRequired[int]


class PatchedReportScheduleChangeRequest(TypedDict):
    name: NotRequired[str]
    by: NotRequired[str]
    emails: NotRequired[list[str]]


class PatchedTenantChangeRequest(TypedDict):
    admin_roles: NotRequired[list[str]]
    allowed_clusters: NotRequired[list[str]]


class PatchedTopicChangeRequest(TypedDict):
    partitions: NotRequired[int]
    properties: NotRequired[dict[str, str]]
    removed_property: NotRequired[str]


class PermissionActions(TypedDict):
    actions: list[str]
    expires_at: str | None


class PermissionActionsRequest(TypedDict):
    actions: list[str]
    expires_at: NotRequired[str | None]


class Permissions(TypedDict):
    permissions: dict[str, list[str]]
    expires_at: dict[str, str]


class PlanAssignmentShape(TypedDict):
    id: str
    plan: str
    starts_at: str


class PoliciesInForce(TypedDict):
    policies: list[PolicyInForce]


class PolicyBlame(TypedDict):
    name: str
    value: Any
    record: str | None
    at: str | None
    role: str | None
    key_id: str | None


class PolicyBlames(TypedDict):
    policies: list[PolicyBlame]


class PolicyEffectFound(TypedDict):
    policy: str
    topic: str
    subscription: str
    affected: int
    sentence: str


class PolicyFinding(TypedDict):
    policy: str
    outcome: Literal[
        "publishing_held",
        "delivery_held",
        "publishing_refused",
        "evicted",
        "expired",
        "producers_refused",
        "consumers_refused",
        "deleted",
    ]
    namespace: str
    topic: str
    subscription: str
    limit: float
    most_seen: float | None
    at_least_seconds: float
    at_most_seconds: float
    throttled_seconds: float


class PolicyInForce(TypedDict):
    name: str
    title: str
    value: Any
    text: str
    unit: str
    level: str
    set: dict[str, Any]
    levels: list[str]
    meaning: str
    pulsar: str


class PolicyPreviewAnswer(TypedDict):
    effects: list[PolicyEffectFound]
    effects_count: int
    topics_looked_at: int
    topics_left_out: int


class PolicyWhatIf(TypedDict):
    begins: str
    ends: str
    step_seconds: int
    known_seconds: float
    topics_looked_at: int
    topics_left_out: int
    findings: list[PolicyFinding]
    retention: RetentionFinding | None
    unknown: list[str]


class PositionShape(TypedDict):
    message_id: str


class PricePlanShape(TypedDict):
    id: str
    plan: str
    version: int
    title: str
    currency: str
    in_force_from: str
    document: dict[str, Any]
    created_at: str
    created_by: str


class Problem(TypedDict):
    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str


class PublishedShape(TypedDict):
    message_ids: list[str]


class Reader(TypedDict):
    role: str
    key_id: str
    reads: bool
    consumes: bool
    because: list[str]
    issuers: list[str]


class ReadersReport(TypedDict):
    resource: str
    at: str
    may: list[Reader]
    may_in_part: list[PartReader]
    complete: bool
    since: str
    did: list[Reading]
    further: int
    log_since: str | None


class Reading(TypedDict):
    role: str
    action: str
    resource: str
    times: int
    first_at: str
    last_at: str


class ReasonShape(TypedDict):
    rule: str
    text: str


class RecycledShape(TypedDict):
    recycle_id: str
    name: str
    contents: dict[str, int]
    deleted_at: str
    expires_at: str
    deleted_by: str


class RecycledTopicShape(TypedDict):
    recycle_id: str
    topic: str
    partitions: int
    storage_bytes: int
    deleted_at: str
    expires_at: str
    deleted_by: str


class RedriveDryRun(TypedDict):
    looked_at: int
    entries: int
    messages: int
    left: int
    complete: bool
    samples: list[RedriveSample]


class RedriveOutcomeShape(TypedDict):
    id: int
    message_id: str
    key: str
    messages: int
    why: str
    target: str


class RedriveSample(TypedDict):
    message_id: str
    key: str
    messages: int
    publish_time_ms: int
    why: str


class RedriveShape(TypedDict):
    id: str
    job: str
    idempotency_key: str
    topic: str
    subscription: str
    target: str
    filter: dict[str, Any]
    rate: int
    state: Literal["running", "paused", "done", "cancelled", "failed"]
    requested_by: str
    created_at: str
    finished_at: str | None
    looked_at: int
    moved: int
    left: int
    error: str


class ReplayedNotices(TypedDict):
    notices: int
    following: str | None


class ReportFileShape(TypedDict):
    name: str
    bytes: int
    sha256: str


class ReportScheduleShape(TypedDict):
    id: str
    name: str
    every: Literal["day", "week", "month"]
    by: str
    emails: list[str]
    next_first: str
    created_at: str


class ReportShape(TypedDict):
    id: str
    schedule: str | None
    name: str
    by: str
    first: str
    last: str
    runs: list[str]
    files: list[ReportFileShape]
    made_at: str
    delivered: str


class ResetRequest(TypedDict):
    position: NotRequired[Literal["earliest", "latest"]]
    publish_time_ms: NotRequired[int]
    publish_until_ms: NotRequired[int]
    message_id: NotRequired[str]
    excluded: NotRequired[bool]


class RetentionFinding(TypedDict):
    bytes_at_most: int
    seconds: float
    known_seconds: float
    forever: bool


class RoleShape(TypedDict):
    name: str
    built_in: bool
    description: str
    actions: list[str]


class SavingShape(TypedDict):
    topic: str
    why: str
    cost: str
    currency: str
    subscriptions: list[str]
    kind: Literal["waiting", "idle_subscription", "unread", "still", "retention"]
    messages_in: int
    messages_out: int
    stored_mean_bytes: int
    kept_bytes: int
    stored_bytes: int


class SchemaShape(TypedDict):
    version: int
    type: str
    schema: str
    properties: dict[str, str]
    created_ms: int


class SchemaVerdict(TypedDict):
    compatible: bool
    strategy: str
    reason: str


class SchemaVersionShape(TypedDict):
    version: int


class SessionShape(TypedDict):
    id: str
    address: str
    browser: str
    created_at: str
    last_seen_at: str
    current: bool


class SignInRules(TypedDict):
    second_factor_required: bool


class SignInRulesRequest(TypedDict):
    second_factor_required: bool


class SkipRequest(TypedDict):
    entries: int


class SpendAlertShape(TypedDict):
    month: str
    threshold: int
    likely: bool
    amount: str
    currency: str
    at: str
    delivered: dict[str, Any]


class SpendCapShape(TypedDict):
    set_by: Literal["platform", "tenant"]
    amount: str
    currency: str
    action: Literal["throttle", "stop"]
    publish_rate_messages: int
    publish_rate_bytes: int
    dispatch_rate_messages: int
    dispatch_rate_bytes: int
    used_percent: int | None
    reached: bool
    unknown: str
    changed_at: str
    changed_by: str


class SpendCapsShape(TypedDict):
    month: str
    spent: str | None
    currency: str
    usage_until: str | None
    unknown: str
    stopped: str
    throttled_to: dict[str, int]
    caps: list[SpendCapShape]


class SubscriptionExplained(TypedDict):
    health: str
    sentence: str
    remedy: str
    findings: list[ExplainFinding]
    backlog_entries: int
    delayed_entries: int
    next_delayed_ms: int | None
    message_ttl_s: int
    mark_delete: str
    read_position: str
    held_at: str
    steps: list[ExplainStep]
    problems: list[Problem]


class SubscriptionShape(TypedDict):
    name: str
    type: str
    durable: bool
    backlog_entries: int
    unacked_messages: int
    delayed_messages: int
    consumers: int
    rate_out: float
    properties: dict[str, str]


class TaskRunShape(TypedDict):
    id: str
    job: str
    task: str
    arguments: dict[str, str]
    requested_by: str
    outcome: Literal["queued", "running", "retrying", "succeeded", "failed", "skipped", "quarantined", "discarded"]
    attempts: int
    started_at: str
    finished_at: str | None
    next_try_at: str | None
    progress: dict[str, Any]
    summary: dict[str, Any]


class TaskShape(TypedDict):
    name: str
    title: str
    queue: str
    every_s: int | None
    last_outcome: str | None
    last_started_at: str | None


class TeamMemberShape(TypedDict):
    username: str


class TeamRoleShape(TypedDict):
    role: str
    namespace: str
    topics: str


class TeamShape(TypedDict):
    name: str
    description: str
    roles: list[TeamRoleShape]
    member_count: int
    created_at: str


class TenantShape(TypedDict):
    name: str
    admin_roles: list[str]
    allowed_clusters: list[str]
    created_at: str


class TokenIssuerShape(TypedDict):
    name: str
    issuer: str
    audience: str
    jwks_url: str
    role_claim: str
    roles: dict[str, str]
    clock_skew_s: int
    key_ids: list[str]
    fetched_at: str | None
    tried_at: str | None
    problem: str
    created_at: str


class TopicExplained(TypedDict):
    held_at: str
    steps: list[ExplainStep]
    problems: list[Problem]


class TopicProperties(TypedDict):
    topic: str
    partitions: int
    properties: dict[str, str]


class TopicShape(TypedDict):
    topic: str
    partitions: int


class TopicStats(TypedDict):
    stats: dict[str, Any]


class TopicTuneRequest(TypedDict):
    latency_ms: NotRequired[float]
    keyed: NotRequired[bool]
    batching: NotRequired[bool]
    batch_messages_max: NotRequired[int]
    batch_bytes_max: NotRequired[int]
    batch_delay_ms: NotRequired[float]
    pending_max: NotRequired[int]
    pending_across_partitions_max: NotRequired[int]
    send_timeout_s: NotRequired[float]
    memory_bytes_max: NotRequired[int]
    gib_price: NotRequired[float]
    cpu_hour_price: NotRequired[float]


class TopicValue(TypedDict):
    topic: str
    value: int
    firing: bool


class TracedDelivery(TypedDict):
    at_ms: int
    event: str
    consumer: str
    certain: bool


class TracedEntry(TypedDict):
    stored_at_ms: int
    publish_time_ms: int
    producer: str
    sequence_id: int
    messages: int
    size_bytes: int
    deliver_at_ms: int | None


class TracedSubscription(TypedDict):
    subscription: str
    where: str
    sentence: str
    consumer: str
    messages_left: int | None
    redeliveries: int | None
    deliveries: list[TracedDelivery]


class TuneAnswer(TypedDict):
    traffic: TuneTraffic
    settings: list[TuneSetting]
    warnings: list[str]
    contradictions: list[str]
    compared_with: Literal["messages_per_entry", "own_settings", "unbatched"]
    messages_per_entry: float
    saved_a_day: TuneSavings


class TuneRequest(TypedDict):
    latency_ms: NotRequired[float]
    keyed: NotRequired[bool]
    batching: NotRequired[bool]
    batch_messages_max: NotRequired[int]
    batch_bytes_max: NotRequired[int]
    batch_delay_ms: NotRequired[float]
    pending_max: NotRequired[int]
    pending_across_partitions_max: NotRequired[int]
    send_timeout_s: NotRequired[float]
    memory_bytes_max: NotRequired[int]
    gib_price: NotRequired[float]
    cpu_hour_price: NotRequired[float]
    message_bytes: float
    messages_per_s: float
    partitions: NotRequired[int]
    producers: NotRequired[int]
    messages_per_entry: NotRequired[float]


class TuneSavings(TypedDict):
    messages_per_entry: float
    entries: float
    traffic_bytes: float
    client_cpu_s: float
    broker_cpu_s: float
    money: float | None


class TuneSetting(TypedDict):
    name: str
    value: int | float | str | bool
    reason: str


class TuneTraffic(TypedDict):
    messages_per_s: float
    message_bytes: float
    messages_per_entry: float | None
    partitions: int
    producers: int


class UndoneChangeRequest(TypedDict):
    record: str


class WhatIfShape(TypedDict):
    currency: str
    now: str
    then: str
    stored_byte_seconds_now: int
    stored_byte_seconds_then: int


class Administrators:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, *, after: str | None = None, limit: int | None = None) -> PageOfAdministratorShape:
        """Who administers the platform, and until when."""
        answer: PageOfAdministratorShape = self._http.send("GET", "administrators", query={"after": after, "limit": limit})
        return answer

    def each(self) -> Iterator[AdministratorShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def set(self, username: str, body: AdministratorTermsRequest, *, idempotency_key: str | None = None) -> AdministratorShape:
        """Have somebody administer the platform, for good or until a time."""
        answer: AdministratorShape = self._http.send(
            "PUT", f"administrators/{segment(username)}", body=body, idempotency_key=idempotency_key
        )
        return answer

    def delete(self, username: str, *, idempotency_key: str | None = None) -> None:
        """Have somebody no longer administer the platform; they stay a person who may sign in."""
        self._http.send("DELETE", f"administrators/{segment(username)}", idempotency_key=idempotency_key)


class AlertRuleNotices:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, rule: str, *, after: str | None = None, limit: int | None = None) -> PageOfNoticeShape:
        """What an alert rule has said, newest first."""
        answer: PageOfNoticeShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/alert-rules/{segment(rule)}/notices", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str, rule: str) -> Iterator[NoticeShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, rule, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return


class AlertRules:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfAlertRuleShape:
        """Alert rules of a tenant."""
        answer: PageOfAlertRuleShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/alert-rules", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str) -> Iterator[AlertRuleShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def create(self, tenant: str, body: NewAlertRuleRequest, *, idempotency_key: str | None = None) -> AlertRuleShape:
        """Create an alert rule."""
        answer: AlertRuleShape = self._http.send(
            "POST", f"tenants/{segment(tenant)}/alert-rules", body=body, idempotency_key=idempotency_key
        )
        return answer

    def get(self, tenant: str, rule: str) -> AlertRuleShape:
        """An alert rule."""
        answer: AlertRuleShape = self._http.send("GET", f"tenants/{segment(tenant)}/alert-rules/{segment(rule)}")
        return answer

    def update(
        self,
        tenant: str,
        rule: str,
        body: PatchedChangedAlertRuleRequest,
        *,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> AlertRuleShape:
        """Change some of an alert rule."""
        answer: AlertRuleShape = self._http.send(
            "PATCH",
            f"tenants/{segment(tenant)}/alert-rules/{segment(rule)}",
            body=body,
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def delete(self, tenant: str, rule: str, *, idempotency_key: str | None = None, if_match: str | None = None) -> None:
        """Delete an alert rule."""
        self._http.send(
            "DELETE", f"tenants/{segment(tenant)}/alert-rules/{segment(rule)}", idempotency_key=idempotency_key, if_match=if_match
        )

    def restore(self, tenant: str, rule: str, *, idempotency_key: str | None = None) -> AlertRuleShape:
        """Take back that an alert rule was deleted in the last 24 hours."""
        answer: AlertRuleShape = self._http.send(
            "POST", f"tenants/{segment(tenant)}/alert-rules/{segment(rule)}/restore", idempotency_key=idempotency_key
        )
        return answer

    def set_silence(self, tenant: str, rule: str, body: NewSilenceRequest, *, idempotency_key: str | None = None) -> AlertRuleShape:
        """Silence an alert rule: its notices are written and not sent."""
        answer: AlertRuleShape = self._http.send(
            "PUT", f"tenants/{segment(tenant)}/alert-rules/{segment(rule)}/silence", body=body, idempotency_key=idempotency_key
        )
        return answer

    def delete_silence(self, tenant: str, rule: str, *, idempotency_key: str | None = None) -> AlertRuleShape:
        """End the silence of an alert rule; that it fires is sent."""
        answer: AlertRuleShape = self._http.send(
            "DELETE", f"tenants/{segment(tenant)}/alert-rules/{segment(rule)}/silence", idempotency_key=idempotency_key
        )
        return answer


class Alerts:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, budget: str) -> PageOfSpendAlertShape:
        """Thresholds of a budget that were reached, the newest first."""
        answer: PageOfSpendAlertShape = self._http.send("GET", f"tenants/{segment(tenant)}/budgets/{segment(budget)}/alerts")
        return answer


class Audit:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        *,
        action: str | None = None,
        address: str | None = None,
        after: str | None = None,
        key_id: str | None = None,
        limit: int | None = None,
        request_id: str | None = None,
        resource: str | None = None,
        role: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> PageOfAuditShape:
        """Audit log of the whole platform, with sign-ins and deleted tenants."""
        answer: PageOfAuditShape = self._http.send(
            "GET",
            "audit",
            query={
                "action": action,
                "address": address,
                "after": after,
                "key_id": key_id,
                "limit": limit,
                "request_id": request_id,
                "resource": resource,
                "role": role,
                "since": since,
                "until": until,
            },
        )
        return answer

    def each(
        self,
        *,
        action: str | None = None,
        address: str | None = None,
        key_id: str | None = None,
        request_id: str | None = None,
        resource: str | None = None,
        role: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Iterator[AuditShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(
                action=action,
                address=address,
                key_id=key_id,
                request_id=request_id,
                resource=resource,
                role=role,
                since=since,
                until=until,
                after=after,
                limit=1000,
            )
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def export(
        self,
        *,
        action: str | None = None,
        address: str | None = None,
        format: Literal["csv", "jsonl"] | None = None,
        key_id: str | None = None,
        request_id: str | None = None,
        resource: str | None = None,
        role: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> bytes:
        """Audit log of the whole platform as a file, oldest first."""
        answer: bytes = self._http.read(
            "GET",
            "audit/export",
            query={
                "action": action,
                "address": address,
                "format": format,
                "key_id": key_id,
                "request_id": request_id,
                "resource": resource,
                "role": role,
                "since": since,
                "until": until,
            },
        )
        return answer

    def heads(self, *, after: str | None = None, limit: int | None = None) -> AuditHeadsShape:
        """Signed heads of the audit log, newest first, and their public key."""
        answer: AuditHeadsShape = self._http.send("GET", "audit/heads", query={"after": after, "limit": limit})
        return answer

    def start_heads(self, *, idempotency_key: str | None = None) -> AuditHeadShape:
        """Sign the end of the audit log now: keep what is returned elsewhere."""
        answer: AuditHeadShape = self._http.send("POST", "audit/heads", idempotency_key=idempotency_key)
        return answer

    def stream(self) -> AuditStreamShape:
        """Where the audit log of the platform is streamed to, and how far that is."""
        answer: AuditStreamShape = self._http.send("GET", "audit/stream")
        return answer

    def set_stream(
        self, body: NewAuditStreamRequest, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> AuditStreamShape:
        """Stream the audit log of the whole platform to a webhook, or to a topic."""
        answer: AuditStreamShape = self._http.send(
            "PUT", "audit/stream", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def delete_stream(self, *, idempotency_key: str | None = None, if_match: str | None = None) -> None:
        """Stop streaming the audit log of the platform."""
        self._http.send("DELETE", "audit/stream", idempotency_key=idempotency_key, if_match=if_match)

    def verification(self) -> TaskRunShape:
        """The newest verification of the whole audit log: what was found is its summary."""
        answer: TaskRunShape = self._http.send("GET", "audit/verification")
        return answer

    def start_verification(self, *, idempotency_key: str | None = None) -> TaskRunShape:
        """Verify the whole audit log now; its state is that of the task run."""
        answer: TaskRunShape = self._http.send("POST", "audit/verification", idempotency_key=idempotency_key)
        return answer


class Browse:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        after: str | None = None,
        compare: Literal["contains", "eq", "exists", "gt", "lt", "ne"] | None = None,
        format: Literal["auto", "avro", "cbor", "hex", "json", "msgpack", "protobuf", "text"] | None = None,
        from_ms: int | None = None,
        key: str | None = None,
        limit: int | None = None,
        order: Literal["newest", "oldest"] | None = None,
        path: str | None = None,
        position: str | None = None,
        property: str | None = None,
        publish_time_ms: int | None = None,
        subscription: str | None = None,
        text: str | None = None,
        until_ms: int | None = None,
        value: str | None = None,
    ) -> MessagesPage:
        """Browse the messages of a topic, or search them: so much with each request."""
        answer: MessagesPage = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/browse",
            query={
                "after": after,
                "compare": compare,
                "format": format,
                "from_ms": from_ms,
                "key": key,
                "limit": limit,
                "order": order,
                "path": path,
                "position": position,
                "property": property,
                "publish_time_ms": publish_time_ms,
                "subscription": subscription,
                "text": text,
                "until_ms": until_ms,
                "value": value,
            },
        )
        return answer

    def get(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        message_id: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        format: Literal["auto", "avro", "cbor", "hex", "json", "msgpack", "protobuf", "text"] | None = None,
    ) -> MessageRow:
        """A message by its id, found and decoded."""
        answer: MessageRow = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/browse/{segment(message_id)}",
            query={"format": format},
        )
        return answer


class Budgets:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfBudgetShape:
        """Budgets of a tenant."""
        answer: PageOfBudgetShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/budgets", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str) -> Iterator[BudgetShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def create(self, tenant: str, body: NewBudgetRequest, *, idempotency_key: str | None = None) -> BudgetShape:
        """Create a budget: what is spent beyond its thresholds is said."""
        answer: BudgetShape = self._http.send(
            "POST", f"tenants/{segment(tenant)}/budgets", body=body, idempotency_key=idempotency_key
        )
        return answer

    def get(self, tenant: str, budget: str) -> BudgetShape:
        """A budget."""
        answer: BudgetShape = self._http.send("GET", f"tenants/{segment(tenant)}/budgets/{segment(budget)}")
        return answer

    def update(
        self,
        tenant: str,
        budget: str,
        body: PatchedBudgetChangeRequest,
        *,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> BudgetShape:
        """Change a budget."""
        answer: BudgetShape = self._http.send(
            "PATCH",
            f"tenants/{segment(tenant)}/budgets/{segment(budget)}",
            body=body,
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def delete(self, tenant: str, budget: str, *, idempotency_key: str | None = None, if_match: str | None = None) -> None:
        """Delete a budget."""
        self._http.send(
            "DELETE", f"tenants/{segment(tenant)}/budgets/{segment(budget)}", idempotency_key=idempotency_key, if_match=if_match
        )


class Credits:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfCreditShape:
        """Credits of a tenant."""
        answer: PageOfCreditShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/billing/credits", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str) -> Iterator[CreditShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def create(self, tenant: str, body: NewCreditRequest, *, idempotency_key: str | None = None) -> CreditShape:
        """Give a tenant a credit."""
        answer: CreditShape = self._http.send(
            "POST", f"tenants/{segment(tenant)}/billing/credits", body=body, idempotency_key=idempotency_key
        )
        return answer


class DeadLetterRedrives:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfRedriveShape:
        """Redrives of all topics of a tenant."""
        answer: PageOfRedriveShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/dead-letters/redrives", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str) -> Iterator[RedriveShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def create(self, tenant: str, body: NewLettersRedriveRequest, *, idempotency_key: str | None = None) -> LettersRedrives:
        """Redrive the dead letters of many topics: a job for each."""
        answer: LettersRedrives = self._http.send(
            "POST", f"tenants/{segment(tenant)}/dead-letters/redrives", body=body, idempotency_key=idempotency_key
        )
        return answer


class DeadLetters:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        tenant: str,
        *,
        after: str | None = None,
        by: Literal[
            "day", "hour", "key", "origin_subscription", "origin_topic", "outcome", "producer", "property", "reason", "topic"
        ]
        | None = None,
        from_ms: int | None = None,
        key: str | None = None,
        origin_subscription: str | None = None,
        origin_topic: str | None = None,
        producer: str | None = None,
        property: str | None = None,
        property_name: str | None = None,
        property_value: str | None = None,
        reason: str | None = None,
        redriven_max: int | None = None,
        subscription: str | None = None,
        target: str | None = None,
        topic: str | None = None,
        until_ms: int | None = None,
    ) -> LettersPage:
        """The dead letters of a tenant in groups: so many with each request."""
        answer: LettersPage = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/dead-letters",
            query={
                "after": after,
                "by": by,
                "from_ms": from_ms,
                "key": key,
                "origin_subscription": origin_subscription,
                "origin_topic": origin_topic,
                "producer": producer,
                "property": property,
                "property_name": property_name,
                "property_value": property_value,
                "reason": reason,
                "redriven_max": redriven_max,
                "subscription": subscription,
                "target": target,
                "topic": topic,
                "until_ms": until_ms,
            },
        )
        return answer

    def messages(
        self,
        tenant: str,
        *,
        after: str | None = None,
        from_ms: int | None = None,
        key: str | None = None,
        limit: int | None = None,
        origin_subscription: str | None = None,
        origin_topic: str | None = None,
        producer: str | None = None,
        property_name: str | None = None,
        property_value: str | None = None,
        reason: str | None = None,
        redriven_max: int | None = None,
        subscription: str | None = None,
        target: str | None = None,
        topic: str | None = None,
        until_ms: int | None = None,
    ) -> LettersList:
        """The dead letters of a tenant one by one, without their payloads."""
        answer: LettersList = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/dead-letters/messages",
            query={
                "after": after,
                "from_ms": from_ms,
                "key": key,
                "limit": limit,
                "origin_subscription": origin_subscription,
                "origin_topic": origin_topic,
                "producer": producer,
                "property_name": property_name,
                "property_value": property_value,
                "reason": reason,
                "redriven_max": redriven_max,
                "subscription": subscription,
                "target": target,
                "topic": topic,
                "until_ms": until_ms,
            },
        )
        return answer


class Delayed:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        after: str | None = None,
        from_ms: int | None = None,
        key: str | None = None,
        limit: int | None = None,
        until_ms: int | None = None,
    ) -> DelayedPage:
        """Delayed messages in the order of their times."""
        answer: DelayedPage = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/delayed",
            query={"after": after, "from_ms": from_ms, "key": key, "limit": limit, "until_ms": until_ms},
        )
        return answer

    def update_all(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        body: PatchedDelayedTimeOfKeyRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> DelayedKeyChanged:
        """Reschedule the delayed messages of a key, some with each request."""
        answer: DelayedKeyChanged = self._http.send(
            "PATCH",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/delayed",
            body=body,
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def delete_all(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        after: str | None = None,
        key: str | None = None,
        limit: int | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> DelayedKeyChanged:
        """Cancel the delayed messages of a key, some with each request."""
        answer: DelayedKeyChanged = self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/delayed",
            query={"after": after, "key": key, "limit": limit},
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def counts(
        self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> DelayedCounts:
        """How many delayed messages are due when."""
        answer: DelayedCounts = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/delayed/counts"
        )
        return answer

    def update(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        message_id: str,
        body: PatchedDelayedTimeRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> DelayedChanged:
        """Reschedule a delayed message: it keeps its id."""
        answer: DelayedChanged = self._http.send(
            "PATCH",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/delayed/{segment(message_id)}",
            body=body,
            idempotency_key=idempotency_key,
        )
        return answer

    def delete(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        message_id: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> DelayedChanged:
        """Cancel a delayed message: no subscription is sent it."""
        answer: DelayedChanged = self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/delayed/{segment(message_id)}",
            idempotency_key=idempotency_key,
        )
        return answer


class Files:
    def __init__(self, http: Http) -> None:
        self._http = http

    def get(self, tenant: str, report: str, file: str) -> bytes | str:
        """A file of a report: report.csv, report.json, report.parquet or report.html."""
        answer: bytes | str = self._http.read("GET", f"tenants/{segment(tenant)}/reports/{segment(report)}/files/{segment(file)}")
        return answer


class Invitations:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfInvitationShape:
        """Invitations of a tenant, open and closed."""
        answer: PageOfInvitationShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/invitations", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str) -> Iterator[InvitationShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def create(self, tenant: str, body: NewInvitationRequest, *, idempotency_key: str | None = None) -> InvitationWithLink:
        """Invite somebody; the link is returned only in this response."""
        answer: InvitationWithLink = self._http.send(
            "POST", f"tenants/{segment(tenant)}/invitations", body=body, idempotency_key=idempotency_key
        )
        return answer

    def get(self, tenant: str, invitation: str) -> InvitationShape:
        """An invitation."""
        answer: InvitationShape = self._http.send("GET", f"tenants/{segment(tenant)}/invitations/{segment(invitation)}")
        return answer

    def delete(
        self, tenant: str, invitation: str, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> InvitationShape:
        """Revoke an invitation."""
        answer: InvitationShape = self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}/invitations/{segment(invitation)}",
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer


class Invoices:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfInvoiceShape:
        """Invoices and credit notes of a tenant."""
        answer: PageOfInvoiceShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/invoices", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str) -> Iterator[InvoiceShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def get(self, tenant: str, invoice: str) -> dict[str, Any]:
        """An invoice with everything it was made of, as `magnetar usage verify` reads it."""
        answer: dict[str, Any] = self._http.send("GET", f"tenants/{segment(tenant)}/invoices/{segment(invoice)}")
        return answer

    def credit_notes(
        self, tenant: str, invoice: str, body: NewCreditNoteRequest, *, idempotency_key: str | None = None
    ) -> InvoiceShape:
        """Take back an invoice, or a part of it."""
        answer: InvoiceShape = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/invoices/{segment(invoice)}/credit-notes",
            body=body,
            idempotency_key=idempotency_key,
        )
        return answer

    def usage(self, tenant: str, invoice: str, line: str) -> LineUsage:
        """What a line was made of: hours, topics and usage runs."""
        answer: LineUsage = self._http.send(
            "GET", f"tenants/{segment(tenant)}/invoices/{segment(invoice)}/lines/{segment(line)}/usage"
        )
        return answer


class Issuers:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfTokenIssuerShape:
        """Issuers whose tokens a tenant accepts."""
        answer: PageOfTokenIssuerShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/issuers", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str) -> Iterator[TokenIssuerShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def get(self, tenant: str, issuer: str) -> TokenIssuerShape:
        """An issuer."""
        answer: TokenIssuerShape = self._http.send("GET", f"tenants/{segment(tenant)}/issuers/{segment(issuer)}")
        return answer

    def set(
        self,
        tenant: str,
        issuer: str,
        body: NewTokenIssuerRequest,
        *,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> TokenIssuerShape:
        """Accept tokens of an issuer, or change what was agreed with it."""
        answer: TokenIssuerShape = self._http.send(
            "PUT",
            f"tenants/{segment(tenant)}/issuers/{segment(issuer)}",
            body=body,
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def delete(self, tenant: str, issuer: str, *, idempotency_key: str | None = None, if_match: str | None = None) -> None:
        """Accept tokens of an issuer no more; what was opened with them is closed."""
        self._http.send(
            "DELETE", f"tenants/{segment(tenant)}/issuers/{segment(issuer)}", idempotency_key=idempotency_key, if_match=if_match
        )


class Jobs:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, *, active: bool | None = None, after: str | None = None, limit: int | None = None) -> PageOfJobShape:
        """What runs long on the platform: runs of tasks, and redrives of all tenants; changes of partitions are listed by tenant."""
        answer: PageOfJobShape = self._http.send("GET", "jobs", query={"active": active, "after": after, "limit": limit})
        return answer

    def each(self, *, active: bool | None = None) -> Iterator[JobShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(active=active, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def get(self, job_id: str) -> JobShape:
        """A job of the platform, or a redrive of any tenant."""
        answer: JobShape = self._http.send("GET", f"jobs/{segment(job_id)}")
        return answer

    def delete(self, job_id: str, *, idempotency_key: str | None = None, if_match: str | None = None) -> JobShape:
        """Cancel a redrive, or give up a task that failed too often."""
        answer: JobShape = self._http.send("DELETE", f"jobs/{segment(job_id)}", idempotency_key=idempotency_key, if_match=if_match)
        return answer


class Keys:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfKeyShape:
        """Keys of a tenant."""
        answer: PageOfKeyShape = self._http.send("GET", f"tenants/{segment(tenant)}/keys", query={"after": after, "limit": limit})
        return answer

    def each(self, tenant: str) -> Iterator[KeyShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def create(self, tenant: str, body: NewKeyRequest, *, idempotency_key: str | None = None) -> KeyWithToken:
        """Create a key; its token is returned only in this response."""
        answer: KeyWithToken = self._http.send(
            "POST", f"tenants/{segment(tenant)}/keys", body=body, idempotency_key=idempotency_key
        )
        return answer

    def revoke_token(self, tenant: str, body: LeakedTokenRequest, *, idempotency_key: str | None = None) -> KeyShape:
        """Revoke the key of a token that leaked."""
        answer: KeyShape = self._http.send(
            "POST", f"tenants/{segment(tenant)}/keys/revoke-token", body=body, idempotency_key=idempotency_key
        )
        return answer

    def get(self, tenant: str, key_id: str) -> KeyShape:
        """A key."""
        answer: KeyShape = self._http.send("GET", f"tenants/{segment(tenant)}/keys/{segment(key_id)}")
        return answer

    def delete(
        self,
        tenant: str,
        key_id: str,
        *,
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> KeyShape:
        """Revoke a key; its connections are closed."""
        answer: KeyShape = self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}/keys/{segment(key_id)}",
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def rotate(self, tenant: str, key_id: str, body: KeyRotationRequest, *, idempotency_key: str | None = None) -> KeyWithToken:
        """Replace a key by one that can do the same; both are valid for a while. Its token is returned only in this response."""
        answer: KeyWithToken = self._http.send(
            "POST", f"tenants/{segment(tenant)}/keys/{segment(key_id)}/rotate", body=body, idempotency_key=idempotency_key
        )
        return answer


class Made:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, username: str, *, after: str | None = None, limit: int | None = None) -> PageOfMadeShape:
        """What somebody made in a tenant, or changed last, and that is still there; also of who is no member any more."""
        answer: PageOfMadeShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/members/{segment(username)}/made", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str, username: str) -> Iterator[MadeShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, username, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return


class Members:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfMemberShape:
        """Members of a tenant."""
        answer: PageOfMemberShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/members", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str) -> Iterator[MemberShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def set(self, tenant: str, username: str, body: NewMemberRoleRequest, *, idempotency_key: str | None = None) -> MemberShape:
        """Set the role of a member, and where it holds."""
        answer: MemberShape = self._http.send(
            "PUT", f"tenants/{segment(tenant)}/members/{segment(username)}", body=body, idempotency_key=idempotency_key
        )
        return answer

    def delete(self, tenant: str, username: str, *, idempotency_key: str | None = None) -> None:
        """Remove a member."""
        self._http.send("DELETE", f"tenants/{segment(tenant)}/members/{segment(username)}", idempotency_key=idempotency_key)


class Moves:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self, tenant: str, namespace: str, topic: str, subscription: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> PageOfMoveShape:
        """The last moves of a subscription that can be undone, newest first: of 24 hours."""
        answer: PageOfMoveShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/moves",
        )
        return answer

    def undo(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        move: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Outcome:
        """Put a subscription back where it stood before a move; one that was deleted is created again."""
        answer: Outcome = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/moves/{segment(move)}/undo",
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer


class NamespaceHistory:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, namespace: str, *, after: str | None = None, limit: int | None = None) -> PageOfAuditShape:
        """Changes of the policies that are set here, newest first."""
        answer: PageOfAuditShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/policies/history",
            query={"after": after, "limit": limit},
        )
        return answer

    def each(self, tenant: str, namespace: str) -> Iterator[AuditShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, namespace, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return


class NamespacePermissions:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, namespace: str) -> Permissions:
        """Permissions on a namespace."""
        answer: Permissions = self._http.send("GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/permissions")
        return answer

    def set(
        self, tenant: str, namespace: str, role: str, body: PermissionActionsRequest, *, idempotency_key: str | None = None
    ) -> PermissionActions:
        """Set the actions that a role may perform."""
        answer: PermissionActions = self._http.send(
            "PUT",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/permissions/{segment(role)}",
            body=body,
            idempotency_key=idempotency_key,
        )
        return answer

    def delete(
        self, tenant: str, namespace: str, role: str, *, dry_run: bool | None = None, idempotency_key: str | None = None
    ) -> Outcome | None:
        """Revoke all permissions of a role."""
        answer: Outcome | None = self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/permissions/{segment(role)}",
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer


class Namespaces:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfNamespaceShape:
        """Namespaces of a tenant."""
        answer: PageOfNamespaceShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str) -> Iterator[NamespaceShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def create(self, tenant: str, body: NewNamespaceRequest, *, idempotency_key: str | None = None) -> NamespaceShape:
        """Create a namespace."""
        answer: NamespaceShape = self._http.send(
            "POST", f"tenants/{segment(tenant)}/namespaces", body=body, idempotency_key=idempotency_key
        )
        return answer

    def get(self, tenant: str, namespace: str) -> NamespaceShape:
        """A namespace."""
        answer: NamespaceShape = self._http.send("GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}")
        return answer

    def delete(
        self,
        tenant: str,
        namespace: str,
        *,
        dry_run: bool | None = None,
        force: bool | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> Outcome | None:
        """Delete a namespace."""
        answer: Outcome | None = self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}",
            query={"dry_run": dry_run, "force": force},
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def history(
        self,
        tenant: str,
        namespace: str,
        *,
        from_: str | None = None,
        span: Literal["1h", "24h", "30d", "6h", "7d"] | None = None,
        step_seconds: Literal[21600, 300, 3600, 60, 86400, 900] | None = None,
        until: str | None = None,
    ) -> HistoryShape:
        """What all topics of a namespace carried and held, step by step."""
        answer: HistoryShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/history",
            query={"from": from_, "span": span, "step_seconds": step_seconds, "until": until},
        )
        return answer

    def policies(self, tenant: str, namespace: str) -> dict[str, Any]:
        """Policies set on a namespace."""
        answer: dict[str, Any] = self._http.send("GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/policies")
        return answer

    def set_policies(
        self, tenant: str, namespace: str, body: dict[str, Any], *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> dict[str, Any]:
        """Replace all policies; missing ones are inherited."""
        answer: dict[str, Any] = self._http.send(
            "PUT",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/policies",
            body=body,
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def update_policies(
        self, tenant: str, namespace: str, body: dict[str, Any], *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> dict[str, Any]:
        """Set some policies; null removes one, so that it is inherited."""
        answer: dict[str, Any] = self._http.send(
            "PATCH",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/policies",
            body=body,
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def policies_blame(self, tenant: str, namespace: str) -> PolicyBlames:
        """Which change each policy that is set here has its value from."""
        answer: PolicyBlames = self._http.send("GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/policies/blame")
        return answer

    def policies_in_force(self, tenant: str, namespace: str) -> PoliciesInForce:
        """The policies in force for the topics of a namespace."""
        answer: PoliciesInForce = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/policies/in-force"
        )
        return answer

    def policies_preview(
        self, tenant: str, namespace: str, body: dict[str, Any], *, idempotency_key: str | None = None
    ) -> PolicyPreviewAnswer:
        """What a change of policies would do now; nothing is changed."""
        answer: PolicyPreviewAnswer = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/policies/preview",
            body=body,
            idempotency_key=idempotency_key,
        )
        return answer

    def policies_undo(
        self,
        tenant: str,
        namespace: str,
        body: UndoneChangeRequest,
        *,
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Take a change of policies back: sets what was set before it, unless that was changed again since."""
        answer: dict[str, Any] = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/policies/undo",
            body=body,
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer

    def policies_what_if(
        self,
        tenant: str,
        namespace: str,
        body: dict[str, Any],
        *,
        from_: str | None = None,
        span: Literal["1h", "24h", "30d", "6h", "7d"] | None = None,
        step_seconds: Literal[21600, 300, 3600, 60, 86400, 900] | None = None,
        until: str | None = None,
        idempotency_key: str | None = None,
    ) -> PolicyWhatIf:
        """What a change of policies would have done to the traffic of a span; nothing is changed."""
        answer: PolicyWhatIf = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/policies/what-if",
            body=body,
            query={"from": from_, "span": span, "step_seconds": step_seconds, "until": until},
            idempotency_key=idempotency_key,
        )
        return answer


class Notices:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, *, after: str | None = None, limit: int | None = None) -> PageOfNoticeShape:
        """What administrators of the platform were told."""
        answer: PageOfNoticeShape = self._http.send("GET", "notices", query={"after": after, "limit": limit})
        return answer

    def each(self) -> Iterator[NoticeShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return


class Outcomes:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        job: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        after: str | None = None,
        limit: int | None = None,
    ) -> PageOfRedriveOutcomeShape:
        """What became of each entry that matched; a tenant keeps its newest 20,000."""
        answer: PageOfRedriveOutcomeShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/redrives/{segment(job)}/outcomes",
            query={"after": after, "limit": limit},
        )
        return answer

    def each(
        self, tenant: str, namespace: str, topic: str, job: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> Iterator[RedriveOutcomeShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, namespace, topic, job, kind=kind, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return


class Plans:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfPlanAssignmentShape:
        """The price plans of a tenant."""
        answer: PageOfPlanAssignmentShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/billing/plans", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str) -> Iterator[PlanAssignmentShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def create(self, tenant: str, body: NewPlanAssignmentRequest, *, idempotency_key: str | None = None) -> PlanAssignmentShape:
        """Have a tenant pay by a plan from a time on."""
        answer: PlanAssignmentShape = self._http.send(
            "POST", f"tenants/{segment(tenant)}/billing/plans", body=body, idempotency_key=idempotency_key
        )
        return answer


class Platform:
    def __init__(self, http: Http) -> None:
        self._http = http

    def billing_issuer(self) -> IssuerShape:
        """Who sends the invoices."""
        answer: IssuerShape = self._http.send("GET", "billing/issuer")
        return answer

    def set_billing_issuer(
        self, body: NewIssuerRequest, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> IssuerShape:
        """Say who sends the invoices."""
        answer: IssuerShape = self._http.send(
            "PUT", "billing/issuer", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def me(self) -> Me:
        """The caller, and where the broker is."""
        answer: Me = self._http.send("GET", "me")
        return answer

    def notifications(self) -> NotificationsShape:
        """Where notices of the platform are sent."""
        answer: NotificationsShape = self._http.send("GET", "notifications")
        return answer

    def set_notifications(
        self, body: NewNotificationsRequest, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> NotificationsShape:
        """Say where notices of the platform are sent."""
        answer: NotificationsShape = self._http.send(
            "PUT", "notifications", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def tune(self, body: TuneRequest, *, idempotency_key: str | None = None) -> TuneAnswer:
        """Settings for producers by what they send, with reasons, and what they would save; nothing is changed."""
        answer: TuneAnswer = self._http.send("POST", "tune", body=body, idempotency_key=idempotency_key)
        return answer


class PricePlans:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, *, after: str | None = None, limit: int | None = None) -> PageOfPricePlanShape:
        """Versions of price plans."""
        answer: PageOfPricePlanShape = self._http.send("GET", "price-plans", query={"after": after, "limit": limit})
        return answer

    def each(self) -> Iterator[PricePlanShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def create(self, body: NewPricePlanRequest, *, idempotency_key: str | None = None) -> PricePlanShape:
        """Publish a version of a price plan; it can never be changed."""
        answer: PricePlanShape = self._http.send("POST", "price-plans", body=body, idempotency_key=idempotency_key)
        return answer


class RecycleBin:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, namespace: str, *, after: str | None = None, limit: int | None = None) -> PageOfRecycledTopicShape:
        """Deleted topics that can be restored, by time of deletion."""
        answer: PageOfRecycledTopicShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/recycle-bin", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str, namespace: str) -> Iterator[RecycledTopicShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, namespace, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def get(self, tenant: str, namespace: str, recycle_id: str) -> RecycledTopicShape:
        """A deleted topic."""
        answer: RecycledTopicShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/recycle-bin/{segment(recycle_id)}"
        )
        return answer

    def delete(
        self,
        tenant: str,
        namespace: str,
        recycle_id: str,
        *,
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> Outcome | None:
        """Delete a topic for good that is in the recycle bin."""
        answer: Outcome | None = self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/recycle-bin/{segment(recycle_id)}",
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def restore(
        self, tenant: str, namespace: str, recycle_id: str, *, dry_run: bool | None = None, idempotency_key: str | None = None
    ) -> Outcome:
        """Restore a deleted topic with its messages, subscriptions, schema and policies."""
        answer: Outcome = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/recycle-bin/{segment(recycle_id)}/restore",
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer


class RecycledNamespaces:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfRecycledShape:
        """Deleted namespaces that can be restored, by time of deletion."""
        answer: PageOfRecycledShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/recycled-namespaces", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str) -> Iterator[RecycledShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def get(self, tenant: str, recycle_id: str) -> RecycledShape:
        """A deleted namespace."""
        answer: RecycledShape = self._http.send("GET", f"tenants/{segment(tenant)}/recycled-namespaces/{segment(recycle_id)}")
        return answer

    def delete(
        self,
        tenant: str,
        recycle_id: str,
        *,
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> Outcome | None:
        """Delete a namespace for good that is in the recycle bin."""
        answer: Outcome | None = self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}/recycled-namespaces/{segment(recycle_id)}",
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def restore(self, tenant: str, recycle_id: str, *, dry_run: bool | None = None, idempotency_key: str | None = None) -> Outcome:
        """Restore a deleted namespace with its policies, permissions, topics and messages."""
        answer: Outcome = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/recycled-namespaces/{segment(recycle_id)}/restore",
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer


class RecycledTenants:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, *, after: str | None = None, limit: int | None = None) -> PageOfRecycledShape:
        """Deleted tenants that can be restored, by time of deletion."""
        answer: PageOfRecycledShape = self._http.send("GET", "recycled-tenants", query={"after": after, "limit": limit})
        return answer

    def each(self) -> Iterator[RecycledShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def get(self, recycle_id: str) -> RecycledShape:
        """A deleted tenant."""
        answer: RecycledShape = self._http.send("GET", f"recycled-tenants/{segment(recycle_id)}")
        return answer

    def delete(
        self, recycle_id: str, *, dry_run: bool | None = None, idempotency_key: str | None = None, if_match: str | None = None
    ) -> Outcome | None:
        """Delete a tenant for good that is in the recycle bin."""
        answer: Outcome | None = self._http.send(
            "DELETE",
            f"recycled-tenants/{segment(recycle_id)}",
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def restore(self, recycle_id: str, *, dry_run: bool | None = None, idempotency_key: str | None = None) -> Outcome:
        """Restore a deleted tenant with its people, keys, namespaces, topics and messages."""
        answer: Outcome = self._http.send(
            "POST", f"recycled-tenants/{segment(recycle_id)}/restore", query={"dry_run": dry_run}, idempotency_key=idempotency_key
        )
        return answer


class Redrives:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        after: str | None = None,
        limit: int | None = None,
    ) -> PageOfRedriveShape:
        """Redrives of a topic."""
        answer: PageOfRedriveShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/redrives",
            query={"after": after, "limit": limit},
        )
        return answer

    def each(
        self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> Iterator[RedriveShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, namespace, topic, kind=kind, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def create(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        body: NewRedriveRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> RedriveShape:
        """Move messages of a topic, such as dead letters, to another topic."""
        answer: RedriveShape = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/redrives",
            body=body,
            idempotency_key=idempotency_key,
        )
        return answer

    def dry_run(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        body: NewRedriveRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> RedriveDryRun:
        """What a redrive would move now; changes nothing."""
        answer: RedriveDryRun = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/redrives/dry-run",
            body=body,
            idempotency_key=idempotency_key,
        )
        return answer

    def get(
        self, tenant: str, namespace: str, topic: str, job: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> RedriveShape:
        """A redrive."""
        answer: RedriveShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/redrives/{segment(job)}",
        )
        return answer

    def delete(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        job: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> RedriveShape:
        """Cancel a redrive; what was moved stays moved."""
        answer: RedriveShape = self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/redrives/{segment(job)}",
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def pause(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        job: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> RedriveShape:
        """Pause a redrive."""
        answer: RedriveShape = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/redrives/{segment(job)}/pause",
            idempotency_key=idempotency_key,
        )
        return answer

    def resume(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        job: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> RedriveShape:
        """Resume a redrive that was paused, or that failed."""
        answer: RedriveShape = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/redrives/{segment(job)}/resume",
            idempotency_key=idempotency_key,
        )
        return answer


class ReportSchedules:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfReportScheduleShape:
        """Reports on schedule of a tenant."""
        answer: PageOfReportScheduleShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/report-schedules", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str) -> Iterator[ReportScheduleShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def create(self, tenant: str, body: NewReportScheduleRequest, *, idempotency_key: str | None = None) -> ReportScheduleShape:
        """Put a report on schedule."""
        answer: ReportScheduleShape = self._http.send(
            "POST", f"tenants/{segment(tenant)}/report-schedules", body=body, idempotency_key=idempotency_key
        )
        return answer

    def get(self, tenant: str, schedule: str) -> ReportScheduleShape:
        """A report on schedule."""
        answer: ReportScheduleShape = self._http.send("GET", f"tenants/{segment(tenant)}/report-schedules/{segment(schedule)}")
        return answer

    def update(
        self,
        tenant: str,
        schedule: str,
        body: PatchedReportScheduleChangeRequest,
        *,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> ReportScheduleShape:
        """Change a report on schedule, from the next one on."""
        answer: ReportScheduleShape = self._http.send(
            "PATCH",
            f"tenants/{segment(tenant)}/report-schedules/{segment(schedule)}",
            body=body,
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def delete(self, tenant: str, schedule: str, *, idempotency_key: str | None = None, if_match: str | None = None) -> None:
        """Make a report no more; those that were made stay."""
        self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}/report-schedules/{segment(schedule)}",
            idempotency_key=idempotency_key,
            if_match=if_match,
        )


class Reports:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfReportShape:
        """Reports that were made."""
        answer: PageOfReportShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/reports", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str) -> Iterator[ReportShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def get(self, tenant: str, report: str) -> ReportShape:
        """A report that was made."""
        answer: ReportShape = self._http.send("GET", f"tenants/{segment(tenant)}/reports/{segment(report)}")
        return answer


class Roles:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfRoleShape:
        """Roles that members of a tenant can have."""
        answer: PageOfRoleShape = self._http.send("GET", f"tenants/{segment(tenant)}/roles", query={"after": after, "limit": limit})
        return answer

    def each(self, tenant: str) -> Iterator[RoleShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def get(self, tenant: str, role: str) -> RoleShape:
        """A role."""
        answer: RoleShape = self._http.send("GET", f"tenants/{segment(tenant)}/roles/{segment(role)}")
        return answer

    def set(
        self, tenant: str, role: str, body: NewRoleRequest, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> RoleShape:
        """Define a role of the tenant's own, or change it for everybody who has it."""
        answer: RoleShape = self._http.send(
            "PUT", f"tenants/{segment(tenant)}/roles/{segment(role)}", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def delete(self, tenant: str, role: str, *, idempotency_key: str | None = None, if_match: str | None = None) -> None:
        """Delete a role that nobody has."""
        self._http.send(
            "DELETE", f"tenants/{segment(tenant)}/roles/{segment(role)}", idempotency_key=idempotency_key, if_match=if_match
        )


class Savings:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str) -> PageOfSavingShape:
        """What would lower a bill, the dearest first: what nobody reads, and what retention keeps of what all have read."""
        answer: PageOfSavingShape = self._http.send("GET", f"tenants/{segment(tenant)}/savings")
        return answer


class Schemas:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        after: str | None = None,
        limit: int | None = None,
    ) -> PageOfSchemaShape:
        """Versions of the schema of a topic, oldest first."""
        answer: PageOfSchemaShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/schemas",
            query={"after": after, "limit": limit},
        )
        return answer

    def each(
        self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> Iterator[SchemaShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, namespace, topic, kind=kind, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def create(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        body: NewSchemaRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> SchemaVersionShape:
        """Add a version; the same schema again is the version that it has."""
        answer: SchemaVersionShape = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/schemas",
            body=body,
            idempotency_key=idempotency_key,
        )
        return answer

    def delete(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        dry_run: bool | None = None,
        force: bool | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> Outcome | None:
        """Delete the schema of a topic; force: with all its versions."""
        answer: Outcome | None = self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/schemas",
            query={"dry_run": dry_run, "force": force},
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def check(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        body: NewSchemaRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> SchemaVerdict:
        """Whether a schema could become the next version; nothing is changed."""
        answer: SchemaVerdict = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/schemas/check",
            body=body,
            idempotency_key=idempotency_key,
        )
        return answer

    def get(
        self, tenant: str, namespace: str, topic: str, version: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> SchemaShape:
        """A version of the schema of a topic: its number, or latest."""
        answer: SchemaShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/schemas/{segment(version)}",
        )
        return answer


class Sessions:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, *, after: str | None = None, limit: int | None = None) -> PageOfSessionShape:
        """Where the caller is signed in; none for a key."""
        answer: PageOfSessionShape = self._http.send("GET", "me/sessions", query={"after": after, "limit": limit})
        return answer

    def each(self) -> Iterator[SessionShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def delete_all(self, *, idempotency_key: str | None = None, if_match: str | None = None) -> None:
        """Sign the caller out everywhere, here too."""
        self._http.send("DELETE", "me/sessions", idempotency_key=idempotency_key, if_match=if_match)

    def delete(self, session: str, *, idempotency_key: str | None = None) -> None:
        """Sign the caller out in one place."""
        self._http.send("DELETE", f"me/sessions/{segment(session)}", idempotency_key=idempotency_key)


class SubscriptionHistory:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        after: str | None = None,
        limit: int | None = None,
    ) -> PageOfAuditShape:
        """Changes of the policies that are set here, newest first."""
        answer: PageOfAuditShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/policies/history",
            query={"after": after, "limit": limit},
        )
        return answer

    def each(
        self, tenant: str, namespace: str, topic: str, subscription: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> Iterator[AuditShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, namespace, topic, subscription, kind=kind, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return


class SubscriptionMessages:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        after: str | None = None,
        limit: int | None = None,
    ) -> PageOfMessageShape:
        """The first messages that a subscription has not acknowledged, without delivering them; not of a partitioned topic."""
        answer: PageOfMessageShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/messages",
            query={"after": after, "limit": limit},
        )
        return answer

    def each(
        self, tenant: str, namespace: str, topic: str, subscription: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> Iterator[MessageShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, namespace, topic, subscription, kind=kind, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return


class Subscriptions:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        after: str | None = None,
        limit: int | None = None,
    ) -> PageOfSubscriptionShape:
        """Subscriptions of a topic."""
        answer: PageOfSubscriptionShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions",
            query={"after": after, "limit": limit},
        )
        return answer

    def each(
        self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> Iterator[SubscriptionShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, namespace, topic, kind=kind, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def create(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        body: NewSubscriptionRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> Outcome:
        """Create a subscription."""
        answer: Outcome = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions",
            body=body,
            idempotency_key=idempotency_key,
        )
        return answer

    def get(
        self, tenant: str, namespace: str, topic: str, subscription: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> SubscriptionShape:
        """A subscription."""
        answer: SubscriptionShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}",
        )
        return answer

    def delete(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        dry_run: bool | None = None,
        force: bool | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> Outcome | None:
        """Delete a subscription."""
        answer: Outcome | None = self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}",
            query={"dry_run": dry_run, "force": force},
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def backlog(
        self, tenant: str, namespace: str, topic: str, subscription: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> BacklogShape:
        """What a subscription has not acknowledged, counted; not of a partitioned topic."""
        answer: BacklogShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/backlog",
        )
        return answer

    def clear(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Outcome:
        """Acknowledge everything in the backlog."""
        answer: Outcome = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/clear",
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer

    def dead_letter_policy(
        self, tenant: str, namespace: str, topic: str, subscription: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> DeadLetterPolicyAnswer:
        """The dead-letter policy of a subscription."""
        answer: DeadLetterPolicyAnswer = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/dead-letter-policy",
        )
        return answer

    def set_dead_letter_policy(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        body: NewDeadLetterPolicyRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> DeadLetterPolicyAnswer:
        """Set the dead-letter policy: messages that are redelivered too often move to another topic."""
        answer: DeadLetterPolicyAnswer = self._http.send(
            "PUT",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/dead-letter-policy",
            body=body,
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def delete_dead_letter_policy(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> None:
        """Remove the dead-letter policy; what waits to be moved is delivered again."""
        self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/dead-letter-policy",
            idempotency_key=idempotency_key,
            if_match=if_match,
        )

    def expire(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        body: ExpireRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Outcome:
        """Acknowledge messages that are older, or up to one."""
        answer: Outcome = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/expire",
            body=body,
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer

    def explain(
        self, tenant: str, namespace: str, topic: str, subscription: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> SubscriptionExplained:
        """What keeps a subscription from being sent messages now."""
        answer: SubscriptionExplained = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/explain",
        )
        return answer

    def history(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        from_: str | None = None,
        span: Literal["1h", "24h", "30d", "6h", "7d"] | None = None,
        step_seconds: Literal[21600, 300, 3600, 60, 86400, 900] | None = None,
        until: str | None = None,
    ) -> HistoryShape:
        """What a subscription was sent and had to acknowledge, step by step."""
        answer: HistoryShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/history",
            query={"from": from_, "span": span, "step_seconds": step_seconds, "until": until},
        )
        return answer

    def policies(
        self, tenant: str, namespace: str, topic: str, subscription: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> dict[str, Any]:
        """Policies set on a topic."""
        answer: dict[str, Any] = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/policies",
        )
        return answer

    def set_policies(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        body: dict[str, Any],
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> dict[str, Any]:
        """Replace all policies of a topic; missing ones are inherited."""
        answer: dict[str, Any] = self._http.send(
            "PUT",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/policies",
            body=body,
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def update_policies(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        body: dict[str, Any],
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> dict[str, Any]:
        """Set some policies of a topic; null removes one, so that it is inherited."""
        answer: dict[str, Any] = self._http.send(
            "PATCH",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/policies",
            body=body,
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def policies_blame(
        self, tenant: str, namespace: str, topic: str, subscription: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> PolicyBlames:
        """Which change each policy that is set here has its value from."""
        answer: PolicyBlames = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/policies/blame",
        )
        return answer

    def policies_in_force(
        self, tenant: str, namespace: str, topic: str, subscription: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> PoliciesInForce:
        """The policies in force for a topic."""
        answer: PoliciesInForce = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/policies/in-force",
        )
        return answer

    def policies_preview(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        body: dict[str, Any],
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> PolicyPreviewAnswer:
        """What a change of a topic's policies would do now; nothing is changed."""
        answer: PolicyPreviewAnswer = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/policies/preview",
            body=body,
            idempotency_key=idempotency_key,
        )
        return answer

    def policies_undo(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        body: UndoneChangeRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Take a change of policies back: sets what was set before it, unless that was changed again since."""
        answer: dict[str, Any] = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/policies/undo",
            body=body,
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer

    def policies_what_if(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        body: dict[str, Any],
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        from_: str | None = None,
        span: Literal["1h", "24h", "30d", "6h", "7d"] | None = None,
        step_seconds: Literal[21600, 300, 3600, 60, 86400, 900] | None = None,
        until: str | None = None,
        idempotency_key: str | None = None,
    ) -> PolicyWhatIf:
        """What a change of policies would have done to the traffic of a span; nothing is changed."""
        answer: PolicyWhatIf = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/policies/what-if",
            body=body,
            query={"from": from_, "span": span, "step_seconds": step_seconds, "until": until},
            idempotency_key=idempotency_key,
        )
        return answer

    def properties(
        self, tenant: str, namespace: str, topic: str, subscription: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> NewProperties:
        """Properties of a subscription."""
        answer: NewProperties = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/properties",
        )
        return answer

    def set_properties(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        body: NewPropertiesRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> NewProperties:
        """Replace the properties of a subscription."""
        answer: NewProperties = self._http.send(
            "PUT",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/properties",
            body=body,
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def reset(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        body: ResetRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Outcome:
        """Move a subscription to a message or a time."""
        answer: Outcome = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/reset",
            body=body,
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer

    def skip(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        subscription: str,
        body: SkipRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Outcome:
        """Acknowledge the next entries of the backlog; not of a partitioned topic."""
        answer: Outcome = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/subscriptions/{segment(subscription)}/skip",
            body=body,
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer


class TaskRuns:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self, *, after: str | None = None, limit: int | None = None, outcome: str | None = None, task: str | None = None
    ) -> PageOfTaskRunShape:
        """Runs of tasks, by id."""
        answer: PageOfTaskRunShape = self._http.send(
            "GET", "task-runs", query={"after": after, "limit": limit, "outcome": outcome, "task": task}
        )
        return answer

    def each(self, *, outcome: str | None = None, task: str | None = None) -> Iterator[TaskRunShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(outcome=outcome, task=task, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def get(self, run_id: str) -> TaskRunShape:
        """A run of a task."""
        answer: TaskRunShape = self._http.send("GET", f"task-runs/{segment(run_id)}")
        return answer

    def delete(self, run_id: str, *, idempotency_key: str | None = None, if_match: str | None = None) -> TaskRunShape:
        """Give up a quarantined run."""
        answer: TaskRunShape = self._http.send(
            "DELETE", f"task-runs/{segment(run_id)}", idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def requeue(self, run_id: str, *, idempotency_key: str | None = None) -> TaskRunShape:
        """Try a quarantined run again."""
        answer: TaskRunShape = self._http.send("POST", f"task-runs/{segment(run_id)}/requeue", idempotency_key=idempotency_key)
        return answer


class Tasks:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self) -> PageOfTaskShape:
        """The tasks that workers run, and when each ran last."""
        answer: PageOfTaskShape = self._http.send("GET", "tasks")
        return answer


class TeamMembers:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, team: str, *, after: str | None = None, limit: int | None = None) -> PageOfTeamMemberShape:
        """Members of a team."""
        answer: PageOfTeamMemberShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/teams/{segment(team)}/members", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str, team: str) -> Iterator[TeamMemberShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, team, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def set(self, tenant: str, team: str, username: str, *, idempotency_key: str | None = None) -> TeamMemberShape:
        """Add a member of the tenant to a team."""
        answer: TeamMemberShape = self._http.send(
            "PUT", f"tenants/{segment(tenant)}/teams/{segment(team)}/members/{segment(username)}", idempotency_key=idempotency_key
        )
        return answer

    def delete(self, tenant: str, team: str, username: str, *, idempotency_key: str | None = None) -> None:
        """Remove somebody from a team."""
        self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}/teams/{segment(team)}/members/{segment(username)}",
            idempotency_key=idempotency_key,
        )


class Teams:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfTeamShape:
        """Teams of a tenant."""
        answer: PageOfTeamShape = self._http.send("GET", f"tenants/{segment(tenant)}/teams", query={"after": after, "limit": limit})
        return answer

    def each(self, tenant: str) -> Iterator[TeamShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def get(self, tenant: str, team: str) -> TeamShape:
        """A team."""
        answer: TeamShape = self._http.send("GET", f"tenants/{segment(tenant)}/teams/{segment(team)}")
        return answer

    def set(
        self, tenant: str, team: str, body: NewTeamRequest, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> TeamShape:
        """Create a team, or change what all its members may do."""
        answer: TeamShape = self._http.send(
            "PUT", f"tenants/{segment(tenant)}/teams/{segment(team)}", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def delete(self, tenant: str, team: str, *, idempotency_key: str | None = None, if_match: str | None = None) -> None:
        """Delete a team; its members lose what they have through it."""
        self._http.send(
            "DELETE", f"tenants/{segment(tenant)}/teams/{segment(team)}", idempotency_key=idempotency_key, if_match=if_match
        )


class TenantAudit:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        tenant: str,
        *,
        action: str | None = None,
        address: str | None = None,
        after: str | None = None,
        key_id: str | None = None,
        limit: int | None = None,
        request_id: str | None = None,
        resource: str | None = None,
        role: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> PageOfAuditShape:
        """Audit log of a tenant, newest first."""
        answer: PageOfAuditShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/audit",
            query={
                "action": action,
                "address": address,
                "after": after,
                "key_id": key_id,
                "limit": limit,
                "request_id": request_id,
                "resource": resource,
                "role": role,
                "since": since,
                "until": until,
            },
        )
        return answer

    def each(
        self,
        tenant: str,
        *,
        action: str | None = None,
        address: str | None = None,
        key_id: str | None = None,
        request_id: str | None = None,
        resource: str | None = None,
        role: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> Iterator[AuditShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(
                tenant,
                action=action,
                address=address,
                key_id=key_id,
                request_id=request_id,
                resource=resource,
                role=role,
                since=since,
                until=until,
                after=after,
                limit=1000,
            )
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def export(
        self,
        tenant: str,
        *,
        action: str | None = None,
        address: str | None = None,
        format: Literal["csv", "jsonl"] | None = None,
        key_id: str | None = None,
        request_id: str | None = None,
        resource: str | None = None,
        role: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> bytes:
        """Audit log of a tenant as a file, oldest first: for `magnetar audit verify --export`."""
        answer: bytes = self._http.read(
            "GET",
            f"tenants/{segment(tenant)}/audit/export",
            query={
                "action": action,
                "address": address,
                "format": format,
                "key_id": key_id,
                "request_id": request_id,
                "resource": resource,
                "role": role,
                "since": since,
                "until": until,
            },
        )
        return answer

    def stream(self, tenant: str) -> AuditStreamShape:
        """Where the audit log of a tenant is streamed to, and how far that is."""
        answer: AuditStreamShape = self._http.send("GET", f"tenants/{segment(tenant)}/audit/stream")
        return answer

    def set_stream(
        self, tenant: str, body: NewAuditStreamRequest, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> AuditStreamShape:
        """Stream the audit log of a tenant to a webhook, or to one of its topics."""
        answer: AuditStreamShape = self._http.send(
            "PUT", f"tenants/{segment(tenant)}/audit/stream", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def delete_stream(self, tenant: str, *, idempotency_key: str | None = None, if_match: str | None = None) -> None:
        """Stop streaming the audit log of a tenant."""
        self._http.send("DELETE", f"tenants/{segment(tenant)}/audit/stream", idempotency_key=idempotency_key, if_match=if_match)


class TenantHistory:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfAuditShape:
        """Changes of the policies that are set here, newest first."""
        answer: PageOfAuditShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/policies/history", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str) -> Iterator[AuditShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return


class TenantJobs:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self, tenant: str, *, active: bool | None = None, after: str | None = None, limit: int | None = None
    ) -> PageOfJobShape:
        """What runs long for a tenant: redrives, for whom may see those, and changes of many partitions; by id."""
        answer: PageOfJobShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/jobs", query={"active": active, "after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str, *, active: bool | None = None) -> Iterator[JobShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, active=active, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def get(self, tenant: str, job_id: str) -> JobShape:
        """A job of a tenant."""
        answer: JobShape = self._http.send("GET", f"tenants/{segment(tenant)}/jobs/{segment(job_id)}")
        return answer

    def delete(self, tenant: str, job_id: str, *, idempotency_key: str | None = None, if_match: str | None = None) -> JobShape:
        """Cancel a job of a tenant, where that is possible; what was done stays done."""
        answer: JobShape = self._http.send(
            "DELETE", f"tenants/{segment(tenant)}/jobs/{segment(job_id)}", idempotency_key=idempotency_key, if_match=if_match
        )
        return answer


class TenantNotices:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, *, after: str | None = None, limit: int | None = None) -> PageOfNoticeShape:
        """What a tenant was told: alerts, and keys that expire soon."""
        answer: PageOfNoticeShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/notices", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str) -> Iterator[NoticeShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def replays(self, tenant: str, body: NoticesReplayRequest, *, idempotency_key: str | None = None) -> ReplayedNotices:
        """Send the notices of a time to the webhook again."""
        answer: ReplayedNotices = self._http.send(
            "POST", f"tenants/{segment(tenant)}/notices/replays", body=body, idempotency_key=idempotency_key
        )
        return answer

    def replay(self, tenant: str, notice: str, *, idempotency_key: str | None = None) -> NoticeShape:
        """Send a notice to the webhook again."""
        answer: NoticeShape = self._http.send(
            "POST", f"tenants/{segment(tenant)}/notices/{segment(notice)}/replay", idempotency_key=idempotency_key
        )
        return answer


class Tenants:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, *, after: str | None = None, limit: int | None = None) -> PageOfTenantShape:
        """Tenants that the caller may see."""
        answer: PageOfTenantShape = self._http.send("GET", "tenants", query={"after": after, "limit": limit})
        return answer

    def each(self) -> Iterator[TenantShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def create(self, body: NewTenantRequest, *, idempotency_key: str | None = None) -> TenantShape:
        """Create a tenant."""
        answer: TenantShape = self._http.send("POST", "tenants", body=body, idempotency_key=idempotency_key)
        return answer

    def get(self, tenant: str) -> TenantShape:
        """A tenant."""
        answer: TenantShape = self._http.send("GET", f"tenants/{segment(tenant)}")
        return answer

    def update(
        self, tenant: str, body: PatchedTenantChangeRequest, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> TenantShape:
        """Change a tenant."""
        answer: TenantShape = self._http.send(
            "PATCH", f"tenants/{segment(tenant)}", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def delete(
        self,
        tenant: str,
        *,
        dry_run: bool | None = None,
        force: bool | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> Outcome | None:
        """Delete a tenant."""
        answer: Outcome | None = self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}",
            query={"dry_run": dry_run, "force": force},
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def access(
        self,
        tenant: str,
        *,
        action: str | None = None,
        key_id: str | None = None,
        namespace: str | None = None,
        role: str | None = None,
        subscription: str | None = None,
        topic: str | None = None,
    ) -> AccessShape:
        """Why a role or key may do something, and who else may."""
        answer: AccessShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/access",
            query={
                "action": action,
                "key_id": key_id,
                "namespace": namespace,
                "role": role,
                "subscription": subscription,
                "topic": topic,
            },
        )
        return answer

    def billing(self, tenant: str) -> BillingShape:
        """Who pays for a tenant."""
        answer: BillingShape = self._http.send("GET", f"tenants/{segment(tenant)}/billing")
        return answer

    def update_billing(
        self, tenant: str, body: PatchedBillingChangeRequest, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> BillingShape:
        """Change who pays for a tenant."""
        answer: BillingShape = self._http.send(
            "PATCH", f"tenants/{segment(tenant)}/billing", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def billing_drafts(self, tenant: str) -> DraftRun:
        """When drafts were computed last, and whether they are being computed."""
        answer: DraftRun = self._http.send("GET", f"tenants/{segment(tenant)}/billing/drafts")
        return answer

    def start_billing_drafts(self, tenant: str, *, idempotency_key: str | None = None) -> DraftRun:
        """Have drafts computed now; one computation at a time."""
        answer: DraftRun = self._http.send("POST", f"tenants/{segment(tenant)}/billing/drafts", idempotency_key=idempotency_key)
        return answer

    def ceilings(self, tenant: str) -> CeilingsShape:
        """What a tenant may have in all, and what it uses of it."""
        answer: CeilingsShape = self._http.send("GET", f"tenants/{segment(tenant)}/ceilings")
        return answer

    def update_ceilings(
        self, tenant: str, body: dict[str, Any], *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> CeilingsSet:
        """Set some ceilings of a tenant; null removes one."""
        answer: CeilingsSet = self._http.send(
            "PATCH", f"tenants/{segment(tenant)}/ceilings", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def changes(self, tenant: str) -> ChangesShape:
        """Changes of many partitions that are under way, and long ones that ended since the broker's start."""
        answer: ChangesShape = self._http.send("GET", f"tenants/{segment(tenant)}/changes")
        return answer

    def clients(
        self,
        tenant: str,
        *,
        descending: bool | None = None,
        limit: int | None = None,
        order: Literal["address", "client", "connected_ms", "consumers", "producers", "role"] | None = None,
        q: str | None = None,
    ) -> ConnectedClients:
        """Clients that are connected with a key of the tenant, or have something open in it, over all brokers."""
        answer: ConnectedClients = self._http.send(
            "GET", f"tenants/{segment(tenant)}/clients", query={"descending": descending, "limit": limit, "order": order, "q": q}
        )
        return answer

    def costs(
        self,
        tenant: str,
        *,
        by: str | None = None,
        first: str | None = None,
        last: str | None = None,
        step: Literal["day", "month"] | None = None,
    ) -> CostsShape:
        """What a tenant's usage cost."""
        answer: CostsShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/costs", query={"by": by, "first": first, "last": last, "step": step}
        )
        return answer

    def estimate(self, tenant: str, *, namespace: str | None = None) -> ForecastShape:
        """What the running month has cost and is likely to cost, with bounds."""
        answer: ForecastShape = self._http.send("GET", f"tenants/{segment(tenant)}/estimate", query={"namespace": namespace})
        return answer

    def history(
        self,
        tenant: str,
        *,
        from_: str | None = None,
        span: Literal["1h", "24h", "30d", "6h", "7d"] | None = None,
        step_seconds: Literal[21600, 300, 3600, 60, 86400, 900] | None = None,
        until: str | None = None,
    ) -> HistoryShape:
        """What all topics of a tenant carried and held, step by step."""
        answer: HistoryShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/history",
            query={"from": from_, "span": span, "step_seconds": step_seconds, "until": until},
        )
        return answer

    def labels(self, tenant: str) -> LabelsShape:
        """Labels of a tenant: what its costs can be summed by."""
        answer: LabelsShape = self._http.send("GET", f"tenants/{segment(tenant)}/labels")
        return answer

    def set_labels(
        self, tenant: str, body: LabelsShapeRequest, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> LabelsShape:
        """Set all labels of a tenant; they count for this month (UTC) and from then on."""
        answer: LabelsShape = self._http.send(
            "PUT", f"tenants/{segment(tenant)}/labels", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def language(self, tenant: str) -> LanguageShape:
        """The language of a tenant."""
        answer: LanguageShape = self._http.send("GET", f"tenants/{segment(tenant)}/language")
        return answer

    def set_language(
        self, tenant: str, body: LanguageShapeRequest, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> LanguageShape:
        """Set the language in which a tenant is sent mails, notices and invoices."""
        answer: LanguageShape = self._http.send(
            "PUT", f"tenants/{segment(tenant)}/language", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def masked_fields(self, tenant: str) -> MaskedFields:
        """What is masked in all namespaces of a tenant that do not say it themselves."""
        answer: MaskedFields = self._http.send("GET", f"tenants/{segment(tenant)}/masked-fields")
        return answer

    def set_masked_fields(
        self, tenant: str, body: MaskedFieldsRequest, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> MaskedFields:
        """Set what is masked in all namespaces of a tenant that do not say it themselves; empty: nothing."""
        answer: MaskedFields = self._http.send(
            "PUT", f"tenants/{segment(tenant)}/masked-fields", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def notifications(self, tenant: str) -> NotificationsShape:
        """Where notices of a tenant are sent."""
        answer: NotificationsShape = self._http.send("GET", f"tenants/{segment(tenant)}/notifications")
        return answer

    def set_notifications(
        self, tenant: str, body: NewNotificationsRequest, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> NotificationsShape:
        """Say where notices are sent."""
        answer: NotificationsShape = self._http.send(
            "PUT", f"tenants/{segment(tenant)}/notifications", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def notifications_test(self, tenant: str, *, idempotency_key: str | None = None) -> NoticeShape:
        """Send a test notice to everywhere where notices go; how it went is in the notice."""
        answer: NoticeShape = self._http.send(
            "POST", f"tenants/{segment(tenant)}/notifications/test", idempotency_key=idempotency_key
        )
        return answer

    def policies(self, tenant: str) -> dict[str, Any]:
        """Policies set on a tenant, for all its namespaces."""
        answer: dict[str, Any] = self._http.send("GET", f"tenants/{segment(tenant)}/policies")
        return answer

    def set_policies(
        self, tenant: str, body: dict[str, Any], *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> dict[str, Any]:
        """Replace all policies of a tenant; missing ones are the broker's."""
        answer: dict[str, Any] = self._http.send(
            "PUT", f"tenants/{segment(tenant)}/policies", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def update_policies(
        self, tenant: str, body: dict[str, Any], *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> dict[str, Any]:
        """Set some policies of a tenant; null removes one."""
        answer: dict[str, Any] = self._http.send(
            "PATCH", f"tenants/{segment(tenant)}/policies", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def policies_blame(self, tenant: str) -> PolicyBlames:
        """Which change each policy that is set here has its value from."""
        answer: PolicyBlames = self._http.send("GET", f"tenants/{segment(tenant)}/policies/blame")
        return answer

    def policies_in_force(self, tenant: str) -> PoliciesInForce:
        """The policies in force for a tenant."""
        answer: PoliciesInForce = self._http.send("GET", f"tenants/{segment(tenant)}/policies/in-force")
        return answer

    def policies_preview(self, tenant: str, body: dict[str, Any], *, idempotency_key: str | None = None) -> PolicyPreviewAnswer:
        """What a change of a tenant's policies would do now; nothing is changed."""
        answer: PolicyPreviewAnswer = self._http.send(
            "POST", f"tenants/{segment(tenant)}/policies/preview", body=body, idempotency_key=idempotency_key
        )
        return answer

    def policies_undo(
        self, tenant: str, body: UndoneChangeRequest, *, dry_run: bool | None = None, idempotency_key: str | None = None
    ) -> dict[str, Any]:
        """Take a change of policies back: sets what was set before it, unless that was changed again since."""
        answer: dict[str, Any] = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/policies/undo",
            body=body,
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer

    def policies_what_if(
        self,
        tenant: str,
        body: dict[str, Any],
        *,
        from_: str | None = None,
        span: Literal["1h", "24h", "30d", "6h", "7d"] | None = None,
        step_seconds: Literal[21600, 300, 3600, 60, 86400, 900] | None = None,
        until: str | None = None,
        idempotency_key: str | None = None,
    ) -> PolicyWhatIf:
        """What a change of policies would have done to the traffic of a span; nothing is changed."""
        answer: PolicyWhatIf = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/policies/what-if",
            body=body,
            query={"from": from_, "span": span, "step_seconds": step_seconds, "until": until},
            idempotency_key=idempotency_key,
        )
        return answer

    def readers(
        self, tenant: str, *, days: int | None = None, namespace: str | None = None, topic: str | None = None
    ) -> ReadersReport:
        """Who may read messages of a tenant, a namespace or a topic now, and who did by the audit log."""
        answer: ReadersReport = self._http.send(
            "GET", f"tenants/{segment(tenant)}/readers", query={"days": days, "namespace": namespace, "topic": topic}
        )
        return answer

    def sign_in(self, tenant: str) -> SignInRules:
        """What a tenant asks of people who sign in."""
        answer: SignInRules = self._http.send("GET", f"tenants/{segment(tenant)}/sign-in")
        return answer

    def set_sign_in(
        self, tenant: str, body: SignInRulesRequest, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> SignInRules:
        """Set what a tenant asks of people who sign in."""
        answer: SignInRules = self._http.send(
            "PUT", f"tenants/{segment(tenant)}/sign-in", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def spend_caps(self, tenant: str) -> SpendCapsShape:
        """What a tenant has spent this month, and its spend caps."""
        answer: SpendCapsShape = self._http.send("GET", f"tenants/{segment(tenant)}/spend-caps")
        return answer

    def spend_caps_platform(self, tenant: str) -> SpendCapShape:
        """The spend cap that the platform has given a tenant."""
        answer: SpendCapShape = self._http.send("GET", f"tenants/{segment(tenant)}/spend-caps/platform")
        return answer

    def set_spend_caps_platform(
        self, tenant: str, body: NewSpendCapRequest, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> SpendCapShape:
        """Set the spend cap that the platform gives a tenant."""
        answer: SpendCapShape = self._http.send(
            "PUT", f"tenants/{segment(tenant)}/spend-caps/platform", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def delete_spend_caps_platform(self, tenant: str, *, idempotency_key: str | None = None, if_match: str | None = None) -> None:
        """Remove the spend cap that the platform has given a tenant."""
        self._http.send(
            "DELETE", f"tenants/{segment(tenant)}/spend-caps/platform", idempotency_key=idempotency_key, if_match=if_match
        )

    def spend_caps_tenant(self, tenant: str) -> SpendCapShape:
        """The spend cap that a tenant has given itself."""
        answer: SpendCapShape = self._http.send("GET", f"tenants/{segment(tenant)}/spend-caps/tenant")
        return answer

    def set_spend_caps_tenant(
        self, tenant: str, body: NewSpendCapRequest, *, idempotency_key: str | None = None, if_match: str | None = None
    ) -> SpendCapShape:
        """Set the spend cap that a tenant gives itself."""
        answer: SpendCapShape = self._http.send(
            "PUT", f"tenants/{segment(tenant)}/spend-caps/tenant", body=body, idempotency_key=idempotency_key, if_match=if_match
        )
        return answer

    def delete_spend_caps_tenant(self, tenant: str, *, idempotency_key: str | None = None, if_match: str | None = None) -> None:
        """Remove the spend cap that a tenant has given itself."""
        self._http.send(
            "DELETE", f"tenants/{segment(tenant)}/spend-caps/tenant", idempotency_key=idempotency_key, if_match=if_match
        )

    def usage_days(
        self,
        tenant: str,
        *,
        by: Literal["namespace", "tenant", "topic"] | None = None,
        first: str | None = None,
        format: Literal["csv", "jsonl"] | None = None,
        last: str | None = None,
    ) -> bytes:
        """Usage of each day as lines of text, in the exact quantities that invoices are made of."""
        answer: bytes = self._http.read(
            "GET", f"tenants/{segment(tenant)}/usage/days", query={"by": by, "first": first, "format": format, "last": last}
        )
        return answer

    def usage_parquet(self, tenant: str, *, first: str | None = None, last: str | None = None) -> bytes:
        """Hourly usage as Parquet, for spreadsheets and for `magnetar usage verify`."""
        answer: bytes = self._http.read("GET", f"tenants/{segment(tenant)}/usage/parquet", query={"first": first, "last": last})
        return answer

    def what_if(self, tenant: str, *, namespace: str | None = None, retention_days: int | None = None) -> WhatIfShape:
        """What the last 28 days would have cost with another retention."""
        answer: WhatIfShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/what-if", query={"namespace": namespace, "retention_days": retention_days}
        )
        return answer


class TopicHistory:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        after: str | None = None,
        limit: int | None = None,
    ) -> PageOfAuditShape:
        """Changes of the policies that are set here, newest first."""
        answer: PageOfAuditShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/policies/history",
            query={"after": after, "limit": limit},
        )
        return answer

    def each(
        self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> Iterator[AuditShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, namespace, topic, kind=kind, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return


class TopicMessages:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        after: str | None = None,
        limit: int | None = None,
    ) -> PageOfMessageShape:
        """Stored messages of a topic, oldest first; of a plain topic or a partition."""
        answer: PageOfMessageShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/messages",
            query={"after": after, "limit": limit},
        )
        return answer

    def each(
        self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> Iterator[MessageShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, namespace, topic, kind=kind, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def create(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        body: NewMessagesRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> PublishedShape:
        """Publish messages."""
        answer: PublishedShape = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/messages",
            body=body,
            idempotency_key=idempotency_key,
        )
        return answer

    def get(
        self, tenant: str, namespace: str, topic: str, message_id: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> MessageShape:
        """A stored message, by its id."""
        answer: MessageShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/messages/{segment(message_id)}",
        )
        return answer

    def trace(
        self, tenant: str, namespace: str, topic: str, message_id: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> MessageTraced:
        """What became of a message, by its id: ledger:entry."""
        answer: MessageTraced = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/messages/{segment(message_id)}/trace",
        )
        return answer


class TopicPermissions:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics") -> Permissions:
        """Permissions on a topic alone; those of its namespace hold beside them."""
        answer: Permissions = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/permissions"
        )
        return answer

    def set(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        role: str,
        body: PermissionActionsRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> PermissionActions:
        """Set the actions that a role may perform on a topic."""
        answer: PermissionActions = self._http.send(
            "PUT",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/permissions/{segment(role)}",
            body=body,
            idempotency_key=idempotency_key,
        )
        return answer

    def delete(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        role: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Outcome | None:
        """Revoke the permissions of a role on a topic."""
        answer: Outcome | None = self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/permissions/{segment(role)}",
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer


class Topics:
    def __init__(self, http: Http) -> None:
        self._http = http

    def list(self, tenant: str, namespace: str, *, after: str | None = None, limit: int | None = None) -> PageOfTopics:
        """Topics of a namespace; a partitioned topic counts as one."""
        answer: PageOfTopics = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/topics", query={"after": after, "limit": limit}
        )
        return answer

    def each(self, tenant: str, namespace: str) -> Iterator[TopicShape]:
        """All of them, page by page."""
        after: str | None = None
        while True:
            page = self.list(tenant, namespace, after=after, limit=1000)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def create(self, tenant: str, namespace: str, body: NewTopicRequest, *, idempotency_key: str | None = None) -> TopicShape:
        """Create a topic."""
        answer: TopicShape = self._http.send(
            "POST", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/topics", body=body, idempotency_key=idempotency_key
        )
        return answer

    def get(self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics") -> TopicShape:
        """A topic."""
        answer: TopicShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}"
        )
        return answer

    def delete(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        dry_run: bool | None = None,
        force: bool | None = None,
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> Outcome | None:
        """Delete a topic and its messages."""
        answer: Outcome | None = self._http.send(
            "DELETE",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}",
            query={"dry_run": dry_run, "force": force},
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def compaction(
        self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> CompactionShape:
        """How the last compaction of a topic went."""
        answer: CompactionShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/compaction"
        )
        return answer

    def start_compaction(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> None:
        """Compact a topic: a worker begins; ask for the status how it goes on."""
        self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/compaction",
            idempotency_key=idempotency_key,
        )

    def disconnect(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        body: DisconnectRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Outcome:
        """Disconnect clients: those that are built to connect again do so at once."""
        answer: Outcome = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/disconnect",
            body=body,
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer

    def explain(
        self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> TopicExplained:
        """What keeps messages from being published to a topic now."""
        answer: TopicExplained = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/explain"
        )
        return answer

    def history(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        from_: str | None = None,
        span: Literal["1h", "24h", "30d", "6h", "7d"] | None = None,
        step_seconds: Literal[21600, 300, 3600, 60, 86400, 900] | None = None,
        until: str | None = None,
    ) -> HistoryShape:
        """What a topic carried and held, step by step."""
        answer: HistoryShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/history",
            query={"from": from_, "span": span, "step_seconds": step_seconds, "until": until},
        )
        return answer

    def internal_stats(
        self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> TopicStats:
        """What is stored of a topic: ledgers, cursors, positions."""
        answer: TopicStats = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/internal-stats"
        )
        return answer

    def last_message(
        self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> PositionShape:
        """The id of the last message; of a plain topic or a partition."""
        answer: PositionShape = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/last-message"
        )
        return answer

    def message_at(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        publish_time_ms: int | None = None,
    ) -> PositionShape:
        """The id of the first message published at or after a time."""
        answer: PositionShape = self._http.send(
            "GET",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/message-at",
            query={"publish_time_ms": publish_time_ms},
        )
        return answer

    def missing_partitions(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> None:
        """Create the partitions of a topic that are missing."""
        self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/missing-partitions",
            idempotency_key=idempotency_key,
        )

    def policies(
        self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> dict[str, Any]:
        """Policies set on a topic."""
        answer: dict[str, Any] = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/policies"
        )
        return answer

    def set_policies(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        body: dict[str, Any],
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> dict[str, Any]:
        """Replace all policies of a topic; missing ones are inherited."""
        answer: dict[str, Any] = self._http.send(
            "PUT",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/policies",
            body=body,
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def update_policies(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        body: dict[str, Any],
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> dict[str, Any]:
        """Set some policies of a topic; null removes one, so that it is inherited."""
        answer: dict[str, Any] = self._http.send(
            "PATCH",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/policies",
            body=body,
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def policies_blame(
        self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> PolicyBlames:
        """Which change each policy that is set here has its value from."""
        answer: PolicyBlames = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/policies/blame"
        )
        return answer

    def policies_in_force(
        self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> PoliciesInForce:
        """The policies in force for a topic."""
        answer: PoliciesInForce = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/policies/in-force"
        )
        return answer

    def policies_preview(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        body: dict[str, Any],
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> PolicyPreviewAnswer:
        """What a change of a topic's policies would do now; nothing is changed."""
        answer: PolicyPreviewAnswer = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/policies/preview",
            body=body,
            idempotency_key=idempotency_key,
        )
        return answer

    def policies_undo(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        body: UndoneChangeRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Take a change of policies back: sets what was set before it, unless that was changed again since."""
        answer: dict[str, Any] = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/policies/undo",
            body=body,
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer

    def policies_what_if(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        body: dict[str, Any],
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        from_: str | None = None,
        span: Literal["1h", "24h", "30d", "6h", "7d"] | None = None,
        step_seconds: Literal[21600, 300, 3600, 60, 86400, 900] | None = None,
        until: str | None = None,
        idempotency_key: str | None = None,
    ) -> PolicyWhatIf:
        """What a change of policies would have done to the traffic of a span; nothing is changed."""
        answer: PolicyWhatIf = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/policies/what-if",
            body=body,
            query={"from": from_, "span": span, "step_seconds": step_seconds, "until": until},
            idempotency_key=idempotency_key,
        )
        return answer

    def properties(
        self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics"
    ) -> TopicProperties:
        """Properties of a topic."""
        answer: TopicProperties = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/properties"
        )
        return answer

    def update_properties(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        body: PatchedTopicChangeRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
        if_match: str | None = None,
    ) -> TopicProperties:
        """Give a topic more partitions, or change its properties."""
        answer: TopicProperties = self._http.send(
            "PATCH",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/properties",
            body=body,
            idempotency_key=idempotency_key,
            if_match=if_match,
        )
        return answer

    def stats(self, tenant: str, namespace: str, topic: str, *, kind: Literal["topics", "non-persistent"] = "topics") -> TopicStats:
        """Statistics of a topic: rates, backlog, subscriptions, clients."""
        answer: TopicStats = self._http.send(
            "GET", f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/stats"
        )
        return answer

    def terminate(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Outcome:
        """Terminate a topic: nothing can be published to it any more. This cannot be undone."""
        answer: Outcome = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/terminate",
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer

    def trim(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> None:
        """Delete what retention does not hold, at once rather than at the next sweep."""
        self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/trim",
            idempotency_key=idempotency_key,
        )

    def truncate(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Outcome:
        """Drop every message of a topic, acknowledged or not."""
        answer: Outcome = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/truncate",
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer

    def tune(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        body: TopicTuneRequest,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        idempotency_key: str | None = None,
    ) -> TuneAnswer:
        """The same by what is published to a topic now; nothing is changed."""
        answer: TuneAnswer = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/tune",
            body=body,
            idempotency_key=idempotency_key,
        )
        return answer

    def unload(
        self,
        tenant: str,
        namespace: str,
        topic: str,
        *,
        kind: Literal["topics", "non-persistent"] = "topics",
        dry_run: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Outcome:
        """Unload a topic: its clients connect again."""
        answer: Outcome = self._http.send(
            "POST",
            f"tenants/{segment(tenant)}/namespaces/{segment(namespace)}/{segment(kind)}/{segment(topic)}/unload",
            query={"dry_run": dry_run},
            idempotency_key=idempotency_key,
        )
        return answer


class Resources:
    """All of them."""

    def __init__(self, http: Http) -> None:
        self.administrators = Administrators(http)
        self.alert_rule_notices = AlertRuleNotices(http)
        self.alert_rules = AlertRules(http)
        self.alerts = Alerts(http)
        self.audit = Audit(http)
        self.browse = Browse(http)
        self.budgets = Budgets(http)
        self.credits = Credits(http)
        self.dead_letter_redrives = DeadLetterRedrives(http)
        self.dead_letters = DeadLetters(http)
        self.delayed = Delayed(http)
        self.files = Files(http)
        self.invitations = Invitations(http)
        self.invoices = Invoices(http)
        self.issuers = Issuers(http)
        self.jobs = Jobs(http)
        self.keys = Keys(http)
        self.made = Made(http)
        self.members = Members(http)
        self.moves = Moves(http)
        self.namespace_history = NamespaceHistory(http)
        self.namespace_permissions = NamespacePermissions(http)
        self.namespaces = Namespaces(http)
        self.notices = Notices(http)
        self.outcomes = Outcomes(http)
        self.plans = Plans(http)
        self.platform = Platform(http)
        self.price_plans = PricePlans(http)
        self.recycle_bin = RecycleBin(http)
        self.recycled_namespaces = RecycledNamespaces(http)
        self.recycled_tenants = RecycledTenants(http)
        self.redrives = Redrives(http)
        self.report_schedules = ReportSchedules(http)
        self.reports = Reports(http)
        self.roles = Roles(http)
        self.savings = Savings(http)
        self.schemas = Schemas(http)
        self.sessions = Sessions(http)
        self.subscription_history = SubscriptionHistory(http)
        self.subscription_messages = SubscriptionMessages(http)
        self.subscriptions = Subscriptions(http)
        self.task_runs = TaskRuns(http)
        self.tasks = Tasks(http)
        self.team_members = TeamMembers(http)
        self.teams = Teams(http)
        self.tenant_audit = TenantAudit(http)
        self.tenant_history = TenantHistory(http)
        self.tenant_jobs = TenantJobs(http)
        self.tenant_notices = TenantNotices(http)
        self.tenants = Tenants(http)
        self.topic_history = TopicHistory(http)
        self.topic_messages = TopicMessages(http)
        self.topic_permissions = TopicPermissions(http)
        self.topics = Topics(http)
