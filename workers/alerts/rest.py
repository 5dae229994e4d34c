"""Alert rules, notices, and where notices are sent, as our API has them."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from messaging.bodies import sent_fields
from tenants.rest.base import View, page
from tenants.rest.schema import PAGE, describe, page_of
from tenants.rest.tenants import existing
from tenants.scoping import platform_scope, tenant_scope
from workers.alerts import actions, platform, rule_actions, shapes
from workers.alerts.models import AlertRule, Notice


class AlertRules(View):
    @describe("Alert rules of a tenant", page_of(shapes.AlertRuleShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        with tenant_scope(tenant):
            return page(request, AlertRule.objects.all(), "id", shapes.show_rule)

    @describe("Create an alert rule", shapes.AlertRuleShape, shapes.NewAlertRule, 201)
    def post(self, request: Request, tenant: str) -> Response:
        given = self.read(shapes.NewAlertRule)
        return Response(shapes.show_rule(rule_actions.create_rule(self.actor(), tenant, sent_fields(given))), status=201)


class AlertRuleOne(View):
    @describe("An alert rule", shapes.AlertRuleShape)
    def get(self, request: Request, tenant: str, rule: str) -> Response:
        existing(tenant)
        return Response(shapes.show_rule(rule_actions.rule_of(tenant, rule)))

    @describe("Change some of an alert rule", shapes.AlertRuleShape, shapes.ChangedAlertRule)
    def patch(self, request: Request, tenant: str, rule: str) -> Response:
        given = sent_fields(self.read(shapes.ChangedAlertRule))
        return Response(shapes.show_rule(rule_actions.change_rule(self.actor(), tenant, rule, given)))

    @describe("Delete an alert rule", None, status=204)
    def delete(self, request: Request, tenant: str, rule: str) -> Response:
        rule_actions.delete_rule(self.actor(), tenant, rule)
        return Response(status=204)


class AlertRuleRestore(View):
    @describe("Take back that an alert rule was deleted in the last 24 hours", shapes.AlertRuleShape)
    def post(self, request: Request, tenant: str, rule: str) -> Response:
        existing(tenant)
        return Response(shapes.show_rule(rule_actions.restore_rule(self.actor(), tenant, rule)))


class AlertRuleSilence(View):
    @describe("Silence an alert rule: its notices are written and not sent", shapes.AlertRuleShape, shapes.NewSilence)
    def put(self, request: Request, tenant: str, rule: str) -> Response:
        given = self.read(shapes.NewSilence)
        silenced = rule_actions.silence_rule(self.actor(), tenant, rule, given.for_s, given.reason)
        return Response(shapes.show_rule(silenced))

    @describe("End the silence of an alert rule; that it fires is sent", shapes.AlertRuleShape)
    def delete(self, request: Request, tenant: str, rule: str) -> Response:
        return Response(shapes.show_rule(rule_actions.silence_rule(self.actor(), tenant, rule, 0)))


class AlertRuleNotices(View):
    @describe("What an alert rule has said, newest first", page_of(shapes.NoticeShape), parameters=PAGE)
    def get(self, request: Request, tenant: str, rule: str) -> Response:
        existing(tenant)
        with tenant_scope(tenant):
            return page(request, rule_actions.notices_of(rule_actions.rule_of(tenant, rule)), "id", shapes.show_notice)


class Notices(View):
    @describe("What a tenant was told: alerts, and keys that expire soon", page_of(shapes.NoticeShape), parameters=PAGE)
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        with tenant_scope(tenant):
            return page(request, Notice.objects.all(), "id", shapes.show_notice)


class NoticeReplay(View):
    @describe("Send a notice to the webhook again", shapes.NoticeShape, status=202)
    def post(self, request: Request, tenant: str, notice: str) -> Response:
        existing(tenant)
        return Response(shapes.show_notice(actions.replay_notice(self.actor(), tenant, notice)), status=202)


class NoticeReplays(View):
    @describe("Send the notices of a time to the webhook again", shapes.ReplayedNotices, shapes.NoticesReplay, 202)
    def post(self, request: Request, tenant: str) -> Response:
        given = self.read(shapes.NoticesReplay)
        existing(tenant)
        replayed = actions.replay_notices(self.actor(), tenant, given.since, given.until, failed_only=given.failed_only)
        return Response(shapes.ReplayedNotices(notices=replayed.notices, following=replayed.following), status=202)


class Notifications(View):
    @describe("Where notices of a tenant are sent", shapes.NotificationsShape)
    def get(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        return Response(shapes.show_target(actions.target_of(tenant)))

    @describe("Say where notices are sent", shapes.NotificationsShape, shapes.NewNotifications)
    def put(self, request: Request, tenant: str) -> Response:
        given = self.read(shapes.NewNotifications)
        existing(tenant)
        target = actions.set_target(self.actor(), tenant, given.webhook_url, given.mail_to, given.topic)
        return Response(shapes.show_target(target))


class NotificationsTest(View):
    @describe("Send a test notice to everywhere where notices go; how it went is in the notice", shapes.NoticeShape, status=202)
    def post(self, request: Request, tenant: str) -> Response:
        existing(tenant)
        return Response(shapes.show_notice(actions.send_test(self.actor(), tenant)), status=202)


class PlatformNotices(View):
    @describe("What administrators of the platform were told", page_of(shapes.NoticeShape), parameters=PAGE)
    def get(self, request: Request) -> Response:
        with platform_scope():
            return page(request, Notice.objects.filter(tenant_uid=""), "id", shapes.show_notice)


class PlatformNotifications(View):
    @describe("Where notices of the platform are sent", shapes.NotificationsShape)
    def get(self, request: Request) -> Response:
        return Response(shapes.show_target(platform.platform_target()))

    @describe("Say where notices of the platform are sent", shapes.NotificationsShape, shapes.NewNotifications)
    def put(self, request: Request) -> Response:
        given = self.read(shapes.NewNotifications)
        target = platform.set_platform_target(self.actor(), given.webhook_url, given.mail_to, given.topic)
        return Response(shapes.show_target(target))
