"""Changing settings of brokers while they run."""

from __future__ import annotations

from messaging.adminrpc.feed import EVERY_BROKER
from messaging.permissions.model import Action
from messaging.policies.dynamic import read_value, setting_of
from tenants import feed
from tenants.access import Actor, require
from tenants.actions.change import PendingChange, change
from tenants.models import DynamicSetting


def set_dynamic(actor: Actor, name: str, text: str) -> None:
    """By Pulsar's name. Raises `PreconditionFailed` for a setting that does not change so, and a value that it cannot have."""
    require(actor, Action.SUPERUSER)
    setting, value = setting_of(name), read_value(name, text)
    with change(actor) as running:
        before = DynamicSetting.objects.filter(name=setting).first()
        if before is not None and before.value == value:
            return
        DynamicSetting.objects.update_or_create(name=setting, defaults={"value": value})
        _publish(running, "broker.setting.set", setting, None if before is None else before.value, value)


def unset_dynamic(actor: Actor, name: str) -> None:
    """The configured value is in force again. Raises `PreconditionFailed` for a setting that does not change so."""
    require(actor, Action.SUPERUSER)
    setting = setting_of(name)
    with change(actor) as running:
        before = DynamicSetting.objects.filter(name=setting).first()
        if before is None:
            return
        before.delete()
        _publish(running, "broker.setting.unset", setting, before.value, None)


def _publish(running: PendingChange, action: str, setting: str, before: object, after: object) -> None:
    running.audit(action, "", setting, before, after)
    state = feed.broker_state()
    running.publish_change("broker", EVERY_BROKER, state if state["settings"] else None)
