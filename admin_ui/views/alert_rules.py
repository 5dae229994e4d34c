"""The page of one alert rule: where it stands, what it has said, changing it, silence."""

from __future__ import annotations

from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.alert_forms import SilenceForm, ThresholdForm, changed, seen_of
from admin_ui.alert_view import shown
from admin_ui.form_pages import confirm_page
from admin_ui.notice_list import notices_listed
from admin_ui.pages import add_error, crumbs, navigation, show, show_error, show_message
from admin_ui.translation.texts import gettext
from messaging.errors import MagnetarError, NotFound
from workers.alerts import rule_actions
from workers.alerts.models import AlertRule


@page
def alert_rule(request: ConsoleRequest, tenant: str, rule: str) -> HttpResponse:
    try:
        row = rule_actions.rule_of(tenant, rule)
    except NotFound:
        raise Http404 from None
    what = request.POST.get("what", "")
    initial = {name: getattr(row, name) for name in rule_actions.CHANGEABLE}
    form = ThresholdForm(request.POST if what == "change" else None, initial=initial)
    silence = SilenceForm(request.POST if what == "silence" else None)
    seen = seen_of(request.POST, row)
    back, above = reverse("console:alert_rule", args=[tenant, rule]), (gettext("Alerts"), reverse("console:alerts", args=[tenant]))
    if what == "delete":
        return _delete(request, tenant, row, crumbs(tenant, "", above, (row.name, back)), above[1], back)
    if request.method == "POST":
        try:
            done = _change(request, tenant, row, what, form, silence, seen)
        except MagnetarError as error:
            if what == "change":
                add_error(request, form, error)
            else:
                show_error(request, error)
        else:
            if done:
                show_message(request, done)
                return HttpResponseRedirect(back)
    return show(
        request,
        "pages/alert_rule.html",
        navigation(request, "alerts", tenant),
        crumbs=crumbs(tenant, "", above),
        one=shown(row),
        form=form,
        seen=seen,
        silence=silence,
        **notices_listed(request.GET, rule_actions.notices_of(row)),
    )


def _delete(
    request: ConsoleRequest, tenant: str, row: AlertRule, above: list[tuple[str, str]], alerts: str, back: str
) -> HttpResponse:
    return confirm_page(
        request,
        navigation(request, "alerts", tenant),
        lambda: rule_actions.delete_rule(request.actor, tenant, row.id),
        crumbs=above,
        heading=gettext("Delete alert rule {name}").format(name=row.name),
        impact=[
            gettext("Nobody is told any more of {topic}. What the rule has said stays among the notices of the tenant.").format(
                topic=row.topic
            ),
            gettext(
                "It can be undone for 24 hours, on the page of alerts. To be left alone for a while, silence the rule instead."
            ),
        ],
        submit=gettext("Delete rule"),
        final=True,
        done=gettext("The alert rule {name} was deleted.").format(name=row.name),
        back=alerts,
        cancel=back,
        given={"what": "delete"},
    )


def _change(
    request: ConsoleRequest,
    tenant: str,
    row: AlertRule,
    what: str,
    form: ThresholdForm,
    silence: SilenceForm,
    seen: dict[str, str],
) -> str:
    """What was done, in words; "" for nothing. `seen` becomes what was shown of the values that it refuses to overwrite."""
    if what == "change" and form.is_valid():
        changes = changed(form, seen)
        for name, wanted in changes.items():
            now = str(getattr(row, name))
            if now not in (seen[name], str(wanted)):
                seen[name] = now
                text = gettext("Somebody changed it meanwhile to {now}: save again to overwrite that.")
                form.add_error(name, text.format(now=now or gettext("nothing")))
        if form.errors:
            return ""
        rule_actions.change_rule(request.actor, tenant, row.id, changes)
        return gettext("The alert rule was changed; it counts from the next look on.")
    if what == "silence" and silence.is_valid():
        given = silence.cleaned_data
        rule_actions.silence_rule(request.actor, tenant, row.id, given["for_s"], given["reason"])
        return gettext("The alert rule is silent: its notices are written and not sent.")
    if what == "unsilence":
        rule_actions.silence_rule(request.actor, tenant, row.id, 0)
        return gettext("The silence ends: if the rule fires at its next look, that is sent.")
    return ""
