"""How far a subscription is moved: forms of the console."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms

from admin_ui.forms import PLAIN
from admin_ui.time_zones import zoned_label
from admin_ui.translation.figures import local_text
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.limits.sizes import INT64_MAX

_UNITS = (
    ("1", gettext_lazy("seconds")),
    ("60", gettext_lazy("minutes")),
    ("3600", gettext_lazy("hours")),
    ("86400", gettext_lazy("days")),
)
_TIME, _MESSAGE = "time", "message"
SPAN = "span"
_TARGETS = (
    ("earliest", gettext_lazy("the earliest message that is kept")),
    ("latest", gettext_lazy("the latest: only what is published from now on")),
)


class SkipForm(forms.Form):
    entries = forms.IntegerField(
        label="Entries",
        min_value=1,
        max_value=2**31 - 1,
        help_text="So many of its backlog, from the oldest on. An entry is one message, or a batch that was published together.",
    )


class ExpireForm(forms.Form):
    older_than = forms.IntegerField(label="Older than", min_value=1, max_value=2**31 - 1)
    unit = forms.TypedChoiceField(label="Unit", choices=_UNITS, coerce=int, initial="3600")

    @property
    def older_than_s(self) -> int:
        return int(self.cleaned_data["older_than"]) * int(self.cleaned_data["unit"])


def _picked() -> forms.DateTimeInput:
    """A field in which a time is picked, or typed as the browser's language has it."""
    return forms.DateTimeInput(attrs={**PLAIN, "type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S")


def yesterday(now: datetime) -> dict[str, Any]:
    """What a replay begins with: the whole day, of which the hours are left to say. `now` is in the reader's zone."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return {"to": SPAN, "time": midnight - timedelta(days=1), "until": midnight}


class ResetForm(forms.Form):
    to = forms.ChoiceField(
        label="To",
        choices=(
            (_TIME, gettext_lazy("a time")),
            (SPAN, gettext_lazy("a span of time, which comes again; all else stays as it is")),
            (_MESSAGE, gettext_lazy("a message")),
            *_TARGETS,
        ),
    )
    time = forms.DateTimeField(
        label=zoned_label(gettext_lazy("Time")),
        required=False,
        widget=_picked(),
        help_text="The first message that comes is the first one published then or later.",
    )
    until = forms.DateTimeField(
        label=zoned_label(gettext_lazy("Only what was published before")),
        required=False,
        widget=_picked(),
        help_text="With a time: of the span up to here everything comes again, and all else stays as it is. Empty: no end.",
    )
    message_id = forms.CharField(
        label="Message id",
        required=False,
        max_length=80,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="ledger:entry, as 12:7; of a partitioned topic ledger:entry:partition. This message is the first one that comes.",
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        for to, field, what in (
            (_TIME, "time", gettext("a time")),
            (SPAN, "time", gettext("a time")),
            (SPAN, "until", gettext("the end of the span")),
            (_MESSAGE, "message_id", gettext("the id of a message")),
        ):
            if given.get("to") == to and not given.get(field) and field not in self.errors:
                self.add_error(field, gettext("Give {what}, or choose another target.").format(what=what))
        if given.get("until") and given.get("to") not in (_TIME, SPAN):
            self.add_error("until", gettext("Only a span that begins at a time has an end: choose a time, or leave this empty."))
        elif given.get("until") and given.get("time") and given["until"] <= given["time"]:
            self.add_error("until", gettext("The end is to be after the time from which on messages come again."))
        if given.get("time") and not 0 <= self.timestamp_ms <= INT64_MAX:
            self.add_error("time", gettext("There were no messages before 1970: give a later time."))
        return given

    @property
    def timestamp_ms(self) -> int:
        time: datetime = self.cleaned_data["time"]
        return int(time.astimezone(UTC).timestamp() * 1000)

    @property
    def until_ms(self) -> int | None:
        """None: no end."""
        until: datetime | None = self.cleaned_data["until"]
        return None if until is None else int(until.astimezone(UTC).timestamp() * 1000)

    @property
    def target(self) -> str:
        """As a sentence."""
        to = str(self.cleaned_data["to"])
        if to in (_TIME, SPAN):
            since = local_text(self.cleaned_data["time"])
            if self.cleaned_data["until"] is not None:
                return gettext(
                    "What was published from {since} until {until} comes again. All else stays acknowledged, or waits, as it is."
                ).format(since=since, until=local_text(self.cleaned_data["until"]))
            return gettext("It continues with the first message published at {since} or later.").format(since=since)
        if to == _MESSAGE:
            return gettext("It continues with message {position}.").format(position=self.position)
        return gettext("It continues with {target}.").format(target=dict(_TARGETS)[to])

    @property
    def no_message(self) -> str:
        """The same where no message has the id that was given."""
        return gettext(
            "There is no message {position}. It continues with the first one behind that, kept or still to be published."
        ).format(position=self.position)

    @property
    def position(self) -> str:
        """ "" for a time."""
        to = str(self.cleaned_data["to"])
        return "" if to in (_TIME, SPAN) else str(self.cleaned_data["message_id"]).strip() if to == _MESSAGE else to
