"""What pages do and say: changes, the token that is in one answer, and honesty while the broker is away."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.conf import settings as django_settings
from django.utils import timezone
from structlog.testing import capture_logs

from admin_ui import platform_view
from messaging.adminrpc.base import A, Method, R
from messaging.adminrpc.brokers import BrokerAsked, BrokerSeen, BrokersSeen
from messaging.adminrpc.methods import BROKERS_LIST, STATUS
from messaging.errors import NotReady
from messaging.policies.groups import SUBJECTS
from tenants.access import actor_of_user
from tenants.actions import create_key, create_namespace
from tenants.models import Namespace, Tenant, User
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.pages import NAMESPACE, Browse, text
from tests.admin_ui.people import ORDERS, PLACED
from tests.admin_ui.scripted_live import live_row, unloaded_row
from workers.models import TaskRun


def test_a_tenant_is_made_and_deleted_by_its_name(browse: Browse) -> None:
    client = browse("superuser")
    assert "is not valid" in client.post("/new-tenant", {"name": "a/b"}).content.decode()
    assert client.post("/new-tenant", {"name": "initech"})["Location"] == "/tenants/initech"
    assert "already exists" in client.post("/new-tenant", {"name": "initech"}).content.decode()
    assert "This does not match initech" in client.post("/tenants/initech/delete", {"confirm": "initec"}).content.decode()
    assert Tenant.unscoped.filter(name="initech").exists()
    assert client.post("/tenants/initech/delete", {"confirm": "initech"})["Location"] == "/tenants"
    assert not Tenant.unscoped.filter(name="initech").exists()
    assert "still has namespaces" in client.post("/tenants/acme/delete", {"confirm": "acme"}).content.decode()


def test_a_namespace_is_made_and_deleted_by_its_name(browse: Browse, world: ConsoleBroker) -> None:
    client = browse("owner")
    assert client.post("/tenants/acme/new-namespace", {"name": "payments"})["Location"] == "/tenants/acme/namespaces/payments"
    assert "1 topic and all messages, 7 of them in backlogs" in text(client, f"{NAMESPACE}/delete")
    client.post(f"{NAMESPACE}/delete", {"confirm": "orders"})
    assert Namespace.unscoped.filter(name=ORDERS).exists()
    client.post(f"{NAMESPACE}/delete", {"confirm": ORDERS})
    assert not Namespace.unscoped.filter(name=ORDERS).exists()
    assert world.topics == set()


def test_what_is_not_known_is_no_zero_before_the_first_live_answer(browse: Browse, world: ConsoleBroker) -> None:
    world.set_rows(ORDERS, [live_row(PLACED, backlog_entries=40), unloaded_row(f"{PLACED}-next")])
    client = browse("owner")
    page = text(client, NAMESPACE)
    assert "≥ 40<" in page
    assert page.count('data-figure="namespace.backlog_entries">–</td>') == 1
    assert "2 topics and all messages, at least 40 of them in backlogs" in text(client, f"{NAMESPACE}/delete")
    world.set_rows(ORDERS, [unloaded_row(PLACED)])
    assert "1 topic and all messages, an unknown number of them in backlogs" in text(client, f"{NAMESPACE}/delete")


def test_policies_say_what_is_in_force_and_where_it_comes_from(browse: Browse) -> None:
    page = text(browse("owner"), f"{NAMESPACE}/policies")
    assert page.count('<th scope="row" class="wrap"><a href="?policy=') == len(SUBJECTS)
    assert page.count('<td class="source wrap">broker default') == len(SUBJECTS)


def test_what_was_stored_earlier_and_is_not_enforced_can_be_removed(browse: Browse) -> None:
    client = browse("owner")
    page = text(client, f"{NAMESPACE}/policies")
    assert '<h2 id="idle-title">Not enforced</h2>' not in page
    Namespace.unscoped.filter(name=ORDERS).update(policies={"replicator_dispatch_rate_messages": 7, "message_ttl_s": 60})
    assert "replicator_dispatch_rate_messages" in text(browse("teammate"), f"{NAMESPACE}/policies")
    assert '<h2 id="idle-title">Not enforced</h2>' in text(client, f"{NAMESPACE}/policies")
    assert browse("teammate").post(f"{NAMESPACE}/policies", {"remove": "replicator_dispatch_rate_messages"}).status_code == 403
    assert client.post(f"{NAMESPACE}/policies", {"remove": "replicator_dispatch_rate_messages"}).status_code == 302
    assert Namespace.unscoped.get(name=ORDERS).policies == {"message_ttl_s": 60}


@pytest.mark.parametrize("path", [NAMESPACE, f"{NAMESPACE}/topics/placed", f"{NAMESPACE}/delete", "/platform"])
def test_pages_say_that_the_broker_is_away(path: str, browse: Browse, world: ConsoleBroker) -> None:
    world.cut("the broker was unplugged")
    assert "the broker was unplugged" in text(browse("superuser"), path).replace("The broker", "the broker")


def test_pages_of_the_database_do_not_ask_the_broker(browse: Browse, world: ConsoleBroker) -> None:
    world.calls.clear()
    for path in ("/tenants", "/tenants/acme", "/tenants/acme/keys", f"{NAMESPACE}/policies", f"{NAMESPACE}/quick-start", "/usage"):
        text(browse("owner"), path)
    assert world.calls == []


def test_a_list_costs_the_same_however_long_it_is(browse: Browse, django_assert_max_num_queries: Callable[..., object]) -> None:
    actor = actor_of_user(User.objects.get(username="owner"))
    client = browse("owner")
    for number in range(15):
        create_namespace(actor, f"acme/n{number}")
        create_key(actor, "acme", f"k{number}")
    for path in ("/tenants", "/tenants/acme", "/tenants/acme/keys"):
        with django_assert_max_num_queries(20):  # type: ignore[attr-defined]
            text(client, path)


def test_the_first_paint_has_the_topics(browse: Browse) -> None:
    page = text(browse("teammate"), NAMESPACE)
    assert f'href="{NAMESPACE}/topics/placed"' in page
    assert "New topic" not in page and "Quick start" not in page  # a member looks


def test_the_names_of_topics_are_text(browse: Browse, world: ConsoleBroker) -> None:
    """A name with everything that HTML, JSON and addresses know: it is shown, and leads where it says."""
    local = "<script>alert('x')</script>&\"100%?#"
    name = f"persistent://acme/orders/{local}".replace("/script", "|script")
    world.real.add(name)
    from urllib.parse import quote

    path = f"{NAMESPACE}/topics/{quote(name.rpartition('orders/')[2], safe='')}"
    page = text(browse("owner"), path)
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    program = text(browse("owner"), f"{NAMESPACE}/quick-start", topic=name.rpartition("orders/")[2])
    assert "<script>alert" not in program


def test_the_quick_start_speaks_of_real_addresses(browse: Browse) -> None:
    run = Path(django_settings.MAGNETAR.data_dir) / "run"
    run.mkdir(exist_ok=True)
    (run / "broker.json").write_text(
        json.dumps({"broker_url": "pulsar://broker.example:7650", "ws_url": "ws://broker.example:7081"})
    )
    try:
        page = text(browse("owner"), f"{NAMESPACE}/quick-start")
    finally:
        (run / "broker.json").unlink()
    assert "pulsar://broker.example:7650" in page and "ws://broker.example:7081" in page
    assert "not running" in text(browse("owner"), f"{NAMESPACE}/quick-start")


def test_the_platform_page_shows_each_of_several_brokers(
    browse: Browse, world: ConsoleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    perform = world.perform
    first = perform(STATUS, BrokerAsked()).broker_id

    def several(method: Method[R, A], request: R) -> Any:
        if method.name == BROKERS_LIST.name:
            live = {first: True, "broker-2": True, "broker-3": False, "broker-4": False}
            seen = [BrokerSeen(broker_id=name, live=alive, broker_url=f"pulsar://{name}:1") for name, alive in live.items()]
            seen[-1].problem = "what it left cannot be recovered: its log is damaged"
            return BrokersSeen(brokers=seen)
        if isinstance(request, BrokerAsked) and request.broker_id:
            assert request.broker_id == "broker-2", "one that is away is not waited for"
            raise NotReady("broker-2 did not respond")
        return perform(method, request)

    monkeypatch.setattr(world, "perform", several)
    run = Path(django_settings.MAGNETAR.data_dir) / "run"
    run.mkdir(exist_ok=True)
    child = {"name": "broker-2", "pid": 7, "state": "ready", "restarts": 0, "since": "2026-01-01T00:00:00Z"}
    (run / "supervisor.json").write_text(json.dumps({"children": [child]}))
    try:
        page = text(browse("superuser"), "/platform")
    finally:
        (run / "supervisor.json").unlink()
    assert "Brokers" in page and "pulsar://broker-2:1" in page
    assert "did not respond" in page and "has not renewed its session" in page
    assert "What it left cannot be recovered: its log is damaged." in page
    assert "not responding" in page, "the supervisor only knows that it became ready"


def test_the_platform_page_reads_the_supervisor(browse: Browse) -> None:
    run = Path(django_settings.MAGNETAR.data_dir) / "run"
    run.mkdir(exist_ok=True)
    client = browse("superuser")
    assert "No supervisor is running" in text(client, "/platform")
    child = {"name": "worker", "pid": 7, "state": "backing-off", "restarts": 3, "last_exit": -9, "since": "2026-01-01T00:00:00Z"}
    (run / "supervisor.json").write_text(json.dumps({"children": [child]}))
    try:
        page = text(client, "/platform")
        (run / "supervisor.json").write_text("{")
        assert "cannot be read" in text(client, "/platform")
    finally:
        (run / "supervisor.json").unlink()
    assert "backing-off" in page and "signal 9" in page
    assert "No runs yet" in page
    TaskRun.objects.create(task_id="1", name="expire", started_at=timezone.now(), outcome="succeeded")
    assert "Working" in text(client, "/platform")
    TaskRun.objects.update(started_at=timezone.now() - timedelta(minutes=10))
    assert "Not running tasks" in text(client, "/platform")


def test_a_broker_of_another_machine_is_no_process_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker of this machine was said not to respond while another machine's was away."""
    for own, processes in {
        "broker-1": {"broker-1": "broker", "broker-2": "broker-2", "m2": ""},
        "m1": {"m1": "broker", "m1-2": "broker-2", "m2": "", "broker-2": ""},
    }.items():
        monkeypatch.setattr(django_settings, "MAGNETAR", msgspec.structs.replace(django_settings.MAGNETAR, broker_id=own))
        assert {broker_id: platform_view.process_of(broker_id) for broker_id in processes} == processes


