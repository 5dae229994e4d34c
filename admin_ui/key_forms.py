"""Forms of keys: what a new one is made for, for how long, and from where; how long two overlap; a token that leaked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django import forms
from django.utils import timezone

from admin_ui.forms import PLAIN, EntityField
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.permissions.roles import KEY_ACTIONS
from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.actions.keys import KeyUse

USES_MAX = 20  # in one scope, as in the API
NETWORKS_MAX = 20
ACTIONS = tuple(str(action) for action in KEY_ACTIONS)
OF_SCOPE, OF_ROLE = "scope", "role"


class KeyForm(forms.Form):
    """`namespaces` are local names. `may_administer`: whether the user may create a key that administers the tenant; only
    superusers may. `life_days_max`: how long a key may live, 0 for any time."""

    name = EntityField("key", label="Name", help_text="Name the program that will use it. The role of the key is name@tenant.")
    limited_by = forms.ChoiceField(
        label="What it may do",
        choices=(
            (OF_SCOPE, gettext_lazy("Only what is chosen here")),
            (OF_ROLE, gettext_lazy("Whatever is granted to its role, now and later")),
        ),
        initial=OF_SCOPE,
        widget=forms.RadioSelect,
        help_text="Keys with the same name share a role and the permissions that are granted to it.",
    )
    expiry = forms.ChoiceField(label="Expires", initial="90")
    networks = forms.CharField(
        label="Networks",
        required=False,
        max_length=NETWORKS_MAX * 64,
        widget=forms.TextInput(attrs={**PLAIN, "placeholder": "192.0.2.0/24 2001:db8::/32"}),
        help_text="Addresses or networks from which the key may be used, separated by spaces. Empty: from everywhere.",
    )
    administer = forms.BooleanField(label="Tenant administrator: may do everything in this tenant", required=False)

    def __init__(
        self, *args: object, namespaces: list[str], may_administer: bool, life_days_max: int = 0, **kwargs: object
    ) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.namespaces = namespaces
        self.fields["expiry"].choices = expiries(life_days_max)  # type: ignore[attr-defined]
        if life_days_max and life_days_max < 90:
            self.fields["expiry"].initial = str(life_days_max)
        if not may_administer:
            del self.fields["administer"]
        for index in range(USES_MAX):
            self._add_use(index)
        for index, namespace in enumerate(namespaces):
            for action in ACTIONS:
                self.fields[f"{action}-{index}"] = _tick(
                    gettext("{action} in {namespace}").format(action=action, namespace=namespace)
                )

    def _add_use(self, index: int) -> None:
        number = index + 1
        self.fields[f"use-{index}-namespace"] = forms.CharField(
            required=False,
            max_length=NAME_LENGTH_MAX,
            widget=forms.TextInput(
                attrs={
                    **PLAIN,
                    "list": "namespaces",
                    "placeholder": gettext("all"),
                    "aria-label": gettext("Namespace of use {number}").format(number=number),
                }
            ),
        )
        self.fields[f"use-{index}-topics"] = forms.CharField(
            required=False,
            max_length=NAME_LENGTH_MAX,
            widget=forms.TextInput(
                attrs={
                    **PLAIN,
                    "placeholder": gettext("all, or such as pay-*"),
                    "aria-label": gettext("Topics of use {number}").format(number=number),
                }
            ),
        )
        for action in ACTIONS:
            self.fields[f"use-{index}-{action}"] = _tick(gettext("{action}, use {number}").format(action=action, number=number))

    def use_rows(self) -> Iterator[dict[str, object]]:
        """The fields of each use; `blank` ones behind the first are not shown until they are asked for."""
        for index in range(USES_MAX):
            names = {name: self[f"use-{index}-{name}"] for name in ("namespace", "topics", *ACTIONS)}
            yield {**names, "blank": index > 0 and not any(field.value() for field in names.values())}

    def grant_rows(self) -> list[dict[str, object]]:
        return [
            {"namespace": namespace, **{action: self[f"{action}-{index}"] for action in ACTIONS}}
            for index, namespace in enumerate(self.namespaces)
        ]

    def clean(self) -> dict[str, object]:
        given: dict[str, object] = super().clean() or {}
        if given.get("limited_by") == OF_SCOPE and not self.errors:
            for index, use in self._uses():
                if not use.actions:
                    self.add_error(f"use-{index}-namespace", gettext("Choose produce, consume or both, or leave this line empty."))
            if not any(True for _ in self._uses()):
                self.add_error("limited_by", gettext("Choose at least one use: produce or consume, in one namespace or in all."))
        return given

    def _uses(self) -> Iterator[tuple[int, KeyUse]]:
        for index in range(USES_MAX):
            values = [self.cleaned_data.get(f"use-{index}-{name}") or "" for name in ("namespace", "topics")]
            actions = [action for action in ACTIONS if self.cleaned_data.get(f"use-{index}-{action}")]
            if any(values) or actions:
                yield index, KeyUse(actions, *values)

    def scope(self) -> list[KeyUse] | None:
        """None: what its role may. What is not valid is left out."""
        if self.cleaned_data.get("limited_by") == OF_ROLE:
            return None
        return [use for _, use in self._uses() if use.actions]

    def grants(self) -> dict[str, list[str]]:
        """Local namespace -> actions, where there are any; of a key without a scope."""
        if self.cleaned_data.get("limited_by") != OF_ROLE:
            return {}
        chosen = {
            namespace: [action for action in ACTIONS if self.cleaned_data.get(f"{action}-{index}")]
            for index, namespace in enumerate(self.namespaces)
        }
        return {namespace: actions for namespace, actions in chosen.items() if actions}

    def administers(self) -> bool:
        return self.cleaned_data.get("limited_by") == OF_ROLE and bool(self.cleaned_data.get("administer"))

    def network_list(self) -> list[str]:
        return str(self.cleaned_data.get("networks") or "").split()

    def expires_at(self) -> datetime | None:
        days = self.cleaned_data.get("expiry") or "never"
        return None if days == "never" else timezone.now() + timedelta(days=int(days))


_EXPIRY_DAYS = (1, 7, 30, 90, 365)


def expiries(life_days_max: int) -> list[tuple[str, str]]:
    """What may be chosen; `life_days_max` is added where it is not among it."""
    if not life_days_max:
        return [("never", gettext("Never")), *((str(days), _in(days)) for days in _EXPIRY_DAYS)]
    return [(str(days), _in(days)) for days in sorted({days for days in _EXPIRY_DAYS if days < life_days_max} | {life_days_max})]


def _in(days: int) -> str:
    return {1: gettext("In 1 day"), 365: gettext("In 1 year")}.get(days, f"In {days} days")


def _tick(label: str) -> forms.BooleanField:
    return forms.BooleanField(required=False, widget=forms.CheckboxInput(attrs={"aria-label": label}))


class RotationForm(forms.Form):
    """How long both keys are valid."""

    overlap_s = forms.TypedChoiceField(
        label="Both are valid for",
        coerce=int,
        choices=(
            (3600, gettext_lazy("1 hour")),
            (86_400, gettext_lazy("1 day")),
            (7 * 86_400, gettext_lazy("7 days")),
            (30 * 86_400, gettext_lazy("30 days")),
        ),
        initial=86_400,
        help_text="Time to give the new token to every program. After it the former key ends.",
    )


class LeakedTokenForm(forms.Form):
    token = forms.CharField(
        label="Token",
        max_length=16_384,
        widget=forms.Textarea(attrs={**PLAIN, "rows": 5}),
        help_text="The whole text, with or without `token:` or `Bearer` before it.",
    )

    def clean_token(self) -> str:
        """The token alone, however it was pasted."""
        text = str(self.cleaned_data["token"]).strip().strip("\"'")
        for before in ("Authorization:", "Bearer ", "token:"):
            text = text.removeprefix(before).strip()
        return "".join(text.split())
