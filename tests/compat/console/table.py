"""What each figure of the console must be, by what clients did.

`BROKER` has those that the broker is asked for, and that nobody knows while it is away; `KEPT` those of the database, which are
true then as well; `ELSEWHERE` those of what clients do not do here, by the beginnings of their names, with the tests about them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from messaging.protocol.bundles import BUNDLES_DEFAULT, bundle_of, equal_bundles
from tests.compat.console.clients import (
    FAILING,
    JOBS,
    LETTERS,
    PARTS,
    PAUSE_S,
    PAYLOAD_BYTES,
    PLACED,
    QUEUE,
    STEADY,
    TENANT,
    TYPED,
    World,
)
from tests.compat.console.pages import Shown

OVERHEAD_BYTES = 120  # of an entry, beside its payload
OLD_S = 300  # no longer than the test


class Range(NamedTuple):
    """A number from `least` to `most`; what is rounded may be a half of its last digit beside them."""

    least: float
    most: float

    def __contains__(self, value: object) -> bool:
        return isinstance(value, float) and self.least * 0.994 <= value <= self.most * 1.006


Expected = Callable[[World, Shown], list[Range] | None]  # of each number in the text; None: it is unknown and says so


def exactly(value: float) -> Range:
    return Range(value, value)


TOPICS = {topic.rpartition("/")[2]: topic for topic in (PLACED, PARTS, FAILING, JOBS, TYPED, STEADY, LETTERS)}
SUBSCRIPTIONS = {
    "audit": (PLACED, "audit"),
    "billing": (PLACED, "billing"),
    "all": (PARTS, "all"),
    "work": (FAILING, "work"),
    "runner": (JOBS, "runner"),
    "keeps-up": (STEADY, "keeps-up"),
}


def topic_of(one: Shown) -> str:
    """Of its row, or of its page."""
    return TOPICS.get(one.row) or TOPICS[one.page.partition("/")[0]]


def subscription_of(one: Shown) -> tuple[str, str]:
    return SUBSCRIPTIONS.get(one.row) or SUBSCRIPTIONS[one.page.rpartition("/")[2]]


# --- what follows from what clients did


def rate(topic: str) -> Range:
    """Messages a second: of `steady` about as many as its producer's pauses make, on a machine that is slow, too."""
    return Range(2, 1.2 / PAUSE_S) if topic == STEADY else exactly(0)


def _sent(world: World, topic: str) -> Range:
    """Of what goes on, what was sent when the page was made is at most what was sent by now."""
    return (
        Range(0 if world.restarted else 1, world.sent[topic])
        if topic == STEADY
        else exactly(0 if world.restarted else world.sent[topic])
    )


def _stored(world: World, topic: str) -> Range:
    """A ledger goes once all of it is acknowledged and another was begun."""
    count = world.sent[topic]
    if topic in (FAILING, TYPED) and world.restarted:
        return Range(0, count * (PAYLOAD_BYTES + OVERHEAD_BYTES))
    least = 0 if topic == STEADY else count * (20 if topic == TYPED else PAYLOAD_BYTES)
    return Range(least, (count + 2) * (PAYLOAD_BYTES + OVERHEAD_BYTES))


def _backlog(world: World, where: tuple[str, str]) -> Range:
    return Range(0, 30) if where[0] == STEADY else exactly(world.backlog(*where))


def _topic_backlog(world: World, topic: str) -> Range:
    """That of its slowest subscription."""
    if topic == STEADY:
        return Range(0, 30)
    return exactly(
        max((world.backlog(*where) for where in SUBSCRIPTIONS.values() if where[0] == topic), default=world.left_over(topic))
    )


def _unacked(world: World, where: tuple[str, str]) -> Range:
    if where[0] == STEADY:
        return Range(0, 30)
    if where[0] == FAILING:
        return exactly(0)
    left = world.received[where] - world.acknowledged[where]
    waiting = min(left, QUEUE)  # those that come again wait in the client to be received
    if world.restarted:
        return exactly(waiting)
    return Range(waiting if world.stood_still else left, left)


