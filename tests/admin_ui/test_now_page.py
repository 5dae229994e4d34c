"""The first page: what is wrong in everything that one may see, and nothing of what one may not."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from admin_ui import broker as admin_broker
from admin_ui import platform_view
from admin_ui.now import visible_scope
from messaging.adminrpc.methods import PROBLEMS_LIST
from messaging.problems.kinds import MARKS, Kind
from messaging.problems.order import Problem
from tenants.access import platform_actor
from tenants.actions import create_key, create_namespace, set_custom_role, set_member, set_team
from tenants.actions.teams import RoleOfTeam, add_team_member
from tenants.models import CustomRole, Membership, Namespace, Tenant, User
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from tests.admin_ui.scripted_live import live_row
from workers.alerts.actions import set_target
from workers.alerts.models import AlertRule, NotificationTarget, PlatformAlert
from workers.alerts.platform import set_platform_target
from workers.models import TaskRun
from workers.schedule import TASKS

HOUR_AGO_MS = 3_600_000


def problem(kind: Kind, topic: str = "persistent://acme/orders/paid", subscription: str = "billing", **given: object) -> Problem:
    tenant, namespace, _ = topic.partition("://")[2].split("/")
    fields = {"kind": kind, "sentence": f"Sentence of {kind}.", "remedy": f"remedy of {kind}", "tenant": tenant, "topic": topic}
    return Problem(**(fields | {"namespace": f"{tenant}/{namespace}", "subscription": subscription} | given))  # type: ignore[arg-type]


def marks(page: str) -> list[str]:
    return re.findall(r'<span class="badge badge-(?:bad|warn)" title="[^"]*">([^<]*)</span>', page)


def a_worker_that_runs() -> None:
    TaskRun.objects.create(name="expire", task_id="1", outcome=TaskRun.Outcome.SUCCEEDED, started_at=timezone.now())


def test_a_calm_page_where_nothing_is_wrong(world: ConsoleBroker, browse: Browse) -> None:
    a_worker_that_runs()
    assert "Nothing is known to be wrong yet" in text(browse("owner"), "/now")
    world.set_problems()
    for who in ("owner", "teammate", "stranger", "superuser"):
        page = text(browse(who), "/now")
        assert "Nothing is wrong" in page and marks(page) == [] and "<table" not in page


def test_who_has_nothing_yet_is_led_to_the_first_message(world: ConsoleBroker, browse: Browse) -> None:
    a_worker_that_runs()
    world.set_problems()
    page = text(browse("owner"), "/now")
    assert "Nothing is wrong" in page and "Send the first message" in page and f'href="{NAMESPACE}/quick-start"' in page
    assert "New tenant" not in page and "New tenant" in text(browse("superuser"), "/now")
    assert "Send the first message" not in text(browse("teammate"), "/now"), "who may make no key"
    world.set_problems(problem(Kind.BLOCKED))
    assert "Send the first message" not in text(browse("owner"), "/now")
    world.set_problems()
    create_key(platform_actor(), "acme", "checkout")
    assert "Send the first message" not in text(browse("owner"), "/now")


def test_a_task_that_failed_is_no_worker_that_stands_still_in_any_language(world: ConsoleBroker, browse: Browse) -> None:
    TaskRun.objects.create(name="expire", task_id="1", outcome=TaskRun.Outcome.FAILED, started_at=timezone.now())
    world.set_problems()
    administrator = browse("superuser")
    for language in ("en", "de"):
        page = administrator.get("/now", headers={"Accept-Language": language}).content.decode()
        assert "unknown since then" not in page and "ist seither unbekannt" not in page


def test_problems_stand_in_order_with_their_sentence_place_and_fix(world: ConsoleBroker, browse: Browse) -> None:
    world.set_problems(
        problem(Kind.FALLING_BEHIND, "persistent://acme/orders/slow"),
        problem(Kind.NO_CONSUMER, waiting=12_408, since_ms=HOUR_AGO_MS),
        problem(Kind.BLOCKED, "persistent://acme/orders/p-partition-0", waiting=2),
        problem(Kind.BLOCKED, "persistent://acme/orders/p-partition-3", waiting=3),
    )
    page = text(browse("owner"), "/now")
    assert marks(page) == ["BLOCKED", "NO CONSUMER", "FALLING BEHIND"]
    assert "3 problems" in page and "2 serious" in page and "2 partitions" in page and "12.4 k" in page
    assert "In the worst partition: Sentence of blocked." in page and "partition: Sentence of no_consumer" not in page
    assert "Sentence of blocked." in page and "Remedy of no_consumer." in page
    assert 'href="/tenants/acme/namespaces/orders/topics/p/subscriptions/billing"' in page
    assert 'href="/tenants/acme/namespaces/orders/topics/paid/subscriptions/billing/clear"' in page
    assert "paid · acme / orders" in page


def test_who_may_not_fix_is_shown_the_way_to_look(world: ConsoleBroker, browse: Browse) -> None:
    world.set_problems(problem(Kind.NO_CONSUMER), problem(Kind.DEAD_LETTERS, target="persistent://acme/orders/paid-billing-DLQ"))
    page = text(browse("teammate"), "/now")
    assert "Open subscription" in page and "Delete subscription" not in page and "Redrive" not in page
    page = text(browse("owner"), "/now")
    assert "Delete subscription" in page and "/topics/paid-billing-DLQ/redrives" in page


def test_dead_letters_that_cannot_be_moved_lead_to_their_policy_alone(world: ConsoleBroker, browse: Browse) -> None:
    """The first button was Redrive, of a topic to which none of them had got."""
    target = "persistent://acme/orders/paid-billing-DLQ"
    world.set_problems(problem(Kind.DEAD_LETTERS_STUCK, target=target), problem(Kind.DISPATCH_THROTTLED))
    stuck, slowed = re.findall(r'<td class="fix">(.*?)</td>', text(browse("owner"), "/now"))
    assert re.findall(r'href="([^"]*)"', stuck) == [f"{NAMESPACE}/topics/paid/subscriptions/billing/dead-letters"]
    assert f'href="{NAMESPACE}/topics/paid/subscriptions/billing/why"' in slowed


def test_a_topic_without_a_subscription_comes_last_with_the_button_that_makes_one(world: ConsoleBroker, browse: Browse) -> None:
    world.set_problems(problem(Kind.UNREAD, "persistent://acme/orders/paid", ""), problem(Kind.DISPATCH_THROTTLED))
    page = text(browse("owner"), "/now")
    assert marks(page) == ["DELIVERY THROTTLED", "NO SUBSCRIPTION"]
    assert 'href="/tenants/acme/namespaces/orders/topics/paid/new-subscription"' in page and "Retention" in page
    assert "new-subscription" not in text(browse("teammate"), "/now")


def test_nobody_sees_problems_of_others(world: ConsoleBroker, browse: Browse) -> None:
    world.set_problems(problem(Kind.BLOCKED), problem(Kind.BLOCKED, "persistent://globex/edge/secret", "theirs"))
    _alert("globex", "persistent://globex/edge/secret")
    for who, own, other in (("owner", "billing", "theirs"), ("teammate", "billing", "theirs"), ("stranger", "theirs", "billing")):
        for path in ("/now", "/now/problems"):
            page = text(browse(who), path)
            assert own in page and other not in page, (who, path)
    assert "globex" not in text(browse("owner"), "/now") and "acme" not in text(browse("stranger"), "/now")
    everything = text(browse("superuser"), "/now")
    assert "billing" in everything and "theirs" in everything and "ALERT" in everything
    assert browse("").get("/now").status_code == 302


def contractor_of_orders() -> None:
    """Somebody who may see one of the two namespaces of acme."""
    admin = platform_actor("test")
    create_namespace(admin, "acme/private")
    User.objects.create(username="contractor")
    set_custom_role(admin, "acme", "auditor-only", ["audit_read"])
    set_member(admin, "acme", "contractor", "auditor-only")
    set_team(admin, "acme", "contractors", [RoleOfTeam("viewer", "orders")])
    add_team_member(admin, "acme", "contractors", "contractor")


def test_an_administrator_without_a_second_factor_is_told_nothing_where_one_is_required(
    world: ConsoleBroker, browse: Browse
) -> None:
    """Neither what nor how many: of 100 that were asked for theirs took the place, and were counted as serious."""
    a_worker_that_runs()
    theirs = "persistent://globex/edge/t"
    world.set_problems(problem(Kind.BLOCKED, waiting=2), problem(Kind.FALLING_BEHIND, theirs))
    assert marks(text(browse("superuser"), "/now")) == ["BLOCKED", "FALLING BEHIND"]
    Tenant.unscoped.filter(name="acme").update(second_factor_required=True)
    page = text(browse("superuser"), "/now")
    assert marks(page) == ["FALLING BEHIND"] and "paid" not in page and "1 problem<" in page and "serious;" not in page


def test_who_may_see_one_namespace_is_told_of_that_one(world: ConsoleBroker, browse: Browse) -> None:
    contractor_of_orders()
    world.set_problems(problem(Kind.BLOCKED), problem(Kind.BLOCKED, "persistent://acme/private/t", "theirs-alone"))
    page = text(browse("contractor"), "/now")
    assert "billing" in page and "theirs-alone" not in page and "private" not in page


def test_alerts_are_shown_to_those_who_may_see_them(world: ConsoleBroker, browse: Browse) -> None:
    world.set_problems()
    _alert("acme", "persistent://acme/orders/placed")
    page = text(browse("owner"), "/now")
    assert marks(page) == ["ALERT"] and "Too much: 12 entries wait; it fires at 10." in page
    assert marks(text(browse("teammate"), "/now")) == []


def test_who_administers_the_platform_is_shown_all_alerts_and_asks_about_no_tenant_by_name(
    world: ConsoleBroker, browse: Browse
) -> None:
    """With 10,000 tenants the page read each of them twice and named them all in two statements, every three seconds."""
    world.set_problems()
    for name in (*(f"many-{number:02}" for number in range(30)), "gone"):
        Tenant.unscoped.create(name=name, admin_roles=[])
    _alert("acme", "persistent://acme/orders/placed")
    _alert("many-07", "persistent://many-07/n/t")
    _alert("gone", "persistent://gone/n/t")
    Tenant.unscoped.filter(name="gone").delete()
    client = browse("superuser")
    with CaptureQueriesContext(connection) as queries:
        page = text(client, "/now")
    assert marks(page).count("ALERT") == 2 and "/tenants/gone" not in page, "rules outlive their tenant"
    assert not any("many-29" in query["sql"] for query in queries)
    Tenant.unscoped.filter(name="many-07").update(second_factor_required=True)
    assert marks(text(client, "/now")).count("ALERT") == 1, "without a second factor nothing of that tenant is for them"


def test_an_alert_of_a_pattern_leads_to_its_rule_and_to_the_worst_topic(world: ConsoleBroker, browse: Browse) -> None:
    """Also whoever has the right to set alerts, and not to administer the tenant, is told."""
    world.set_problems()
    standings = {
        f"persistent://acme/orders/pay-{name}": {"value": value, "firing": value > 9} for name, value in (("a", 3), ("b", 12))
    }
    _alert("acme", "persistent://acme/orders/pay-*", is_pattern=True, topics=standings)
    set_member(platform_actor(), "acme", "teammate", "operator")
    for who in ("owner", "teammate"):
        page = text(browse(who), "/now")
        assert "12 entries wait in the worst topic of pay-*;" in page and f'{NAMESPACE}/topics/pay-b"' in page, who
        assert f"/tenants/acme/alerts/{AlertRule.unscoped.get().id}" in page and "topics/pay-*" not in page, who


def test_alerts_that_were_not_looked_at_are_unknown(world: ConsoleBroker, browse: Browse) -> None:
    world.set_problems()
    _alert("acme", "persistent://acme/orders/placed", firing=False, looked_at=timezone.now() - timedelta(minutes=10))
    page = text(browse("owner"), "/now")
    assert "Whether alerts fire is unknown" in page and "no alert fires" not in page
    assert "Whether alerts fire" not in text(browse("teammate"), "/now")


def test_administrators_are_told_of_the_disk_and_of_tasks(world: ConsoleBroker, browse: Browse) -> None:
    world.set_problems()
    PlatformAlert.objects.create(name="disk", firing=True, value=91, above_since=timezone.now(), looked_at=timezone.now())
    TaskRun.objects.create(name="expire", task_id="1", outcome=TaskRun.Outcome.QUARANTINED, started_at=timezone.now())
    page = text(browse("superuser"), "/now")
    assert marks(page)[0] == "DISK NEARLY FULL" and "91 % of the disk is used" in page
    assert marks(text(browse("owner"), "/now")) == []


def test_a_worker_that_stands_still_is_said_to_administrators(world: ConsoleBroker, browse: Browse) -> None:
    world.set_problems()
    TaskRun.objects.create(
        name="expire", task_id="1", outcome=TaskRun.Outcome.SUCCEEDED, started_at=timezone.now() - timedelta(hours=1)
    )
    page = text(browse("superuser"), "/now")
    assert "The worker does not run tasks" in page and "Nothing is wrong in your topics" in page


def test_what_a_broker_that_is_away_would_say_is_unknown(
    world: ConsoleBroker, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: object) -> tuple[None, str]:
        return None, "the broker did not respond in time"

    monkeypatch.setattr(admin_broker, "ask_or_why", away)
    page = text(browse("owner"), "/now")
    assert "What is wrong in topics is unknown." in page and "The broker did not respond in time." in page
    assert "Nothing is wrong" not in page


def test_a_refresh_that_changes_nothing_has_no_content(world: ConsoleBroker, browse: Browse) -> None:
    world.set_problems(problem(Kind.BLOCKED))
    client = browse("owner")
    (digest,) = re.findall(r"now/problems\?seen=([0-9a-f]+)", text(client, "/now"))
    assert client.get("/now/problems", {"seen": digest}).status_code == 204
    world.set_problems(problem(Kind.BLOCKED, waiting=7))
    changed = client.get("/now/problems", {"seen": digest})
    assert changed.status_code == 200 and digest not in changed.content.decode()


def test_problems_of_one_place_have_ids_of_their_own(world: ConsoleBroker, browse: Browse) -> None:
    world.set_problems()
    for kind in ("backlog_entries", "backlog_bytes"):
        _alert("acme", "persistent://acme/orders/placed-partition-0", subscription="billing", kind=kind)
    page = text(browse("owner"), "/now")
    ids = re.findall(r' id="([^"]*)"', page)
    assert marks(page) == ["ALERT", "ALERT"] and len(ids) == len(set(ids))
    assert sum(each.startswith("alert_2f") and not each.endswith("-1") for each in ids) == 2


def test_more_than_a_page_is_counted(world: ConsoleBroker, browse: Browse) -> None:
    world.set_problems(*(problem(Kind.BLOCKED, f"persistent://acme/orders/t{index}") for index in range(103)))
    page = text(browse("owner"), "/now")
    assert len(marks(page)) == 100 and "103 problems" in page and "3 more, less urgent" in page


def test_what_only_loading_a_topic_would_tell_is_said_to_be_unknown(
    world: ConsoleBroker, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.set_problems()
    monkeypatch.setattr(world.real.service.stored_problems, "unknown", lambda tenant, _=None: 2 if tenant == "acme" else 0)
    page = text(browse("owner"), "/now")
    assert "Of 2 topics it is unknown whether something waits there" in page
    assert "Nothing is known to be wrong" in page and "Nothing is wrong" not in page and "Every backlog has a consumer" not in page
    page = text(browse("stranger"), "/now")
    assert "it is unknown whether" not in page and "Nothing is wrong" in page


def test_who_sees_single_namespaces_is_told_what_is_unknown_there(
    world: ConsoleBroker, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    contractor_of_orders()
    world.set_problems()

    def unknown(tenant: str, namespaces: set[str] | None = None) -> int:
        return 2 if tenant == "acme" and namespaces == {"acme/orders"} else 0

    monkeypatch.setattr(world.real.service.stored_problems, "unknown", unknown)
    page = text(browse("contractor"), "/now")
    assert "Of 2 topics it is unknown whether something waits there" in page and "Nothing is wrong" not in page


def test_tenants_that_are_left_out_are_not_said_to_be_well(
    world: ConsoleBroker, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.set_problems()
    monkeypatch.setattr(visible_scope, "TENANTS_MAX", 0)
    monkeypatch.setattr(visible_scope, "NAMESPACES_MAX", 0)
    page = text(browse("owner"), "/now")
    assert "left out" in page and "Nothing is wrong" not in page


def test_what_was_left_out_is_counted_and_not_called_less_urgent(world: ConsoleBroker, browse: Browse) -> None:
    many = [problem(Kind.BLOCKED, subscription=f"s{index:02}", waiting=index) for index in range(23)]
    world.set_problems(*many)
    page = text(browse("owner"), "/now")
    assert (
        "23 problems" in page and "3 more, of which 3 are only counted" in page and "less urgent" not in page.split("</table>")[1]
    )


@pytest.mark.parametrize("path", ["/now", "/now/problems", "/tenants/acme/marks", "/tenants"])
@pytest.mark.parametrize("who", ["contractor", "member", "superuser"])
def test_queries_do_not_grow_with_namespaces_and_tenants(world: ConsoleBroker, browse: Browse, who: str, path: str) -> None:
    """The page asks again every three seconds."""
    admin = platform_actor("test")
    contractor_of_orders()
    User.objects.create(username="member")
    set_member(admin, "acme", "member", "viewer")
    set_custom_role(admin, "acme", "own", ["namespace_read", "consume"])
    world.set_problems(*(problem(Kind.NO_CONSUMER, subscription=f"s{index}") for index in range(2)))
    client = browse(who)

    def count() -> int:
        client.get(path)  # what is made once, by the first request, is not counted
        with CaptureQueriesContext(connection) as queries:
            assert client.get(path).status_code == 200
        return len(queries)

    def add(first: int, last: int) -> None:
        user = User.objects.get(username=who)
        for index in range(first, last):
            tenant = Tenant.unscoped.create(name=f"many{index}", admin_roles=[])
            role = CustomRole.unscoped.create(tenant=tenant, name="auditor-only", actions=["audit_read"])
            Membership.unscoped.create(tenant=tenant, user=user, role=role.name)
            Namespace.unscoped.create(name=f"many{index}/n", tenant=tenant)
            Namespace.unscoped.create(name=f"acme/n{index}", tenant_id="acme")
        namespaces = [f"{tenant}{index}" for index in range(first, last) for tenant in ("many", "acme/n")]
        topics = [f"persistent://{name if '/' in name else f'{name}/n'}/t" for name in namespaces]
        world.set_problems(*(problem(Kind.NO_CONSUMER, topic) for topic in topics))

    none = count()
    add(0, 1)
    few = count()
    add(1, 51)
    assert count() == few <= none + 6  # for kinds of rows that there were none of before


def test_notices_that_do_not_arrive_are_told_to_who_sees_their_alerts(world: ConsoleBroker, browse: Browse) -> None:
    """A webhook that refused everything was told on the page of alerts alone."""
    a_worker_that_runs()
    world.set_problems()
    uid = Tenant.unscoped.get(name="acme").uid
    why = "the webhook at hooks.example answered 500"
    target = NotificationTarget.unscoped.create(tenant="acme", tenant_uid=uid, webhook_url="https://hooks.example/x")
    NotificationTarget.unscoped.update(failing={"webhook": {"since_ms": HOUR_AGO_MS, "why": why}})
    for who in ("owner", "superuser"):
        page = text(browse(who), "/now")
        assert marks(page) == ["NOTICES UNSENT"] and f"do not reach the webhook: {why}." in page
        assert 'href="/tenants/acme/alerts"' in page
    assert marks(text(browse("teammate"), "/now")) == marks(text(browse("stranger"), "/now")) == []
    set_target(platform_actor(), "acme", target.webhook_url, [])
    failing = {"mail": {"since_ms": HOUR_AGO_MS, "why": "mail failed: TimeoutError"}}
    NotificationTarget.unscoped.create(tenant="", tenant_uid="", mail_to=["ops@magnetar.example"], failing=failing)
    page = text(browse("superuser"), "/now")
    assert marks(page) == ["NOTICES UNSENT"] and 'href="/platform/alerts"' in page
    assert marks(text(browse("owner"), "/now")) == []
    set_platform_target(platform_actor(), "", ["ops@magnetar.example"])
    assert marks(text(browse("superuser"), "/now")) == []


def test_every_kind_leads_somewhere(world: ConsoleBroker, browse: Browse) -> None:
    kinds = [kind for kind in Kind if kind not in (Kind.DISK_LOW, Kind.PROCESS_DOWN, Kind.TASK_FAILED)]
    topic_wide = (Kind.PRODUCERS_HELD, Kind.SCHEMA_REFUSED, Kind.PUBLISH_THROTTLED)
    given = {Kind.ALERT: {"id": "r1"}}
    world.set_problems(*(problem(kind, subscription="" if kind in topic_wide else "s", **given.get(kind, {})) for kind in kinds))
    page = text(browse("owner"), "/now")
    assert marks(page) == [MARKS[kind].text for kind in kinds]
    cells = re.findall(r'<td class="fix">(.*?)</td>', page)
    assert len(cells) == len(kinds) and all("<a " in cell for cell in cells)


def test_too_few_copies_lead_who_runs_the_platform_to_the_runbook_and_others_to_what_is_affected(
    world: ConsoleBroker, browse: Browse
) -> None:
    world.set_problems(Problem(kind=Kind.FEWER_COPIES, sentence="Few.", tenant="acme", namespace="acme/orders", id="broker-1"))
    of_admin, of_tenant = (
        re.findall(r'<td class="fix">(.*?)</td>', text(browse(who), "/now")) for who in ("superuser", "teammate")
    )
    assert "/docs/operators-guide#magnetartoofewbookies" in of_admin[0] and "/brokers" in of_admin[0]
    assert 'id="magnetartoofewbookies"' in text(browse("superuser"), "/docs/operators-guide")
    assert "/tenants/acme/namespaces/orders" in of_tenant[0] and "/docs/" not in of_tenant[0] and "/brokers" not in of_tenant[0]
    assert marks(text(browse("stranger"), "/now")) == []


def test_the_first_page_is_now_and_for_who_sees_no_tenant_the_list_of_tenants(browse: Browse) -> None:
    assert browse("owner").get("/")["Location"] == "/now"
    User.objects.create(username="newcomer")
    assert browse("newcomer").get("/")["Location"] == "/tenants"
    assert "Nothing to look at yet" in text(browse("newcomer"), "/now")


def _alert(tenant: str, topic: str, **given: object) -> None:
    now = timezone.now()
    fields = {"name": "Too much", "kind": "backlog_entries", "threshold": 10, "value": 12, "firing": True, "above_since": now}
    uid = Tenant.unscoped.get(name=tenant).uid
    AlertRule.unscoped.create(**(fields | {"tenant": tenant, "tenant_uid": uid, "topic": topic, "created_at": now} | given))


def test_lists_are_marked_with_the_same_problems(world: ConsoleBroker, browse: Browse) -> None:
    """Of topics and their partitions the most urgent one; of namespaces what one may see of them."""
    world.set_rows(
        "acme/orders",
        [
            live_row("persistent://acme/orders/calm"),
            live_row("persistent://acme/orders/late", problem="falling_behind"),
            live_row("persistent://acme/orders/parts-partition-0", problem="falling_behind"),
            live_row("persistent://acme/orders/parts-partition-1", problem="blocked"),
        ],
    )
    page = text(browse("teammate"), "/tenants/acme/namespaces/orders")
    assert marks(page) == ["FALLING BEHIND", "BLOCKED"]
    world.set_problems(problem(Kind.BLOCKED), problem(Kind.FALLING_BEHIND), problem(Kind.NO_CONSUMER, "persistent://globex/edge/t"))
    marked = browse("teammate").get("/tenants/acme/marks").json()
    assert marked["marks"] == {"orders": ["BLOCKED", "bad", MARKS[Kind.BLOCKED].meaning]} and marked["away"] == ""
    assert browse("stranger").get("/tenants/acme/marks").status_code == 404
    assert list(browse("stranger").get("/tenants/globex/marks").json()["marks"]) == ["edge"]


def test_marks_of_namespaces_that_one_may_not_see_are_left_out(world: ConsoleBroker, browse: Browse) -> None:
    contractor_of_orders()
    world.set_problems(problem(Kind.BLOCKED), problem(Kind.BLOCKED, "persistent://acme/private/t"))
    assert list(browse("contractor").get("/tenants/acme/marks").json()["marks"]) == ["orders"]


def test_marks_are_unknown_while_the_broker_is_away(world: ConsoleBroker, browse: Browse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_broker, "ask_or_why", lambda _: (None, "the broker did not respond in time"))
    assert browse("owner").get("/tenants/acme/marks").json() == {"marks": {}, "away": "The broker did not respond in time."}


def test_processes_that_end_again_and_again_are_told_of_while_they_run(
    world: ConsoleBroker, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ended every few seconds was told of only for the fraction of a second before it was started again."""
    now = timezone.now()

    def shown(state: str, last_exit: str, *ago_s: int) -> str:
        exits = tuple(now - timedelta(seconds=seconds) for seconds in ago_s)
        child = platform_view.ChildRow("worker", state, "", 7, len(exits), last_exit, now, exits)
        monkeypatch.setattr(platform_view, "children", lambda silent: ([child], ""))
        return text(browse("superuser"), "/now")

    world.set_problems()
    assert marks(shown("ready", "signal 9", 700, 5)) == [], "once, and it runs again"
    assert marks(shown("starting", "")) == [], "for the first time"
    page = shown("ready", "signal 9", 700, 50, 5)
    assert marks(page) == ["PROCESS DOWN"] and "Process worker runs again. How often it ended within 10 minutes: 2." in page
    assert "ended and is being started again. Its last exit: signal 9." in shown("starting", "signal 9", 5)


