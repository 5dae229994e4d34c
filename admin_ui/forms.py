"""Forms of the console. They validate fields; the actions enforce the rules of the platform, and the page shows their errors."""

from __future__ import annotations

from collections.abc import Sequence

from django import forms

from admin_ui.action_texts import ROLE_TEXTS
from admin_ui.addresses import full_name
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext, gettext_lazy, named_text, ngettext
from messaging.errors import InvalidName
from messaging.languages import LANGUAGES
from messaging.limits.sizes import PARTITIONS_MAX
from messaging.protocol.names import NAME_LENGTH_MAX, PERSISTENT, TopicName, entity_name, parse_topic, subscription_name

PLAIN = {"autocomplete": "off", "spellcheck": "false", "autocapitalize": "none"}


def _as_sentence(error: InvalidName) -> str:
    text = said(error.message)
    return f"{text[:1].upper()}{text[1:]}."


class EntityField(forms.CharField):
    """A name of a tenant, namespace or key, by the rules of `messaging.protocol.names`."""

    def __init__(self, kind: str, **kwargs: object) -> None:
        self.kind = kind
        super().__init__(max_length=NAME_LENGTH_MAX, widget=forms.TextInput(attrs=PLAIN), **kwargs)  # type: ignore[arg-type]

    def clean(self, value: object) -> str:
        text: str = super().clean(value)
        try:
            return entity_name(self.kind, text) if text else text
        except InvalidName as error:
            raise forms.ValidationError(_as_sentence(error)) from None


class SignInForm(forms.Form):
    username = forms.CharField(
        label="User name or mail address",
        max_length=254,
        widget=forms.TextInput(attrs={**PLAIN, "autocomplete": "username webauthn", "autofocus": True}),
    )
    password = forms.CharField(
        label="Password", max_length=4096, strip=False, widget=forms.PasswordInput(attrs={"autocomplete": "current-password"})
    )


class PersonForm(forms.Form):
    username = forms.CharField(
        label="User name",
        max_length=150,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Used to sign in. Letters, digits and @ . + - _",
    )
    superuser = forms.BooleanField(label="Platform administrator: may manage all tenants, people and settings", required=False)


KEPT = "kept"  # as it is: a membership that is changed ends when it did
MEMBER_DAYS = (
    ("0", gettext_lazy("Without an end")),
    ("1", gettext_lazy("For a day")),
    ("7", gettext_lazy("For a week")),
    ("30", gettext_lazy("For 30 days")),
    ("90", gettext_lazy("For 90 days")),
)


NO_ADMINISTRATOR = "no"


class AdministratorForm(forms.Form):
    """Whether somebody administers the platform, and how long."""

    days = forms.ChoiceField(label="Platform administrator", choices=[(NO_ADMINISTRATOR, gettext_lazy("No")), *MEMBER_DAYS])