def _delivered(world: World, where: tuple[str, str]) -> Range:
    """Since the broker started: then those come again that nobody had acknowledged."""
    if where[0] == STEADY:
        return Range(0, world.sent[STEADY] + 1_000)
    if world.restarted:
        return exactly(0) if where[0] == FAILING else _unacked(world, where)
    received, again = world.received[where], world.received[where] - world.acknowledged[where]
    if world.stood_still:  # of the consumers that came since; what they had is counted, too
        return Range(0, received + again * world.stood_still)
    return exactly(6 if where[0] == FAILING else received)


def _out(world: World, topic: str) -> Range:
    parts = [_delivered(world, where) for where in SUBSCRIPTIONS.values() if where[0] == topic]
    return Range(sum(one.least for one in parts), sum(one.most for one in parts))


def _bytes_a_second(topic: str) -> Range:
    return Range(2 * PAYLOAD_BYTES, 1.2 / PAUSE_S * (PAYLOAD_BYTES + OVERHEAD_BYTES)) if topic == STEADY else exactly(0)


def _age(world: World, one: Shown) -> list[Range] | None:
    """Nothing waits in some, and in one sometimes."""
    where = subscription_of(one)
    return None if _backlog(world, where).most == 0 or (where[0] == STEADY and not one.known) else [Range(0, OLD_S)]


def _total(one: Shown, of_topic: Callable[[str], Range]) -> list[Range]:
    """Of the namespace: the sum over its topics; of a topic its own."""
    topics = list(TOPICS.values()) if one.page == "namespace" and not one.row else [topic_of(one)]
    found = [of_topic(topic) for topic in topics]
    return [Range(sum(each.least for each in found), sum(each.most for each in found))]


def _consumers_row(one: Shown) -> tuple[str, str]:
    """The only consumer of the page that it is on."""
    topic = TOPICS[one.page.partition("/")[0]]
    return next(where for where in SUBSCRIPTIONS.values() if where[0] == topic and where[1] not in ("audit",))


def _clients(world: World, one: Shown) -> list[Range]:
    return [exactly(1), exactly(world.producers.total()), exactly(world.consumers.total())]


def _in_bundle(one: Shown) -> list[str]:
    """The topics, partitions one by one, of the bundle that the row is about."""
    names = [name for name in TOPICS.values() if name != PARTS] + [f"{PARTS}-partition-{index}" for index in range(2)]
    return [name for name in names if str(bundle_of(equal_bundles(BUNDLES_DEFAULT), name)) == one.row]


LIVE: dict[str, Callable[[World, str], Range]] = {
    "rate_in": lambda world, topic: rate(topic),
    "rate_out": lambda world, topic: rate(topic),
    "throughput_in": lambda world, topic: _bytes_a_second(topic),
    "throughput_out": lambda world, topic: _bytes_a_second(topic),
    "backlog_entries": _topic_backlog,
    "storage_bytes": _stored,
    "messages_in": _sent,
    "messages_out": _out,
    "producers": lambda world, topic: exactly(world.producers[topic]),
    "consumers": lambda world, topic: exactly(world.consumers[topic]),
    "subscriptions": lambda world, topic: exactly(world.subscriptions(topic)),
}


def _live(name: str) -> Expected:
    return lambda world, one: _total(one, lambda topic: LIVE[name](world, topic))


def _part(one: Shown) -> int:
    return int(one.row[-1])