def test_brokers_that_are_away_or_silent_are_told_of_once(
    world: ConsoleBroker, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was said to be wrong once others had the topics of a broker that was gone, or stood still."""
    gone = [
        Problem(kind=Kind.PROCESS_DOWN, sentence=f"Broker {name} does not run: it has not renewed its session.", id=name)
        for name in ("broker-2", "m3")
    ]
    perform = world.perform

    def several(method: Any, request: Any) -> Any:
        answer = perform(method, request)
        if method == PROBLEMS_LIST and request.everywhere:
            answer.problems, answer.total, answer.unreachable = [*gone], {"process_down": 2}, ["broker-2", "m3", "m4"]
        return answer

    monkeypatch.setattr(world, "perform", several)
    page = text(browse("superuser"), "/now")
    assert "Broker m4 is not responding." in page and "3 problems" in page
    assert marks(page) == ["PROCESS DOWN"] * 3
    child = platform_view.ChildRow("broker-2", "backing-off", "", None, 3, "signal 9", timezone.now())
    monkeypatch.setattr(platform_view, "children", lambda silent: ([child], ""))
    page = text(browse("superuser"), "/now")
    assert marks(page) == ["PROCESS DOWN"] * 3 and "Process broker-2 ended" in page and "Broker broker-2 does" not in page
    assert marks(text(browse("owner"), "/now")) == []


def test_a_task_that_failed_says_why(world: ConsoleBroker, browse: Browse) -> None:
    world.set_problems()
    why = {"code": "not_ready", "why": "broker m2 is not running: start it and try again"}
    TaskRun.objects.create(name=TASKS[0].name, task_id="9", outcome=TaskRun.Outcome.FAILED, started_at=timezone.now(), summary=why)
    page = text(browse("superuser"), "/now")
    assert f"Task “{TASKS[0].title}” failed: broker m2 is not running: start it and try again." in page
