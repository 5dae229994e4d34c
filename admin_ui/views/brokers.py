"""Brokers of a fleet, for the platform's administrators: which bundles each has, and which policies say where they may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.bundle_list import AWAY, FIGURES, BundleRow, loads_of
from admin_ui.form_pages import button_page, carried_out, confirm_page
from admin_ui.forms import PLAIN, EntityField
from admin_ui.pages import navigation, sentence, show, show_message
from admin_ui.row_list import Column, list_items
from admin_ui.translation.texts import gettext, gettext_lazy, ngettext
from messaging.adminrpc.base import Request
from messaging.adminrpc.brokers import BrokerSeen
from messaging.adminrpc.bundles import BundleLoads
from messaging.adminrpc.methods import BROKERS_LIST
from messaging.policies.isolation import EXPRESSION_BYTES_MAX, EXPRESSIONS_MAX, Isolation, IsolationRules
from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.actions.brokers import drain_broker
from tenants.actions.placement import (
    BROKERS_OF_DOMAIN_MAX,
    delete_failure_domain,
    delete_isolation_policy,
    failure_domains,
    isolation_policies,
    set_failure_domain,
    set_isolation_policy,
)

COLUMNS = (
    Column("namespace", gettext_lazy("Namespace"), value=lambda row: row.namespace),
    Column("bundle", gettext_lazy("Bundle"), value=lambda row: row.bundle),
    *(column for column in FIGURES if column.key not in ("producers", "consumers")),
    Column("placement", gettext_lazy("Placement")),
)


@dataclass(frozen=True)
class BrokerShown:
    """`loads` None: it did not answer, as `away` says. `roles`: (policy, whether it is primary)."""

    broker_id: str
    loads: BundleLoads | None
    away: str
    domain: str
    roles: list[tuple[str, bool]]

    @property
    def load(self) -> float:
        return 0.0 if self.loads is None else sum(each.load for each in self.loads.bundles)


class ExpressionsField(forms.CharField):
    """One a line."""

    def __init__(self, **about: Any) -> None:
        length_max = EXPRESSIONS_MAX * (EXPRESSION_BYTES_MAX + 2)
        super().__init__(max_length=length_max, widget=forms.Textarea(attrs={**PLAIN, "rows": 3}), **about)


class IsolationForm(forms.Form):
    name = EntityField("isolation policy", label="Name")
    namespaces = ExpressionsField(
        label="Namespaces", help_text="One expression a line, such as acme/.*; the whole tenant/namespace has to match."
    )
    primary = ExpressionsField(
        label="Primary brokers", help_text="One expression a line, for ids of brokers. They are reserved for these namespaces."
    )
    secondary = ExpressionsField(label="Secondary brokers", help_text="Used while too few primary brokers run.", required=False)
    min_limit = forms.IntegerField(
        label="Fewest primary brokers", help_text="With fewer than this, secondary ones are used.", min_value=0, initial=1
    )
    unload_scope = forms.ChoiceField(
        label="Bundles that move at once",
        choices=[
            ("changed", gettext_lazy("Those that are not where they may be")),
            ("all_matching", gettext_lazy("All of these namespaces")),
            ("none", gettext_lazy("None, until they are unloaded")),
        ],
    )

    def isolation(self, usage_threshold: int) -> Isolation:
        given = self.cleaned_data
        lines = {field: tuple(given[field].split()) for field in ("namespaces", "primary", "secondary")}
        return Isolation(**lines, min_limit=given["min_limit"], usage_threshold=usage_threshold, unload_scope=given["unload_scope"])


class DomainForm(forms.Form):
    name = EntityField("failure domain", label="Name")
    brokers = forms.CharField(
        label="Brokers",
        help_text="Ids of brokers that may fail together, one a line. Each is in one domain at most.",
        max_length=BROKERS_OF_DOMAIN_MAX * (NAME_LENGTH_MAX + 2),
        widget=forms.Textarea(attrs={**PLAIN, "rows": 4}),
    )


@page
def brokers(request: ConsoleRequest) -> HttpResponse:
    answer, away = broker.ask_or_why(lambda rpc: rpc.call(BROKERS_LIST, Request()))
    seen = [] if answer is None else answer.brokers
    policies = isolation_policies()
    rules, live = IsolationRules(policies), [each.broker_id for each in seen if each.live]
    domains = failure_domains()
    told = loads_of(live)  # one that is known to be away is not waited for
    rows = [_shown(each, told.get(each.broker_id, (None, str(AWAY))), rules, domains) for each in seen]
    chosen = next((row for row in rows if row.loads and row.broker_id == request.GET.get("broker", row.broker_id)), None)
    bundles = (
        [BundleRow(each.namespace, each.bundle, chosen.broker_id, each) for each in chosen.loads.bundles]
        if chosen and chosen.loads
        else []
    )
    query = request.GET.copy()
    query.setdefault("bundlessort", "-load")
    listed = list_items(query, bundles, COLUMNS, text=lambda row: f"{row.namespace} {row.bundle}", name="bundles")
    return show(
        request,
        "pages/brokers.html",
        navigation(request, "platform"),
        crumbs=_crumbs(),
        away=sentence(away),
        brokers=rows,
        several=len(seen) > 1,
        chosen=chosen,
        listed=listed,
        bundles=[(row, _misplaced(row, rules, live)) for row in listed.rows],
        policies=policies,
        problems=rules.problems(live) if len(seen) > 1 else [],
        domains=domains,
    )


def _crumbs(*further: tuple[str, str]) -> list[tuple[str, str]]:
    return [(gettext("Platform"), reverse("console:platform")), *further]


def _shown(
    seen: BrokerSeen, told: tuple[BundleLoads | None, str], rules: IsolationRules, domains: Mapping[str, Sequence[str]]
) -> BrokerShown:
    loads, away = told
    domain = next((name for name, members in domains.items() if seen.broker_id in members), "")
    roles = [(name, role == "primary") for name, role in rules.roles_of(seen.broker_id).items()]
    return BrokerShown(seen.broker_id, loads, sentence(away), domain, roles)


def _misplaced(row: BundleRow, rules: IsolationRules, live: list[str]) -> str:
    """The policy that keeps its namespace from this broker; "": it may be there."""
    if row.broker_id in rules.among(row.namespace, live):
        return ""
    return rules.policy_of(row.namespace) or gettext("reserved by other policies")


# --- what is done ---------------------------------------------------------------------------------------------------------------


@page
def broker_drain(request: ConsoleRequest, broker_id: str) -> HttpResponse:
    left: list[int] = []

    def drain() -> None:
        left.append(drain_broker(request.actor, broker_id))

    def done() -> str:
        if not left[0]:
            return gettext("Broker {broker_id} has given all its bundles away.").format(broker_id=broker_id)
        return ngettext(
            "{count} bundle stays with broker {broker_id}: no other broker may have it.",
            "{count} bundles stay with broker {broker_id}: no other broker may have them.",
            left[0],
        ).format(count=left[0], broker_id=broker_id)

    back = reverse("console:brokers")
    return confirm_page(
        request,
        navigation(request, "platform"),
        drain,
        crumbs=_crumbs((gettext("Brokers"), back)),
        heading=gettext("Drain broker {broker_id}").format(broker_id=broker_id),
        impact=[
            gettext(
                "It gives its bundles to the other brokers, and takes none until it starts or takes them again. Clients follow."
            ),
            gettext("Bundles that isolation policies allow to no other broker stay, and are not served once it stops."),
        ],
        submit=gettext("Drain"),
        done=done,
        back=back,
    )


@page
def broker_end_drain(request: ConsoleRequest, broker_id: str) -> HttpResponse:
    text = gettext("Broker {broker_id} takes bundles again.").format(broker_id=broker_id)
    back = reverse("console:brokers")
    return button_page(request, lambda: drain_broker(request.actor, broker_id, ends=True), back, lambda _: (text, back))


@page
def isolation_policy_create(request: ConsoleRequest) -> HttpResponse:
    return _policy_form(request, IsolationForm(request.POST or None), gettext("Set isolation policy"))


@page
def isolation_policy(request: ConsoleRequest, policy: str) -> HttpResponse:
    isolation = isolation_policies().get(policy)
    if isolation is None:
        raise Http404
    lines = {field: "\n".join(getattr(isolation, field)) for field in ("namespaces", "primary", "secondary")}
    initial: dict[str, Any] = {"name": policy, "min_limit": isolation.min_limit, "unload_scope": isolation.unload_scope, **lines}
    form = IsolationForm(request.POST or None, initial=initial)
    form.fields["name"].disabled = True
    return _policy_form(request, form, gettext("Isolation policy {policy}").format(policy=policy), isolation.usage_threshold)


def _policy_form(request: ConsoleRequest, form: IsolationForm, heading: str, usage_threshold: int = 100) -> HttpResponse:
    return _placement_form(
        request,
        form,
        lambda: set_isolation_policy(request.actor, form.cleaned_data["name"], form.isolation(usage_threshold)),
        heading=heading,
        intro=gettext("While no broker runs that the policy names, its namespaces are not served: isolation comes first."),
        submit=gettext("Set policy"),
        done=gettext("The policy is in force; bundles move now."),
    )


@page
def isolation_policy_delete(request: ConsoleRequest, policy: str) -> HttpResponse:
    if policy not in isolation_policies():
        raise Http404
    return _deletion(
        request,
        lambda: delete_isolation_policy(request.actor, policy),
        heading=gettext("Delete isolation policy {policy}").format(policy=policy),
        impact=gettext("Its namespaces may be at any broker that is not reserved. No bundle moves because of it."),
        submit=gettext("Delete policy"),
        done=gettext("The policy is deleted."),
    )


# --- failure domains ------------------------------------------------------------------------------------------------------------


@page
def failure_domain_create(request: ConsoleRequest) -> HttpResponse:
    return _domain_form(request, DomainForm(request.POST or None), gettext("Set failure domain"))


@page
def failure_domain(request: ConsoleRequest, domain: str) -> HttpResponse:
    members = failure_domains().get(domain)
    if members is None:
        raise Http404
    form = DomainForm(request.POST or None, initial={"name": domain, "brokers": "\n".join(members)})
    form.fields["name"].disabled = True
    return _domain_form(request, form, gettext("Failure domain {domain}").format(domain=domain))


def _domain_form(request: ConsoleRequest, form: DomainForm, heading: str) -> HttpResponse:
    return _placement_form(
        request,
        form,
        lambda: set_failure_domain(request.actor, form.cleaned_data["name"], form.cleaned_data["brokers"].split()),
        heading=heading,
        intro=gettext(
            "Bundles of namespaces that should not fail together go to different failure domains, as far as there are enough."
        ),
        submit=gettext("Set failure domain"),
        done=gettext("The failure domain is set; it counts where bundles are placed from now on."),
    )


@page
def failure_domain_delete(request: ConsoleRequest, domain: str) -> HttpResponse:
    if domain not in failure_domains():
        raise Http404
    return _deletion(
        request,
        lambda: delete_failure_domain(request.actor, domain),
        heading=gettext("Delete failure domain {domain}").format(domain=domain),
        impact=gettext("Each of its brokers counts as one that fails by itself. No bundle moves because of it."),
        submit=gettext("Delete failure domain"),
        done=gettext("The failure domain is deleted."),
    )


def _deletion(
    request: ConsoleRequest, act: Callable[[], object], *, heading: str, impact: str, submit: str, done: str
) -> HttpResponse:
    """A page that says what a deletion means, and asks; its answer leads back to the brokers."""
    back = reverse("console:brokers")
    return confirm_page(
        request,
        navigation(request, "platform"),
        act,
        crumbs=_crumbs((gettext("Brokers"), back)),
        heading=heading,
        impact=[impact],
        submit=submit,
        done=done,
        back=back,
        final=True,
    )


def _placement_form(
    request: ConsoleRequest, form: forms.Form, act: Callable[[], object], *, heading: str, intro: str, submit: str, done: str
) -> HttpResponse:
    """A page with `form`, whose answer is carried out by `act` and leads back to the brokers."""
    back = reverse("console:brokers")
    if carried_out(request, form, act):
        show_message(request, done)
        return HttpResponseRedirect(back)
    return show(
        request,
        "pages/form.html",
        navigation(request, "platform"),
        heading=heading,
        intro=intro,
        form=form,
        submit=submit,
        crumbs=_crumbs((gettext("Brokers"), back)),
        cancel_url=back,
    )
