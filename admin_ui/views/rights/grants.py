"""What roles were granted in a namespace, on all of it or on a topic, and until when: listed, granted and revoked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from django import forms
from django.db.models import F
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone

from admin_ui import api_calls
from admin_ui.access import ConsoleRequest, page
from admin_ui.addresses import full_name
from admin_ui.calls import calls_of, followed, show_calls
from admin_ui.form_pages import button_page, carried_out
from admin_ui.forms import MEMBER_DAYS, PLAIN
from admin_ui.pages import crumbs, navigation, show, show_message
from admin_ui.row_list import Column, list_rows
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.actions.grants import grant_permission, revoke_permission
from tenants.models import Grant, Key

GRANT_COLUMNS = (
    Column("role", gettext_lazy("Role"), ("role", "topic")),
    Column("topic", gettext_lazy("On"), ("topic", "role")),
    Column("may", gettext_lazy("May")),
    Column("ends", gettext_lazy("Until"), (F("expires_at").asc(nulls_last=True), "role")),
)
ROLES_OFFERED = 200  # while one types
ACTIONS = ("consume", "produce")


class GrantForm(forms.Form):
    role = forms.CharField(
        label="Role",
        max_length=2 * NAME_LENGTH_MAX + 1,
        widget=forms.TextInput(attrs={**PLAIN, "list": "roles"}),
        help_text="NAME@TENANT for keys: all keys of that name have it.",
    )
    topic = forms.CharField(
        label="Topic",
        required=False,
        max_length=NAME_LENGTH_MAX,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Without its namespace. Empty: every topic of the namespace.",
    )
    actions = forms.MultipleChoiceField(
        label="May",
        choices=(("consume", gettext_lazy("Read messages (consume)")), ("produce", gettext_lazy("Publish messages (produce)"))),
        initial=["consume"],
        widget=forms.CheckboxSelectMultiple,
    )
    days = forms.ChoiceField(label="How long", choices=MEMBER_DAYS, initial="0")


@page
def grants(request: ConsoleRequest, tenant: str, namespace: str) -> HttpResponse:
    listed = list_rows(
        request.GET, Grant.objects.filter(namespace=f"{tenant}/{namespace}"), GRANT_COLUMNS, searched=("role", "topic")
    )
    return show(
        request,
        "pages/grants.html",
        navigation(request, "namespace", tenant, namespace),
        crumbs=crumbs(tenant),
        listed=listed,
        grants=[{"row": row, "topic": row.topic.rpartition("/")[2]} for row in listed.rows],
    )


@page
def grant_create(request: ConsoleRequest, tenant: str, namespace: str) -> HttpResponse:
    given: Mapping[str, str] | None = request.GET if followed(request) else request.POST or None
    form = GrantForm(given)
    if followed(request):
        form.is_valid()
        cleaned = form.cleaned_data
        called = api_calls.grant(
            tenant,
            namespace,
            cleaned.get("role") or api_calls.NOT_NAMED,
            cleaned.get("actions") or [],
            int(cleaned.get("days") or 0),
            cleaned.get("topic") or "",
        )
        return show_calls(request, [called])
    back = reverse("console:grants", args=[tenant, namespace])
    if carried_out(request, form, lambda: _grant(request, tenant, namespace, form)):
        show_message(request, gettext("{role} has it from now on.").format(role=form.cleaned_data["role"]))
        return HttpResponseRedirect(back)
    return show(
        request,
        "pages/grant_new.html",
        navigation(request, "namespace", tenant, namespace),
        crumbs=crumbs(tenant, namespace, (gettext("Permissions"), back)),
        form=form,
        roles=list(dict.fromkeys(Key.objects.filter(revoked_at=None).values_list("role", flat=True)[:ROLES_OFFERED])),
        cancel_url=back,
        calls=calls_of(request, [api_calls.grant(tenant, namespace, api_calls.NOT_NAMED, ["consume"])]),
    )


@page
def grant_revoke(request: ConsoleRequest, tenant: str, namespace: str) -> HttpResponse:
    role, topic = (request.POST.get(name, "")[: 4 * NAME_LENGTH_MAX] for name in ("role", "topic"))
    back = reverse("console:grants", args=[tenant, namespace])
    return button_page(
        request,
        lambda: revoke_permission(request.actor, f"{tenant}/{namespace}", role, topic),
        back,
        lambda _: (gettext("{role} has it no more.").format(role=role), back),
    )


def _grant(request: ConsoleRequest, tenant: str, namespace: str, form: GrantForm) -> None:
    given = form.cleaned_data
    days = int(given["days"])
    topic = str(full_name(tenant, namespace, given["topic"])) if given["topic"] else ""
    expires_at = timezone.now() + timedelta(days=days) if days else None
    grant_permission(request.actor, f"{tenant}/{namespace}", given["role"], given["actions"], topic, expires_at)