class MemberForm(forms.Form):
    username = forms.CharField(label="User name", max_length=150, widget=forms.TextInput(attrs=PLAIN))
    role = forms.ChoiceField(label="Role", initial="viewer")
    days = forms.ChoiceField(
        label="How long", choices=[*MEMBER_DAYS, (KEPT, gettext_lazy("As it is"))], initial="0", required=False
    )

    def __init__(self, *args: object, roles: list[str], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        _offer(self, roles)

    def offer_days(self, choices: Sequence[tuple[str, object]]) -> None:
        field = self.fields["days"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = list(choices)


def _offer(form: forms.Form, roles: list[str]) -> None:
    field = form.fields["role"]
    assert isinstance(field, forms.ChoiceField)
    field.choices = [(role, named_text(role, ROLE_TEXTS[role]) if role in ROLE_TEXTS else role) for role in roles]


class InviteForm(forms.Form):
    """`by_mail`: whether mail can be sent; else the link is shown to be copied."""

    BY_MAIL, BY_LINK = "mail", "link"
    email = forms.EmailField(label="Mail address", max_length=254, widget=forms.EmailInput(attrs=PLAIN))
    role = forms.ChoiceField(label="Role", initial="viewer")
    days = forms.ChoiceField(label="How long they are a member", choices=MEMBER_DAYS, initial="0", required=False)
    how = forms.ChoiceField(
        label="Link", choices=((BY_MAIL, gettext_lazy("Send it by mail")), (BY_LINK, gettext_lazy("Show it to me, to copy")))
    )

    def __init__(self, *args: object, roles: list[str], by_mail: bool, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        _offer(self, roles)
        if not by_mail:
            del self.fields["how"]


class JoinForm(forms.Form):
    """A password for a new account; the action judges it."""

    password1 = forms.CharField(
        label="Password",
        max_length=4096,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="At least 12 characters; not a common password.",
    )
    password2 = forms.CharField(
        label="Password, again",
        max_length=4096,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    def clean_password2(self) -> str:
        if self.cleaned_data["password2"] != self.cleaned_data.get("password1"):
            raise forms.ValidationError(gettext("The two passwords are not the same."))
        return str(self.cleaned_data["password2"])


class TenantForm(forms.Form):
    name = EntityField(
        "tenant", label="Name", help_text="Part of the name of every topic; cannot be changed. Letters, digits and - = : . _"
    )


class LabelsForm(forms.Form):
    labels = forms.CharField(
        label="Labels",
        required=False,
        max_length=16384,
        widget=forms.Textarea(attrs={**PLAIN, "rows": 8}),
        help_text="One a line, like team=payments. Costs can be summed by them.",
    )

    def clean_labels(self) -> dict[str, str]:
        return pairs_of(self.cleaned_data["labels"])


class LanguageForm(forms.Form):
    language = forms.ChoiceField(
        label="Language",
        required=False,
        choices=[("", gettext_lazy("that of the platform")), *LANGUAGES.items()],
        help_text=gettext_lazy("The console itself is in the language that each person chooses, and APIs answer in English."),
    )


def pairs_of(text: str) -> dict[str, str]:
    """Of lines like team=payments. Raises `ValidationError`."""
    pairs: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        key, equals, value = (part.strip() for part in line.partition("="))
        if not (key and equals and value):
            raise forms.ValidationError(gettext("{line} is not like team=payments.").format(line=f"{line[:60]!r}"))
        if key in pairs:
            raise forms.ValidationError(gettext("{key} is there twice.").format(key=f"{key[:60]!r}"))
        pairs[key] = value
    return pairs


class NamespaceForm(forms.Form):
    name = EntityField(
        "namespace", label="Name", help_text="Topics in the namespace are named persistent://tenant/namespace/topic."
    )


class TopicForm(forms.Form):
    name = forms.CharField(
        label="Name",
        max_length=NAME_LENGTH_MAX,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="non-persistent://NAME for a topic whose messages are delivered at once or dropped.",
    )
    partitions = forms.IntegerField(
        label="Partitions",
        required=False,
        min_value=1,
        max_value=1000,
        help_text="Leave empty for a non-partitioned topic. Messages are ordered only within a partition. The number of "
        "partitions can be increased but not decreased.",
    )

    def __init__(self, *args: object, tenant: str, namespace: str, **kwargs: object) -> None:
        self.tenant, self.namespace = tenant, namespace
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def clean_name(self) -> TopicName:
        return _topic(full_name(self.tenant, self.namespace, self.cleaned_data["name"]))


class SubscriptionForm(forms.Form):
    name = forms.CharField(label="Name", max_length=NAME_LENGTH_MAX, widget=forms.TextInput(attrs=PLAIN))
    position = forms.ChoiceField(
        label="Begins with",
        choices=[
            ("earliest", gettext_lazy("The oldest message that is stored")),
            ("latest", gettext_lazy("What is published from now on")),
        ],
    )

    def clean_name(self) -> str:
        try:
            return subscription_name(self.cleaned_data["name"])
        except InvalidName as error:
            raise forms.ValidationError(_as_sentence(error)) from None


class PartitionsForm(forms.Form):
    """`now`: how many there are."""

    partitions = forms.IntegerField(label="Partitions", max_value=PARTITIONS_MAX, help_text="How many there shall be.")

    def __init__(self, *args: object, now: int, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.now = now

    def clean_partitions(self) -> int:
        wanted = int(self.cleaned_data["partitions"])
        if wanted <= self.now:
            raise forms.ValidationError(
                ngettext(
                    "There is {now} partition already, and none can be taken away: give more.",
                    "There are {now} partitions already, and none can be taken away: give more.",
                    self.now,
                ).format(now=self.now)
            )
        return wanted


class DeadLetterForm(forms.Form):
    max_redeliver_count = forms.IntegerField(
        label="Redeliveries",
        required=False,
        min_value=0,
        max_value=2**31 - 1,
        help_text="A message that is redelivered more often is moved. Empty: no message is moved.",
    )
    target = forms.CharField(
        label="Target topic",
        required=False,
        max_length=NAME_LENGTH_MAX,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Full name of a topic. Empty: the name of this topic with -SUBSCRIPTION-DLQ.",
    )
    initial_subscription = forms.CharField(
        label="Subscription of the target",
        required=False,
        max_length=NAME_LENGTH_MAX,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Created with the target, so that nothing is lost before somebody subscribes. Empty: none.",
    )


class QuickStartForm(forms.Form):
    topic = forms.CharField(
        label="Topic",
        max_length=NAME_LENGTH_MAX,
        initial="quick-start",
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Created when the program first uses it.",
    )
    name = EntityField(
        "key",
        label="Name of the new key",
        initial="quick-start",
        help_text="The key may produce and consume in this namespace only.",
    )

    def __init__(self, *args: object, tenant: str, namespace: str, **kwargs: object) -> None:
        self.tenant, self.namespace = tenant, namespace
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    def clean_topic(self) -> TopicName:
        return _topic(TopicName(PERSISTENT, self.tenant, self.namespace, self.cleaned_data["topic"]))


def _topic(given: TopicName) -> TopicName:
    try:
        return parse_topic(str(given))
    except InvalidName as error:
        raise forms.ValidationError(_as_sentence(error)) from None


class ButtonForm(forms.Form):
    """Confirmed by its button alone: for what can be taken back."""

    confirmed = forms.CharField(max_length=3, initial="yes", widget=forms.HiddenInput)


class ConfirmForm(forms.Form):
    """Asks the user to type a name. The script only enables the button; this is the check."""

    confirm = forms.CharField(label="Type the name to confirm", max_length=1024, widget=forms.TextInput(attrs=PLAIN))

    def __init__(self, *args: object, expected: str, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.expected = expected
        self.fields["confirm"].label = gettext("Type {expected} to confirm").format(expected=expected)

    def clean_confirm(self) -> str:
        if self.cleaned_data["confirm"].strip() != self.expected:
            raise forms.ValidationError(
                gettext("This does not match {expected}. Nothing was changed.").format(expected=self.expected)
            )
        return self.expected
