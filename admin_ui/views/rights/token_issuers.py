"""Issuers of other organisations whose tokens a tenant accepts: the list with the state of their keys, add, change, remove."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings as django_settings
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import api_calls
from admin_ui.access import ConsoleRequest, page
from admin_ui.calls import calls_of, followed, show_calls
from admin_ui.form_pages import carried_out, confirm_page
from admin_ui.forms import PLAIN, EntityField
from admin_ui.pages import crumbs, navigation, show, show_message
from admin_ui.row_list import Column, list_rows, newest_first
from admin_ui.translation.texts import gettext, gettext_lazy
from tenants.actions.issuers import (
    ISSUERS_MAX,
    ROLES_MAX,
    SKEW_S_MAX,
    IssuerTerms,
    allowed_addresses,
    delete_issuer,
    key_ids,
    set_issuer,
)
from tenants.models import TokenIssuer

ARROW = "=>"  # between a value, which may have any other character, and the name of a key, which has neither


class IssuerForm(forms.Form):
    name = EntityField("issuer", label="Name", help_text="Yours, for this list. Letters, digits and - = : . _")
    issuer = forms.CharField(
        label="Issuer", max_length=255, widget=forms.TextInput(attrs=PLAIN), help_text="The claim iss of its tokens."
    )
    audience = forms.CharField(
        label="Audience",
        max_length=255,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="The claim aud: tokens for somebody else are refused.",
    )
    jwks_url = forms.CharField(
        label="Address of its keys (JWKS)", max_length=1000, widget=forms.TextInput(attrs=PLAIN | {"inputmode": "url"})
    )
    role_claim = forms.CharField(
        label="Claim that decides the role",
        max_length=255,
        initial="sub",
        widget=forms.TextInput(attrs=PLAIN),
        help_text="A text, or a list of texts such as groups.",
    )
    roles = forms.CharField(
        label="Roles",
        max_length=ROLES_MAX * 600,
        widget=forms.Textarea(attrs={**PLAIN, "rows": 5}),
        help_text="One a line, like orders-service => app: tokens with that value have the role of keys named app. The first "
        "that is there counts. You can give only what you have yourself.",
    )
    clock_skew_s = forms.IntegerField(
        label="Clock skew in seconds", min_value=0, max_value=SKEW_S_MAX, initial=60, help_text="How far its clock may be off."
    )

    def clean_roles(self) -> dict[str, str]:
        roles: dict[str, str] = {}
        for line in filter(str.strip, self.cleaned_data["roles"].splitlines()):
            value, arrow, key = (part.strip() for part in line.rpartition(ARROW))
            if not (value and arrow and key):
                raise forms.ValidationError(
                    gettext("{line} is not like orders-service {arrow} app.").format(line=f"{line[:60]!r}", arrow=ARROW)
                )
            if value in roles:
                raise forms.ValidationError(gettext("{value} is there twice.").format(value=f"{value[:60]!r}"))
            roles[value] = key
        return roles

    def terms(self) -> IssuerTerms:
        """As far as the fields are valid."""
        given = self.cleaned_data
        issuer, audience, jwks_url = (str(given.get(field) or "") for field in ("issuer", "audience", "jwks_url"))
        skew_s = given.get("clock_skew_s")
        roles, claim = given.get("roles") or {}, str(given.get("role_claim") or "sub")
        return IssuerTerms(issuer, audience, jwks_url, roles, claim, 60 if skew_s is None else skew_s)


ISSUER_COLUMNS = (
    Column("name", gettext_lazy("Issuer"), ("name",)),
    Column("roles", gettext_lazy("Roles")),
    Column("keys", gettext_lazy("Keys"), newest_first("fetched_at"), down=True),
)


@page
def token_issuers(request: ConsoleRequest, tenant: str) -> HttpResponse:
    listed = list_rows(request.GET, TokenIssuer.objects.all(), ISSUER_COLUMNS, searched=("name", "issuer", "audience", "jwks_url"))
    return show(
        request,
        "pages/token_issuers.html",
        navigation(request, "token_issuers", tenant),
        crumbs=crumbs(tenant),
        listed=listed,
        issuers=[{"row": row, "keys": key_ids(row), "roles": list(row.roles.items())} for row in listed.rows],
        has_room=TokenIssuer.objects.count() < ISSUERS_MAX,
        allowed=allowed_addresses(tenant),
        interval_s=django_settings.MAGNETAR.issuer_refresh_interval_s,
    )


@page
def token_issuer_create(request: ConsoleRequest, tenant: str) -> HttpResponse:
    return _edit(request, tenant, None)


@page
def token_issuer(request: ConsoleRequest, tenant: str, issuer: str) -> HttpResponse:
    return _edit(request, tenant, _issuer(issuer))


@page
def token_issuer_delete(request: ConsoleRequest, tenant: str, issuer: str) -> HttpResponse:
    row = _issuer(issuer)
    return confirm_page(
        request,
        navigation(request, "token_issuers", tenant),
        lambda: delete_issuer(request.actor, tenant, row.name),
        crumbs=_above(tenant),
        heading=gettext("Remove issuer {name}").format(name=row.name),
        impact=[gettext("None of its tokens is accepted from then on, and what was opened with them is closed.")],
        name=row.name,
        submit=gettext("Remove issuer"),
        done=gettext("Tokens of issuer {name} are not accepted any more.").format(name=row.name),
        back=reverse("console:token_issuers", args=[tenant]),
        calls=[api_calls.delete_issuer(tenant, row.name)],
    )


def _edit(request: ConsoleRequest, tenant: str, row: TokenIssuer | None) -> HttpResponse:
    form = IssuerForm(request.GET if followed(request) else request.POST or None, initial=_initial(row) if row else {})
    if row is not None:  # an issuer is not renamed
        form.fields["name"].disabled = True
    if followed(request):
        form.is_valid()
        return show_calls(request, [api_calls.set_issuer(tenant, form.cleaned_data.get("name", ""), form.terms())])
    if carried_out(request, form, lambda: _set(request, tenant, row, form)):
        show_message(
            request,
            gettext("Issuer {name} was saved. A worker fetches its keys in a moment.").format(name=form.cleaned_data["name"]),
        )
        return HttpResponseRedirect(reverse("console:token_issuers", args=[tenant]))
    allowed = allowed_addresses(tenant)
    shown = IssuerTerms(**{field: getattr(row, field) for field in IssuerTerms._fields}) if row else IssuerTerms("", "", "", {})
    return show(
        request,
        "pages/form.html",
        navigation(request, "token_issuers", tenant),
        crumbs=_above(tenant),
        heading=gettext("Issuer {name}").format(name=row.name) if row else gettext("New issuer"),
        intro=gettext("The address of its keys begins with {allowed}.").format(allowed=" or ".join(allowed))
        if allowed
        else gettext(
            "No address of keys is allowed for this tenant yet: an administrator of the platform sets token_issuers_allowed."
        ),
        form=form,
        submit=gettext("Save") if row else gettext("Accept its tokens"),
        cancel_url=reverse("console:token_issuers", args=[tenant]),
        calls=calls_of(request, [api_calls.set_issuer(tenant, row.name if row else "", shown)]),
        follow=True,
    )


def _initial(row: TokenIssuer) -> dict[str, Any]:
    given = {field: getattr(row, field) for field in ("name", *IssuerTerms._fields)}
    return {**given, "roles": "\n".join(f"{value} {ARROW} {key}" for value, key in row.roles.items())}


def _set(request: ConsoleRequest, tenant: str, row: TokenIssuer | None, form: IssuerForm) -> None:
    name = form.cleaned_data["name"]
    if row is None and TokenIssuer.objects.filter(name=name).exists():
        form.add_error("name", gettext("There is an issuer of this name: change it there, or choose another name."))
    else:
        set_issuer(request.actor, tenant, name, form.terms())


def _issuer(name: str) -> TokenIssuer:
    row = TokenIssuer.objects.filter(name=name).first()
    if row is None:
        raise Http404
    return row


def _above(tenant: str) -> list[tuple[str, str]]:
    return crumbs(tenant, "", (gettext("Token issuers"), reverse("console:token_issuers", args=[tenant])))
