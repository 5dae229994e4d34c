"""Alerts of a tenant: rules, where they stand, what was said, and where it is sent."""

from __future__ import annotations

from datetime import UTC, datetime

from django.conf import settings as django_settings
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.alert_forms import AlertRuleForm, NotificationsForm
from admin_ui.alert_view import shown
from admin_ui.notice_list import notices_listed
from admin_ui.pages import add_error, crumbs, navigation, show, show_error, show_message
from admin_ui.translation.texts import gettext
from messaging.errors import MagnetarError
from messaging.permissions.model import Action, Resource
from tenants.scoping import platform_scope
from workers.alerts import actions, platform, rule_actions
from workers.alerts.models import AlertRule, MailUsage, Notice, NotificationTarget, PlatformAlert
from workers.alerts.notices import mails_refused
from workers.former_members import former_of

DELETED_SHOWN = 20


@page
def alerts(request: ConsoleRequest, tenant: str) -> HttpResponse:
    target = actions.target_of(tenant)
    what = request.POST.get("what", "")
    may_set_target = request.actor.may(Action.TENANT_ADMIN, Resource(tenant))
    if what == "target" and not may_set_target:
        raise PermissionDenied(gettext("tenant_admin is needed to say where notices are sent"))
    rule_form = AlertRuleForm(request.POST if what == "rule" else None)
    target_form = NotificationsForm(
        request.POST if what == "target" else None,
        initial=_target_initial(target),
    )
    if request.method == "POST":
        try:
            said = _change(request, tenant, what, rule_form, target_form)
        except MagnetarError as error:
            forms = {"rule": rule_form, "target": target_form}
            if what in forms:
                add_error(request, forms[what], error)
            else:
                show_error(request, error)
        else:
            if said:
                show_message(request, said)
                return HttpResponseRedirect(reverse("console:alerts", args=[tenant]))
    return show(
        request,
        "pages/alerts.html",
        navigation(request, "alerts", tenant),
        crumbs=crumbs(tenant),
        interval_s=django_settings.MAGNETAR.alert_interval_s,
        rules=[shown(rule) for rule in AlertRule.objects.all()],
        deleted=rule_actions.former_rules(datetime.now(UTC), DELETED_SHOWN),
        undo_h=rule_actions.UNDO_H,
        **notices_listed(request.GET, Notice.objects.all()),
        mails_refused=mails_refused(datetime.now(UTC)),
        former_mail=former_of(tenant, target.mail_to) if may_set_target else [],
        rule_form=rule_form,
        target_form=target_form,
        may_set_target=may_set_target,
        secret=target.secret if may_set_target else "",
        may_test=bool(target.webhook_url or target.mail_to or target.topic),
    )


@page
def platform_alerts(request: ConsoleRequest) -> HttpResponse:
    """Of administrators of the platform: how full the disk is, what was said, and where it is sent."""
    settings, target = django_settings.MAGNETAR, platform.platform_target()
    form = NotificationsForm(request.POST or None, initial=_target_initial(target))
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            platform.set_platform_target(request.actor, given["webhook_url"], given["mail_to"].split(), given["topic"])
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            show_message(request, gettext("Notices are sent there from now on."))
            return HttpResponseRedirect(reverse("console:platform_alerts"))
    with platform_scope():
        listed = notices_listed(request.GET, Notice.objects.filter(tenant_uid=""))
        today = MailUsage.objects.filter(tenant_uid="", day=datetime.now(UTC).date()).first()
    return show(
        request,
        "pages/platform_alerts.html",
        navigation(request, "platform"),
        crumbs=[(gettext("Platform"), reverse("console:platform"))],
        alerts=list(PlatformAlert.objects.all()),
        threshold=settings.disk_alert_percent,
        clear=settings.disk_alert_clear_percent,
        **listed,
        form=form,
        secret=target.secret,
        mails_refused=today.refused if today else 0,
    )


def _target_initial(target: NotificationTarget) -> dict[str, str]:
    return {"webhook_url": target.webhook_url, "mail_to": " ".join(target.mail_to), "topic": target.topic}


def _change(request: ConsoleRequest, tenant: str, what: str, rule_form: AlertRuleForm, target_form: NotificationsForm) -> str:
    """What was done, in words; "" for nothing."""
    if what == "rule" and rule_form.is_valid():
        rule_actions.create_rule(request.actor, tenant, rule_form.cleaned_data)
        return gettext("The alert rule was created.")
    if what == "restore":
        rule = rule_actions.restore_rule(request.actor, tenant, request.POST.get("rule", ""))
        return gettext("The alert rule {name} is there again; it is looked at within a minute.").format(name=rule.name)
    if what == "test":
        actions.send_test(request.actor, tenant)
        return gettext("A test notice is under way: how it went is said below, in a moment.")
    if what == "target" and target_form.is_valid():
        values = target_form.cleaned_data
        actions.set_target(request.actor, tenant, values["webhook_url"], values["mail_to"].split(), values["topic"])
        return gettext("Notices are sent there from now on.")
    return ""
