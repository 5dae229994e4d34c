"""Every page against every kind of person: the permission table against the URL configuration, and what each person gets; and what
each page says while the broker is away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from allauth.account.models import EmailAddress, get_emailconfirmation_model
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.test import Client, RequestFactory
from django.urls import ResolverMatch, URLPattern, reverse
from django.utils import timezone

from admin_ui import routing, urls
from admin_ui.access import page
from admin_ui.sign_in import urls as account_urls
from controlplane.permissions import CONSOLE
from messaging.permissions.model import Action
from messaging.permissions.roles import BUILT_IN, OF_TENANT
from messaging.policies.isolation import Isolation
from tenants.access import platform_actor
from tenants.actions import create_key, set_custom_role, set_team
from tenants.actions.change import record
from tenants.actions.placement import set_failure_domain, set_isolation_policy
from tenants.models import AuditRecord, Tenant, TokenIssuer, User
from tenants.sign_in.secrecy import encrypt
from tests.admin_ui.console_broker import ConsoleBroker
from tests.admin_ui.people import PLACED
from tests.support.billing.billing_rows import APRIL, MARCH, run_of, with_plan
from tests.support.recycled_namespaces import recycled_namespace, recycled_tenant
from workers.alerts.models import AlertRule
from workers.audit_streams.actions import set_stream
from workers.billing.budget_actions import create_budget, create_schedule
from workers.billing.drafts import refresh
from workers.billing.reports import make
from workers.redrive.models import RedriveJob

FILLING: dict[str, object] = {
    "tenant": "acme",
    "namespace": "orders",
    "topic": "placed",
    "person": "teammate",
    "subscription": "s",
    "run_id": "r1",
    "role": "keeper",
    "team": "payments",
    "issuer": "corp",
    "pk": 999_999,
    "secret": "nothing",
    "job": "j1",
    "recycled": "x1",
    "entry": "x1",
    "message_id": "99:0",
    "rule": "a1",
    "page": "getting-started",
    "picture": "console.png",
    "view": 999_999,
    "broker_id": "broker-1",
    "policy": "gold",
    "domain": "rack-1",
    "bundle": "0x00000000_0x40000000",
}
METADATA = BUILT_IN["metadata"].actions
# What each person gets: may they see it (2xx or 3xx), are they told no (403), or is it not there for them (404)?
EXPECTED = {
    Action.PUBLIC: {"owner": "yes", "teammate": "yes", "stranger": "yes", "superuser": "yes"},
    Action.AUTHENTICATED: {"owner": "yes", "teammate": "yes", "stranger": "yes", "superuser": "yes"},
    # The teammate has the role `metadata`.
    **{
        action: {"owner": "yes", "teammate": "yes" if action in METADATA else "403", "stranger": "404", "superuser": "yes"}
        for action in OF_TENANT
    },
    Action.SUPERUSER: {"owner": "403", "teammate": "403", "stranger": "404", "superuser": "yes"},
}
HIDDEN = (
    "console:tenant_delete",
    "console:tenant_policies",
    "console:ceilings",
    "console:billing",
)  # of superusers, with a tenant in the address
# Pages that exist only where there is a sign-in provider: `tests/admin_ui/sign_in/test_openid.py` tries them.
OF_PROVIDERS = ("openid_connect_login", "openid_connect_callback", "socialaccount_login_cancelled")
AWAY = "is not responding"
# What is told in another way while the broker is away.
TOLD_AS = {
    "console:ceilings": "unknown",  # each use of a ceiling
    "console:delayed_chart": "",  # a picture in a page that says it
}
ROWS = sorted((method, name) for method, name in CONSOLE if method != "WEBSOCKET" and name not in OF_PROVIDERS)


def names_of_pages() -> set[str]:
    return {str(pattern.name) for pattern in account_patterns()} | {
        f"{urls.app_name}:{pattern.name}" for pattern in urls.urlpatterns
    }


def account_patterns() -> list[URLPattern]:
    """Without the names by which allauth finds our own pages: those are never what an address resolves to."""
    return [pattern for pattern in account_urls.urlpatterns if pattern not in account_urls.aliases]


def pattern_of(name: str) -> URLPattern:
    return next(it for it in [*urls.urlpatterns, *account_patterns()] if name in (f"console:{it.name}", it.name))


def test_every_page_has_a_row_and_every_row_a_page() -> None:
    assert {name for method, name in CONSOLE if method != "WEBSOCKET"} == names_of_pages()


def test_every_websocket_has_a_row_and_every_row_a_websocket() -> None:
    sockets = {f"console:{pattern.name}" for pattern in routing.websocket_urlpatterns}
    assert {name for method, name in CONSOLE if method == "WEBSOCKET"} == sockets


def test_every_view_is_guarded() -> None:
    for pattern in [*urls.urlpatterns, *account_urls.urlpatterns]:
        assert getattr(pattern.callback, "guarded", False), f"{pattern.name} is not wrapped by admin_ui.access.page"


def address(name: str) -> str:
    pattern = pattern_of(name)
    if name == "account_reset_password_from_key":
        return reverse(name, kwargs={"uidb36": "1", "key": "k"})
    if name == "account_confirm_email":
        return reverse(name, args=[address_to_confirm()])
    filling = {**FILLING, "key_id": create_key_of_acme()} if "key_id" in pattern.pattern.converters else FILLING
    if "invoice" in pattern.pattern.converters:
        filling = {**filling, "invoice": invoice_of_acme()}
    if {"budget", "schedule", "report", "run"} & set(pattern.pattern.converters):
        filling = {**filling, **budget_and_report_of_acme()}
    if "record" in pattern.pattern.converters:
        filling = {**filling, "record": move_of_acme()}
    if "role" in pattern.pattern.converters:
        set_custom_role(platform_actor(), "acme", "keeper", ["produce"])
    if "issuer" in pattern.pattern.converters:
        TokenIssuer.unscoped.create(
            tenant_id="acme", name="corp", issuer="i", audience="a", jwks_url="https://i/", roles={"v": "app"}
        )
    if name.endswith("audit_stream_delete"):
        set_stream(platform_actor(), "" if "platform" in name else "acme", "https://siem.example/in", oldest=False)
    if "team" in pattern.pattern.converters:
        set_team(platform_actor(), "acme", "payments", [])
    if "policy" in pattern.pattern.converters:
        set_isolation_policy(platform_actor(), "gold", Isolation(("acme/.*",), ("broker-1",)))
    if "domain" in pattern.pattern.converters:
        set_failure_domain(platform_actor(), "rack-1", ["broker-1"])
    if "job" in pattern.pattern.converters:
        create_redrive_of_acme()
    if "rule" in pattern.pattern.converters:
        uid = Tenant.unscoped.get(name="acme").uid
        of_acme = {"tenant": "acme", "tenant_uid": uid, "topic": PLACED, "created_at": timezone.now()}
        AlertRule.unscoped.create(id="a1", name="large", kind="backlog_bytes", **of_acme)
    return reverse(name, kwargs={key: filling[key] for key in pattern.pattern.converters})


def address_to_confirm() -> str:
    user = User.objects.get(username="owner")
    address = EmailAddress.objects.create(user=user, email="olga@acme.test", verified=False, primary=True)
    return str(get_emailconfirmation_model().create(address).key)


def have_second_factors(username: str) -> None:
    seed = encrypt("00" * 20)
    for kind, data in (("totp", {"secret": "unread"}), ("recovery_codes", {"seed": seed, "used_mask": 0})):
        Authenticator.objects.create(user=User.objects.get(username=username), type=kind, data=data)


def create_redrive_of_acme() -> None:
    fields = {"topic": PLACED, "target": PLACED, "tenant": "acme", "tenant_uid": Tenant.unscoped.get(name="acme").uid}
    RedriveJob.unscoped.create(id=str(FILLING["job"]), idempotency_key="once", created_at=timezone.now(), **fields)


def create_key_of_acme() -> str:
    from tenants.access import actor_of_user

    return create_key(actor_of_user(User.objects.get(username="superuser")), "acme", "checkout").key.id


def invoice_of_acme() -> str:
    acme = Tenant.unscoped.get(name="acme")
    with_plan(acme)
    made = refresh(acme, MARCH, APRIL)
    assert made is not None
    return made.pk


def move_of_acme() -> int:
    record(platform_actor(), "subscription.reset", "acme", f"{PLACED}/s", {PLACED: "-1:-1"}, {})
    return AuditRecord.unscoped.latest("id").id


def budget_and_report_of_acme() -> dict[str, str]:
    actor = platform_actor()
    budget = create_budget(actor, "acme", "All", "1.00", "EUR")
    schedule = create_schedule(actor, "acme", "Daily", "day", "topic")
    day = schedule.made_until
    report = make(settings.MAGNETAR, schedule, day, day, run_of("run-1", MARCH).requested_at)
    return {"budget": budget.pk, "schedule": schedule.pk, "report": report.pk, "name": "report.csv", "run": "run-1"}


def prepare(name: str, person: str, broker: ConsoleBroker) -> str:
    """The address of a page, of something that is there."""
    if "s" not in broker.real.topics.get(PLACED, ()):
        broker.real.add(PLACED, "s")
    if "recycled" in pattern_of(name).pattern.converters:
        broker.real.recycle(PLACED, str(FILLING["recycled"]))
    if "entry" in pattern_of(name).pattern.converters:
        place, made = (recycled_namespace, "acme/gone") if "namespace" in name else (recycled_tenant, "gone")
        place(platform_actor(), made, str(FILLING["entry"]))
    if name.startswith("mfa_") and person:
        have_second_factors(person)
    return address(name)


@contextmanager
def taken_back() -> Iterator[None]:
    """What is done to the database meanwhile."""
    point = transaction.savepoint()
    yield
    transaction.savepoint_rollback(point)
    cache.clear()


def asks_to_sign_in(response: HttpResponseBase) -> bool:
    return response.status_code == 302 and str(response["Location"]).startswith("/sign-in")


def verdict(response: HttpResponseBase) -> str:
    return "yes" if response.status_code < 400 else str(response.status_code)


def expected_of(method: str, name: str) -> dict[str, str]:
    """By person, "" for nobody."""
    action = CONSOLE[(method, name)]
    expected = {**EXPECTED[action], "": "yes" if action is Action.PUBLIC else "sign in"}
    if action is Action.SUPERUSER and name not in HIDDEN:
        expected["stranger"] = "403"  # no tenant in the address: there is nothing to hide
    return expected


@pytest.mark.parametrize(("method", "name"), ROWS, ids=[f"{method} {name}" for method, name in ROWS])
def test_what_each_person_gets(
    method: str, name: str, broker: ConsoleBroker, browse: Callable[[str], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who may do less come first: what they are refused is still there for the others."""
    monkeypatch.setattr("admin_ui.views.usage.request_usage_run", lambda requested_by: "run-1")  # there is no worker here
    guarded, got = CONSOLE[(method, name)] is not Action.PUBLIC, {}
    for person in ("", "stranger", "teammate", "owner", "superuser"):
        with taken_back():
            where = prepare(name, person, broker)
            form = "decision=requeue" if name == "console:task_decide" else ""  # others answer an empty form with a page
            response = browse(person).generic(method, where, form, "application/x-www-form-urlencoded")
            got[person] = "sign in" if guarded and not person and asks_to_sign_in(response) else verdict(response)
    assert got == expected_of(method, name)


