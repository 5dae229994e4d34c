"""Why somebody may do something in a tenant, and who else may."""

from __future__ import annotations

from django import forms
from django.http import HttpResponse

from admin_ui import api_calls
from admin_ui.access import ConsoleRequest, page
from admin_ui.action_texts import TEXTS
from admin_ui.calls import calls_of, followed, show_calls
from admin_ui.forms import PLAIN
from admin_ui.pages import add_error, crumbs, navigation, show
from admin_ui.translation.texts import gettext_lazy, named_text
from messaging.errors import MagnetarError
from messaging.permissions.roles import OF_TENANT
from messaging.protocol.names import NAME_LENGTH_MAX
from tenants import explanations
from tenants.models import Key, Membership, Namespace

OTHERS_SHOWN = 200
OFFERED_MAX = 200  # roles and namespaces that a field offers while one types
ASKED = ("action", "role", "key_id", "namespace", "topic", "subscription")


def _text(label: str, offered: str = "", **more: object) -> forms.CharField:
    attributes = {**PLAIN, **({"list": offered} if offered else {})}
    given = {"required": False, "max_length": 2 * NAME_LENGTH_MAX, **more}
    return forms.CharField(label=label, widget=forms.TextInput(attrs=attributes), **given)  # type: ignore[arg-type]


class AccessForm(forms.Form):
    """Sent with GET: an answer has an address that can be kept."""

    action = forms.ChoiceField(label="May", choices=[(str(action), named_text(str(action), TEXTS[action])) for action in OF_TENANT])
    role = _text(gettext_lazy("Role"), "roles", help_text="user:NAME for a person, NAME@TENANT for keys.")
    key_id = _text(gettext_lazy("Or key"), help_text="The id of a key that has a scope of its own.")
    namespace = _text(gettext_lazy("Namespace"), "namespaces", help_text="Empty: the tenant as a whole.")
    topic = _text(gettext_lazy("Topic"), help_text="Without its namespace. Empty: the namespace as a whole.")
    subscription = _text(gettext_lazy("Subscription"))

    def asked(self) -> dict[str, str]:
        return {name: self.cleaned_data[name] for name in ASKED if self.cleaned_data.get(name)}


@page
def access(request: ConsoleRequest, tenant: str) -> HttpResponse:
    form = AccessForm(request.GET) if "action" in request.GET else AccessForm()
    asked = form.asked() if form.is_bound and form.is_valid() else {}
    calls = [api_calls.explain(tenant, asked or {"action": "produce", "role": f"user:{request.user.get_username()}"})]
    if followed(request):
        return show_calls(request, calls)
    answer = None
    if asked:
        try:
            answer = explanations.explained(tenant, asked)
        except MagnetarError as error:
            add_error(request, form, error)
    members = Membership.objects.select_related("user").filter(user__is_active=True)[:OFFERED_MAX]
    roles = dict.fromkeys([row.user.role for row in members])
    roles |= dict.fromkeys(Key.objects.filter(revoked_at=None).values_list("role", flat=True)[:OFFERED_MAX])
    others = [other for other in answer.others.answers if other.principal != answer.own.principal] if answer else []
    return show(
        request,
        "pages/access.html",
        navigation(request, "access", tenant),
        crumbs=crumbs(tenant),
        form=form,
        answer=answer,
        others=others[:OTHERS_SHOWN],
        others_left_out=max(0, len(others) - OTHERS_SHOWN),
        roles=list(roles),
        namespaces=[row.local for row in Namespace.objects.order_by("name")[:OFFERED_MAX]],
        calls=calls_of(request, calls),
    )