BROKER: dict[str, Expected] = {
    **{
        f"{kind}.{name}": _live(name)
        for kind, name in (
            *(("total", name) for name in LIVE if name != "subscriptions"),
            *(("cell", name) for name in LIVE if name not in ("messages_in", "messages_out")),
        )
    },
    "total.topics": lambda world, one: [exactly(len(TOPICS))],
    **{
        f"namespace.{name}": _live(name)
        for name in (
            "rate_in",
            "rate_out",
            "throughput_in",
            "throughput_out",
            "backlog_entries",
            "storage_bytes",
            "producers",
            "subscriptions",
            "consumers",
        )
    },
    # the page of a topic, and of a subscription
    "topic_stats.partitions.rate_in": lambda world, one: [exactly(0)],
    "topic_stats.partitions.rate_out": lambda world, one: [exactly(0)],
    "topic_stats.partitions.storage_bytes": lambda world, one: [
        Range(world.in_partition(_part(one)) * PAYLOAD_BYTES, world.in_partition(_part(one)) * (PAYLOAD_BYTES + OVERHEAD_BYTES))
    ],
    "topic_stats.partitions.backlog": lambda world, one: [exactly(world.in_partition(_part(one)))],
    "topic_stats.subscriptions.backlog": lambda world, one: [_backlog(world, subscription_of(one))],
    "topic_stats.subscriptions.oldest_s": lambda world, one: _age(world, one),
    "topic_stats.subscriptions.rate_out": lambda world, one: [rate(subscription_of(one)[0])],
    "topic_stats.subscriptions.ack_rate": lambda world, one: [rate(subscription_of(one)[0])],
    "topic_stats.subscriptions.unacked": lambda world, one: [_unacked(world, subscription_of(one))],
    "topic_stats.subscriptions.delivered": lambda world, one: [_delivered(world, subscription_of(one))],
    "topic_stats.subscriptions.expired": lambda world, one: [exactly(0)],
    "topic_stats.subscriptions.consumers": lambda world, one: [exactly(world.connected(subscription_of(one)))],
    "topic_stats.producers.rate_in": lambda world, one: [rate(topic_of(one._replace(row="")))],
    "topic_stats.producers.size_bytes": lambda world, one: (
        None
        if (world.restarted and one.page != "steady") or (world.stood_still and not one.known)
        else [Range(20, PAYLOAD_BYTES + OVERHEAD_BYTES)]
    ),
    "consumers.rate_out": lambda world, one: [rate(_consumers_row(one)[0])],
    "consumers.delivered": lambda world, one: [_delivered(world, _consumers_row(one))],
    "consumers.unacked": lambda world, one: [_unacked(world, _consumers_row(one))],
    "consumers.permits": lambda world, one: [Range(0, 1_000)],
    "subscription.state.backlog": lambda world, one: [_backlog(world, subscription_of(one)), Range(0, OLD_S)],
    "subscription.state.unacked": lambda world, one: [_unacked(world, subscription_of(one))],
    "subscription.state.rate_out": lambda world, one: [rate(subscription_of(one)[0]), _delivered(world, subscription_of(one))],
    "subscription.state.ack_rate": lambda world, one: [rate(subscription_of(one)[0])],
    "subscription.state.expired": lambda world, one: [exactly(0)],
    "why.subscriptions.backlog": lambda world, one: [_backlog(world, subscription_of(one))],
    "topic.partitions": lambda world, one: [exactly(2)],
    "namespace.partitions": lambda world, one: [exactly(2)],
    # what is stored, and delayed
    "topic_storage.stored.entries": lambda world, one: [] if one.text == "no" else [exactly(world.sent[PLACED])],
    "topic_storage.stored.size_bytes": lambda world, one: [_stored(world, PLACED)],
    "topic_storage.ledgers.ledgers": lambda world, one: [exactly(2 if world.restarted else 1)],
    "topic_storage.ledgers.entries": lambda world, one: [exactly(world.sent[PLACED] if one.row == world.ledger(PLACED) else 0)],
    "topic_storage.ledgers.size_bytes": lambda world, one: [
        _stored(world, PLACED) if one.row == world.ledger(PLACED) else exactly(0)
    ],
    "topic_storage.cursors.cursors": lambda world, one: [exactly(world.subscriptions(PLACED))],
    "topic_storage.cursors.ranges": lambda world, one: [exactly(0)],
    "topic_storage.parts.parts": lambda world, one: [exactly(2)],
    "topic_storage.parts.ledgers": lambda world, one: [exactly(2 if world.restarted else 1)],
    "topic_storage.parts.entries": lambda world, one: [exactly(world.in_partition(_part(one)))],
    "topic_storage.parts.size_bytes": lambda world, one: [
        Range(world.in_partition(_part(one)) * PAYLOAD_BYTES, world.in_partition(_part(one)) * (PAYLOAD_BYTES + OVERHEAD_BYTES))
    ],
    "delayed_chart.due.entries": lambda world, one: [exactly(world.sent[JOBS])],
    "delayed_chart.due.highest": lambda world, one: [Range(1, world.sent[JOBS])],
    "delayed.listed.size_bytes": lambda world, one: [Range(PAYLOAD_BYTES, PAYLOAD_BYTES + OVERHEAD_BYTES)],
    "topic_schemas.versions.rows": lambda world, one: [exactly(1)],
    "topic_schemas.versions.size_bytes": lambda world, one: [Range(50, 400)],
    "topic_schemas.versions.producers": lambda world, one: [
        exactly(1),
        *[Range(0, 1_000)] * (len(one.numbers) - 1),
    ],  # and its name
    "topic_schemas.versions.consumers": lambda world, one: [exactly(0)],
    # messages
    "messages_found.found.rows": lambda world, one: [exactly(25)],
    "messages_found.found.looked_at": lambda world, one: [exactly(25), exactly(world.sent[PLACED] - 25)],
    "messages_found.found.size_bytes": lambda world, one: [exactly(PAYLOAD_BYTES)],
    "trace.entry.messages": lambda world, one: [exactly(1)],
    "trace.entry.size_bytes": lambda world, one: [Range(PAYLOAD_BYTES, PAYLOAD_BYTES + OVERHEAD_BYTES)],
    "dead_letter_groups.total": lambda world, one: [exactly(world.left_over(LETTERS)), exactly(1)],
    "dead_letter_groups.messages": lambda world, one: [exactly(world.left_over(LETTERS)), exactly(100)],  # and its part in percent
    "dead_letters.letters.rows": lambda world, one: [exactly(world.left_over(LETTERS))] * 2,
    "dead_letter_groups.staying": lambda world, one: [exactly(0)],
    # who is connected, and the broker
    "clients.protocol_version": lambda world, one: [Range(19, 25)],
    "platform_status.broker.version": lambda world, one: [Range(0, 100)] * len(one.numbers),
    "platform_status.broker.boot_epoch": lambda world, one: [exactly(2 if world.restarted else 1)],
    "platform_status.broker.feed_version": lambda world, one: [Range(1, 1_000)] * len(one.numbers),
    "clients.libraries.total": _clients,
    "clients.libraries.connections": lambda world, one: [exactly(1)],
    "clients.producers": lambda world, one: _clients(world, one)[1:2],
    "clients.consumers": lambda world, one: _clients(world, one)[2:],
    "platform_status.broker.connections": lambda world, one: [exactly(1)],
    "platform_status.broker.topics_loaded": lambda world, one: [exactly(len(TOPICS) + 1)],  # one of them has two partitions
    "platform_status.broker.producers": lambda world, one: _clients(world, one)[1:2],
    "platform_status.broker.consumers": lambda world, one: _clients(world, one)[2:],
    "platform_status.broker.uptime_s": lambda world, one: [Range(0, OLD_S)],
    "platform_status.broker.resident_bytes": lambda world, one: [Range(20 << 20, 2 << 30)],
    "brokers.bundles": lambda world, one: [Range(1, len(TOPICS) + 1)],
    "brokers.load": lambda world, one: [Range(2, 3.5 / PAUSE_S)],
    "brokers.bundles.topics": lambda world, one: [Range(1, len(TOPICS) + 1)],
    "brokers.bundles.load": lambda world, one: [Range(0, 3.5 / PAUSE_S)],
    **dict.fromkeys(("brokers.bundles.rate_in", "brokers.bundles.rate_out"), lambda world, one: [Range(0, 1.2 / PAUSE_S)]),
    "bundles.topics": lambda world, one: [exactly(len(_in_bundle(one)))],
    "bundles.producers": lambda world, one: [Range(0, _clients(world, one)[1].most)],
    "bundles.consumers": lambda world, one: [Range(0, _clients(world, one)[2].most)],
    "bundles.load": lambda world, one: [
        Range(2, 3.5 / PAUSE_S) if STEADY in _in_bundle(one) else Range(0, 0.1)  # a hundredth a topic, which is shown as <0.1
    ],
    **dict.fromkeys(
        ("bundles.rate_in", "bundles.rate_out"), lambda world, one: [rate(STEADY if STEADY in _in_bundle(one) else "")]
    ),
}