def test_what_is_not_there_looks_like_what_is_not_yours(browse: Callable[[str], Client]) -> None:
    """The same answer, but for the request's own id, for a tenant of somebody else's and for one that does not exist."""
    stranger, differing = browse("stranger"), []
    for pattern in urls.urlpatterns:
        if "tenant" not in pattern.pattern.converters:
            continue
        name, answers = f"console:{pattern.name}", []
        for tenant in ("acme", "nowhere"):
            filling = {
                **FILLING,
                "key_id": "k",
                "invoice": "i",
                "record": 1,
                "tenant": tenant,
                **dict.fromkeys(("budget", "schedule", "report", "name"), "x"),
            }
            method = "GET" if ("GET", name) in CONSOLE else "POST"
            where = reverse(name, kwargs={key: filling[key] for key in pattern.pattern.converters})
            response = stranger.generic(method, where)
            answers.append((response.status_code, response.content.replace(response["X-Request-ID"].encode(), b"")))
        if answers[0] != answers[1] or answers[0][0] != 404:
            differing.append((name, answers))
    assert differing == []


def test_nothing_is_kept_by_caches_or_shown_in_a_frame(broker: ConsoleBroker, browse: Callable[[str], Client]) -> None:
    """What the jump dialog found said nothing of caches."""
    kept, framed = [], []
    for name in (name for method, name in ROWS if method == "GET" and name != "console:docs_picture"):
        with taken_back():
            response = browse("superuser").get(prepare(name, "superuser", broker))
        if response.status_code == 200 and "no-store" not in response.headers.get("Cache-Control", ""):
            kept.append(name)
        if response["X-Frame-Options"] != "DENY" or "frame-ancestors 'none'" not in response["Content-Security-Policy"]:
            framed.append(name)
    assert (kept, framed) == ([], [])