def test_nothing_of_the_console_is_kept_by_caches(browse: Browse) -> None:
    for path in ("/tenants", NAMESPACE, f"{NAMESPACE}/topics/placed"):
        assert browse("owner").get(path)["Cache-Control"] == "no-store"


def test_the_topic_page_shows_its_clients(browse: Browse, world: ConsoleBroker) -> None:
    world.stats[PLACED] = {
        "publishers": [{"producerName": "till-7", "msgRateIn": 4.5, "address": "10.0.0.1:99"}],
        "subscriptions": {
            "billing": {"type": "Shared", "msgBacklog": 12, "consumers": [{"consumerName": "worker-3"}]},
            "audit": {"deliveryHealth": "abandoned"},
        },
    }
    page = text(browse("teammate"), f"{NAMESPACE}/topics/placed")
    for words in ("till-7", "10.0.0.1:99", "billing", "worker-3", "NO CONSUMER", "unknown", "none yet", "–"):
        assert words in page
    assert "till-7" in text(browse("teammate"), f"{NAMESPACE}/topics/placed/detail")


def test_while_the_broker_does_not_answer_nothing_is_said_to_be_zero_or_ready(
    browse: Browse, world: ConsoleBroker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world.cut("the broker does not answer")
    page = browse("owner").get(NAMESPACE).content.decode()
    assert re.findall(r'data-total="(?:rate_in|backlog_entries|storage_bytes|topics|consumers)">([^<]*)<', page) == ["–"] * 5
    (tmp_path / "run").mkdir()
    children = [
        {"name": name, "pid": 1, "state": "ready", "restarts": 0, "last_exit": None, "since": ""} for name in ("broker", "web")
    ]
    (tmp_path / "run" / "supervisor.json").write_text(json.dumps({"pid": 1, "children": children}))
    monkeypatch.setattr(django_settings, "MAGNETAR", msgspec.structs.replace(django_settings.MAGNETAR, data_dir=str(tmp_path)))
    rows = re.findall(
        r'<th scope="row">(\w+)</th><td><span class="badge [^"]*">([^<]+)</span>',
        browse("superuser").get("/platform").content.decode(),
    )
    assert rows == [("broker", "not responding"), ("web", "ready")]


def test_a_page_that_asks_again_by_itself_does_not_say_try_again(browse: Browse, world: ConsoleBroker) -> None:
    """Beside "this page fills itself" stood "try again in a moment", and "start it and try again"."""
    world.cut("the broker is not running: start it and try again")
    client = browse("superuser")
    for path in (NAMESPACE, f"{NAMESPACE}/topics/placed", f"{NAMESPACE}/topics/placed/detail", "/platform", f"{NAMESPACE}/delete"):
        page = client.get(path).content.decode().lower()
        assert "the broker is not running" in page and "try again" not in page, path
    page = client.post("/tenants/acme/new-key", {"name": "checkout", "limited_by": "role", "expiry": "never"}).content.decode()
    assert page.count("try again") == 1


def test_a_topic_that_is_not_there_logs_one_line(browse: Browse) -> None:
    """It logged an error with a traceback of thirty lines."""
    with capture_logs() as logged:
        assert browse("owner").get(f"{NAMESPACE}/topics/nowhere").status_code == 404
    assert [(line["event"], line["log_level"], line["why"]) for line in logged] == [("request refused", "info", "Http404")]
    assert "exc_info" not in logged[0]