def _history(world: World, one: Shown) -> list[Range] | None:
    """Of the last hour of `placed`. What happened within the last minute is told later: "–", or less."""
    sent, again = world.sent[PLACED], world.received[PLACED, "billing"] - world.acknowledged[PLACED, "billing"]
    within = {
        "Messages in": sent,
        "Messages out": sent + again,  # those that nobody acknowledged come once more after a restart
        "Bytes in": sent * (PAYLOAD_BYTES + OVERHEAD_BYTES),
        "Bytes out": (sent + again) * (PAYLOAD_BYTES + OVERHEAD_BYTES),
        "Highest backlog, in entries": sent,
        "Oldest entry that waited": OLD_S,
        "Longest time to a receipt": 30_000,
        "Expired entries": 0,
    }
    return [Range(0, within[one.row])] if one.known else None


KEPT: dict[str, Expected] = {
    "history.totals.value": _history,
    "history.step_s": lambda world, one: [Range(0, 9_999)] * len(one.numbers),  # with the moments of the span
    # a namespace of another test, and the tenant that is there from the beginning
    "tenants.namespaces": lambda world, one: [Range(1, 2 if one.row == TENANT else 1)],
    "tenants.keys": lambda world, one: [exactly(one.row == TENANT)],
    "tenants.members": lambda world, one: [exactly(0)],
    "platform_status.children.pid": lambda world, one: [exactly(world.platform.child(one.row)["pid"])],
    "platform_status.children.restarts": lambda world, one: [exactly(world.platform.child(one.row)["restarts"])],
    "tenant.keys": lambda world, one: [exactly(1)],
    "tenant.members": lambda world, one: [exactly(0)],
    "now.problems.partitions": lambda world, one: [exactly(2)],
    "now.problems.total": lambda world, one: [Range(1, 10)],
    "now.problems.serious": lambda world, one: [Range(0, 10)] * len(one.numbers),
    "now.problems.waiting": lambda world, one: [Range(0, 50)] * len(one.numbers),
}
ELSEWHERE: dict[str, str] = {
    "alert_rule.": "tests/admin_ui/test_alert_pages.py",
    "alerts.": "tests/admin_ui/test_alert_pages.py",
    "audit_chain.": "tests/admin_ui/test_audit.py",
    "audit_stream.": "tests/admin_ui/test_audit_stream_pages.py",
    "ceilings.": "tests/tenants/test_ceilings.py",
    "clients.unreached": "tests/messaging/broker/runtime/ownership/test_admin_calls_of_a_fleet.py",
    "clients.connections": "tests/admin_ui/test_client_fleet_pages.py",
    "clients.libraries.more_libraries": "tests/admin_ui/test_client_fleet_pages.py",
    "clients.unlisted": "tests/admin_ui/test_client_fleet_pages.py",
    "dead_letter_groups.beyond": "tests/admin_ui/test_dead_letters_page.py",
    "dead_letters.letters.messages": "tests/admin_ui/test_dead_letters_page.py",
    "dead_letters.letters.read": "tests/admin_ui/test_dead_letters_page.py",
    "billing.credits.": "tests/admin_ui/test_billing_pages.py",
    "budgets.alerts.": "tests/admin_ui/test_budget_pages.py",
    "costs.rows.before": "tests/admin_ui/test_cost_pages.py",
    "costs.rows.change": "tests/admin_ui/test_cost_pages.py",
    "invoice.topics.left": "tests/tenants/rest/test_billing.py",
    "invoice.hours_missing": "tests/workers/billing/test_drafts.py",
    "invoices.drafts_done": "tests/admin_ui/test_billing_pages.py",
    "history_timeline.": "tests/admin_ui/test_history_pages.py",
    "key_new.": "tests/admin_ui/test_key_pages.py",
    "mail_limit.": "tests/admin_ui/test_alert_pages.py",
    "message.": "tests/admin_ui/test_message_pages.py",
    "messages_found.none.": "tests/admin_ui/test_message_pages.py",
    "messages_tail.": "tests/admin_ui/test_message_pages.py",
    "month_ahead.days": "tests/admin_ui/test_budget_pages.py",
    "month_ahead.savings.": "tests/admin_ui/test_budget_pages.py",
    "month_ahead.what_if": "tests/admin_ui/test_budget_pages.py",
    "namespace.groups": "tests/admin_ui/test_topic_list.py",
    "namespace.matches": "tests/admin_ui/browser/test_live_table.py",
    "now.left_out": "tests/admin_ui/test_now_page.py",
    "now.problems.more": "tests/admin_ui/test_now_page.py",
    "now.unknown_topics": "tests/admin_ui/test_now_page.py",
    "platform_status.brokers.": "tests/admin_ui/test_brokers_page.py",
    "platform_alerts.": "tests/admin_ui/test_alert_pages.py",
    "policies.": "tests/admin_ui/test_policy_pages.py",
    "policy_what_if.": "tests/admin_ui/browser/test_what_if.py",
    "price_plan.lines.": "tests/admin_ui/test_billing_pages.py",
    "readers.": "tests/admin_ui/test_readers_page.py",
    "recycle_bin.": "tests/admin_ui/test_recycle_bin_page.py",
    "redrive.": "tests/admin_ui/test_redrives_page.py",
    "redrive_jobs.": "tests/admin_ui/test_redrives_page.py",
    "redrives.": "tests/admin_ui/test_redrives_page.py",
    "reports.": "tests/admin_ui/test_budget_pages.py",
    "roles.": "tests/admin_ui/test_right_pages.py",
    "subscription.state.dropped": "tests/admin_ui/test_non_persistent_pages.py",
    "task_runs.": "tests/admin_ui/test_tasks_page.py",
    "teams.": "tests/admin_ui/test_team_pages.py",
    "team.": "tests/admin_ui/test_team_pages.py",
    "token_issuers.": "tests/admin_ui/test_token_issuer_pages.py",
    "topic_operations.": "tests/admin_ui/test_topic_operations.py",
    "topic_schemas.lines_left": "tests/admin_ui/test_schema_pages.py",
    "topic_stats.subscriptions.dropped": "tests/admin_ui/test_non_persistent_pages.py",
    "trace.subscriptions.messages_left": "tests/admin_ui/test_trace_page.py",
    "tune.": "tests/admin_ui/test_tuning_page.py",
    "usage_basis.": "tests/admin_ui/test_usage_evidence.py",
    "usage_evidence.": "tests/admin_ui/test_usage_evidence.py",
    "usage_run.": "tests/admin_ui/test_usage_page.py",
    "usage_runs.": "tests/admin_ui/test_usage_page.py",
    "why.parts.": "tests/admin_ui/test_why_pages.py",
    "why.steps.": "tests/admin_ui/test_why_pages.py",
    "why.subscriptions.more_subscriptions": "tests/admin_ui/test_why_pages.py",
}


def elsewhere(hook: str) -> bool:
    return any(hook.startswith(prefix) for prefix in ELSEWHERE)
