"""Forms of the console. They check what a form can know; the rules of the platform are the actions', whose errors are shown."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.utils import timezone

from messaging.errors import InvalidName
from messaging.policies.model import Policy, value_schema
from messaging.policies.registry import ENFORCED
from messaging.protocol.names import NAME_LENGTH_MAX, PERSISTENT, TopicName, entity_name, parse_topic

_PLAIN = {"autocomplete": "off", "spellcheck": "false", "autocapitalize": "none"}


class EntityField(forms.CharField):
    """A name of a tenant, namespace or key, by the rules of `messaging.protocol.names`."""

    def __init__(self, kind: str, **kwargs: object) -> None:
        self.kind = kind
        super().__init__(max_length=NAME_LENGTH_MAX, widget=forms.TextInput(attrs=_PLAIN), **kwargs)  # type: ignore[arg-type]

    def clean(self, value: object) -> str:
        text: str = super().clean(value)
        try:
            return entity_name(self.kind, text) if text else text
        except InvalidName as error:
            raise forms.ValidationError(error.message[:1].upper() + error.message[1:] + ".") from None


class SignInForm(forms.Form):
    username = forms.CharField(
        label="Name", max_length=150, widget=forms.TextInput(attrs={**_PLAIN, "autocomplete": "username", "autofocus": True})
    )
    password = forms.CharField(
        label="Password", max_length=4096, strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )


class PersonForm(forms.Form):
    username = forms.CharField(
        label="Name",
        max_length=150,
        widget=forms.TextInput(attrs=_PLAIN),
        help_text="They sign in with it. Letters, digits and @ . + - _",
    )
    superuser = forms.BooleanField(label="Administer the platform: all tenants, people and settings", required=False)


class TenantForm(forms.Form):
    name = EntityField(
        "tenant", label="Name", help_text="It is part of every topic's name and does not change. Letters, digits and - = : . _"
    )


class NamespaceForm(forms.Form):
    name = EntityField(
        "namespace", label="Name", help_text="Topics of the namespace are called persistent://tenant/namespace/topic."
    )


class TopicForm(forms.Form):
    name = forms.CharField(label="Name", max_length=NAME_LENGTH_MAX, widget=forms.TextInput(attrs=_PLAIN))
    partitions = forms.IntegerField(
        label="Partitions",
        required=False,
        min_value=1,
        max_value=1000,
        help_text="Empty: a plain topic. Order holds only within a partition. Their number can grow, never shrink.",
    )

    def __init__(self, *args: object, tenant: str, namespace: str, **kwargs: object) -> None:
        self.tenant, self.namespace = tenant, namespace
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def clean_name(self) -> TopicName:
        return _topic(self.tenant, self.namespace, self.cleaned_data["name"])


class QuickStartForm(forms.Form):
    topic = forms.CharField(
        label="Topic",
        max_length=NAME_LENGTH_MAX,
        initial="quick-start",
        widget=forms.TextInput(attrs=_PLAIN),
        help_text="It is made when the program first uses it.",
    )
    name = EntityField(
        "key",
        label="Name of the new key",
        initial="quick-start",
        help_text="The key may produce and consume in this namespace, and nothing else.",
    )

    def __init__(self, *args: object, tenant: str, namespace: str, **kwargs: object) -> None:
        self.tenant, self.namespace = tenant, namespace
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def clean_topic(self) -> TopicName:
        return _topic(self.tenant, self.namespace, self.cleaned_data["topic"])


def _topic(tenant: str, namespace: str, local: str) -> TopicName:
    try:
        return parse_topic(str(TopicName(PERSISTENT, tenant, namespace, local)))
    except InvalidName as error:
        raise forms.ValidationError(error.message[:1].upper() + error.message[1:] + ".") from None


class KeyForm(forms.Form):
    """`namespaces` are local names; each brings a box for produce and one for consume. `may_administer`: superusers alone may say
    so.
    """

    EXPIRIES = (("never", "Never"), ("1", "In a day"), ("30", "In 30 days"), ("90", "In 90 days"), ("365", "In a year"))
    name = EntityField(
        "key",
        label="Name",
        help_text="Say which program it is for. Its role in grants is name@tenant; two keys of one name share it.",
    )
    expiry = forms.ChoiceField(label="Expires", choices=EXPIRIES, initial="90")
    administer = forms.BooleanField(label="Administer the tenant: everything in it", required=False)

    def __init__(self, *args: object, namespaces: list[str], may_administer: bool, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.namespaces = namespaces
        if not may_administer:
            del self.fields["administer"]
        for index, namespace in enumerate(namespaces):
            for action in ("produce", "consume"):
                widget = forms.CheckboxInput(attrs={"aria-label": f"{action} in {namespace}"})
                self.fields[f"{action}-{index}"] = forms.BooleanField(required=False, widget=widget)

    def rows(self) -> list[dict[str, object]]:
        return [
            {"namespace": namespace, "produce": self[f"produce-{index}"], "consume": self[f"consume-{index}"]}
            for index, namespace in enumerate(self.namespaces)
        ]

    def grants(self) -> dict[str, list[str]]:
        """Local namespace -> actions, where there are any."""
        found = {
            namespace: [action for action in ("produce", "consume") if self.cleaned_data[f"{action}-{index}"]]
            for index, namespace in enumerate(self.namespaces)
        }
        return {namespace: actions for namespace, actions in found.items() if actions}

    def expires_at(self) -> datetime | None:
        days = self.cleaned_data["expiry"]
        return timezone.now() + timedelta(days=int(days)) if days != "never" else None


class PoliciesForm(forms.Form):
    """One field for each policy that is enforced and has a simple value, from the registry. Empty means "not set here"."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        for name, policy in ENFORCED.items():
            field = _policy_field(policy)
            if field is not None:
                self.fields[name] = field

    def rows(self) -> list[dict[str, object]]:
        return [{"field": self[name], "unit": ENFORCED[name].unit} for name in self.fields]


def _policy_field(policy: Policy) -> forms.Field | None:
    """None for lists and objects: those are set over REST."""
    schema = value_schema(policy)
    about: dict[str, Any] = {"label": policy.title, "help_text": policy.meaning, "required": False}
    if "enum" in schema:
        choices = [("", "Default"), *((value, value) for value in schema["enum"])]
        return forms.TypedChoiceField(choices=choices, empty_value=None, **about)
    match schema["type"]:
        case "boolean":
            choices = [("", "Default"), ("True", "Yes"), ("False", "No")]
            return forms.TypedChoiceField(choices=choices, coerce=lambda text: text == "True", empty_value=None, **about)
        case "integer":
            return forms.IntegerField(min_value=schema["minimum"], max_value=schema["maximum"], **about)
        case "number":
            return forms.FloatField(min_value=schema["minimum"], max_value=schema["maximum"], **about)
    return None


class ConfirmForm(forms.Form):
    """The name has to be typed. The script only helps; this is the check."""

    confirm = forms.CharField(label="Type the name to confirm", max_length=1024, widget=forms.TextInput(attrs=_PLAIN))

    def __init__(self, *args: object, expected: str, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.expected = expected
        self.fields["confirm"].label = f"Type {expected} to confirm"

    def clean_confirm(self) -> str:
        if self.cleaned_data["confirm"].strip() != self.expected:
            raise forms.ValidationError(f"This is not {self.expected}: nothing was done.")
        return self.expected
