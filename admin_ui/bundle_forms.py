"""Forms of the pages that split and unload a bundle."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from django import forms

from admin_ui.forms import PLAIN, ButtonForm
from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.protocol.bundles import Bundle

MIDDLE, BY_COUNT, BY_RATE, BY_HASH = (
    "range_equally_divide",
    "topic_count_equally_divide",
    "flow_or_qps_equally_divide",
    "specified_positions_divide",
)
WAYS = {
    MIDDLE: gettext_lazy("Middle of its range"),
    BY_COUNT: gettext_lazy("Half of its topics each"),
    BY_RATE: gettext_lazy("Half of its messages each"),
}


CUTS_MAX = 16
_HASH = re.compile(r"0x[0-9a-fA-F]{1,8}")


class SplitForm(forms.Form):
    way = forms.ChoiceField(label="How to split")
    hashes = forms.CharField(
        label="Hashes",
        required=False,
        max_length=11 * CUTS_MAX,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="Where to cut, for hashes of your choice: such as 0x20000000, several with spaces between them.",
    )

    def __init__(self, *args: Any, bundle: Bundle, ways: Sequence[tuple[str, str]]) -> None:
        super().__init__(*args)
        self._bundle = bundle
        _offer(self, "way", ways)

    def clean_hashes(self) -> list[int]:
        texts = self.cleaned_data["hashes"].split()
        if self.cleaned_data.get("way") != BY_HASH:
            return []
        cuts = []
        for text in texts:
            cut = int(text, 16) if _HASH.fullmatch(text) else -1
            if not self._bundle.lower < cut < self._bundle.upper:
                raise forms.ValidationError(
                    gettext("{text} is no hash within {bundle}: write one such as 0x{middle:08x}.").format(
                        text=text[:40], bundle=self._bundle, middle=(self._bundle.lower + self._bundle.upper) // 2
                    )
                )
            cuts.append(cut)
        if not cuts:
            raise forms.ValidationError(gettext("Say where to cut."))
        return cuts


class UnloadForm(ButtonForm):
    to_broker = forms.ChoiceField(
        label="To broker",
        required=False,
        error_messages={
            "invalid_choice": gettext_lazy("Broker %(value)s is not running, or may not have this bundle: choose another one.")
        },
    )

    def __init__(self, *args: Any, takers: Sequence[str]) -> None:
        super().__init__(*args)
        if takers:
            _offer(self, "to_broker", [("", gettext("Any that takes it")), *((each, each) for each in takers)])
        else:
            del self.fields["to_broker"]


def _offer(form: forms.Form, name: str, choices: Sequence[tuple[str, str]]) -> None:
    field = form.fields[name]
    assert isinstance(field, forms.ChoiceField)
    field.choices = list(choices)