def test_ids_of_another_tenant_name_nothing_within_ones_own(broker: ConsoleBroker, browse: Callable[[str], Client]) -> None:
    """Every page with an id in its address, of what is acme's, asked for as globex's."""
    place, shown, tried = {"tenant", "namespace", "topic", "subscription"}, [], 0
    ids = {
        "key_id",
        "invoice",
        "budget",
        "schedule",
        "report",
        "run",
        "record",
        "role",
        "team",
        "issuer",
        "job",
        "rule",
        "recycled",
    }
    broker.real.add("persistent://globex/edge/placed", "s")
    for method, name in ROWS:
        converters = set(pattern_of(name).pattern.converters)
        if "tenant" not in converters or not ids & converters - place:
            continue
        with taken_back():
            where = prepare(name, "stranger", broker).replace("/tenants/acme", "/tenants/globex")
            response = browse("stranger").generic(method, where.replace("/namespaces/orders", "/namespaces/edge"))
        tried += 1
        if response.status_code != 404 and "/globex" not in response.headers.get("Location", ""):  # a list that says: not there
            shown.append((method, name, response.status_code))
    assert shown == [] and tried > 30


def test_a_superuser_gets_404_for_what_does_not_exist(browse: Callable[[str], Client]) -> None:
    assert browse("superuser").get("/tenants/nowhere").status_code == 404
    assert browse("superuser").get("/tenants/acme/namespaces/nowhere").status_code == 404
    assert browse("superuser").get("/tenants/acme/namespaces/orders/topics/nowhere").status_code == 404
    assert browse("superuser").get("/tenants/acme/keys/nowhere/revoke").status_code == 404


def test_a_key_of_another_tenant_cannot_be_revoked_by_its_id(browse: Callable[[str], Client]) -> None:
    key_id = create_key_of_acme()
    assert browse("stranger").get(f"/tenants/globex/keys/{key_id}/revoke").status_code == 404
    assert browse("stranger").post(f"/tenants/globex/keys/{key_id}/revoke", {"confirm": "checkout"}).status_code == 404


def test_the_list_holds_only_what_is_yours(browse: Callable[[str], Client]) -> None:
    assert b"globex" not in browse("teammate").get("/tenants").content
    assert b"acme" not in browse("stranger").get("/tenants").content
    both = browse("superuser").get("/tenants").content
    assert b"acme" in both and b"globex" in both


def test_a_page_without_a_row_is_refused(world: ConsoleBroker) -> None:
    from django.core.exceptions import PermissionDenied

    @page
    def forgotten(request: object) -> HttpResponse:
        return HttpResponse("secret")

    request = RequestFactory().get("/forgotten")
    request.user = User.objects.get(username="superuser")
    request.resolver_match = ResolverMatch(forgotten, (), {}, "forgotten", namespaces=["console"])
    with pytest.raises(PermissionDenied):
        forgotten(request)


def test_a_method_without_a_row_is_not_allowed(browse: Callable[[str], Client]) -> None:
    response = browse("owner").delete("/tenants/acme")
    assert response.status_code == 405 and response["Allow"] == "GET"
    assert browse("owner").get("/sign-out").status_code == 405


def test_a_person_who_was_deactivated_is_out(browse: Callable[[str], Client]) -> None:
    client = browse("owner")
    User.objects.filter(username="owner").update(is_active=False)
    assert client.get("/tenants/acme").status_code == 302


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_whatever_needs_the_broker_says_that_it_is_away(
    method: str, broker: ConsoleBroker, browse: Callable[[str], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admin_ui.views.usage.request_usage_run", lambda requested_by: "run-1")  # there is no worker here
    asked, failed = [], {}
    for name in [name for of, name in ROWS if of == method]:
        with taken_back():
            where = prepare(name, "superuser", broker)
            cache.clear()
            fault = broker.cut()
            fault.surely = False
            client = browse("superuser")
            response = client.generic(method, where)
            if response.status_code == 302 and fault.fired:
                response = client.get(response["Location"])  # what is told is told there
            broker.mend()
            body = "" if response.streaming else response.content.decode(errors="replace")
            if fault.fired:
                asked.append(name)
            if response.status_code >= 500 or (fault.fired and TOLD_AS.get(name, AWAY) not in body):
                failed[name] = response.status_code
    assert failed == {}
    assert len(asked) > 10, asked
