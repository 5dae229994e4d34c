"""The form that publishes a message, or one like another with edits."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from django import forms

from admin_ui.translation.texts import gettext, gettext_lazy
from messaging.adminrpc.messages import MessageGiven
from messaging.limits.sizes import PAIR_BYTES_MAX, PAIRS_COUNT_MAX
from messaging.protocol.names import NAME_LENGTH_MAX
from tenants.browsing.pages import MessageRow

PAYLOAD_CHARACTERS_MAX = 256 << 10
TEXT, BASE64 = "text", "base64"


class PublishForm(forms.Form):
    payload = forms.CharField(
        required=False,
        strip=False,
        max_length=PAYLOAD_CHARACTERS_MAX,
        widget=forms.Textarea(attrs={"rows": 12, "spellcheck": "false"}),
    )
    encoding = forms.ChoiceField(
        choices=[(TEXT, gettext_lazy("Text")), (BASE64, gettext_lazy("Base64, for binary data"))], initial=TEXT
    )
    key = forms.CharField(required=False, strip=False, max_length=NAME_LENGTH_MAX)
    properties = forms.CharField(
        required=False,
        strip=False,
        help_text="One a line: NAME=VALUE",
        max_length=PAYLOAD_CHARACTERS_MAX,
        widget=forms.Textarea(attrs={"rows": 4}),
    )

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or self.cleaned_data
        text = given.get("payload", "")
        # A browser sends lines as HTTP has them
        given["bytes"] = text.replace("\r\n", "\n").encode("utf-8", "replace")
        if given.get("encoding") == BASE64:
            try:
                given["bytes"] = base64.b64decode("".join(text.split()), validate=True)
            except (binascii.Error, ValueError):
                self.add_error("payload", gettext("This is no base64: check it, or publish it as text."))
        given["pairs"] = self._pairs(given.get("properties", ""))
        return given

    def _pairs(self, text: str) -> dict[str, str]:
        pairs = {}
        for line in filter(str.strip, text.replace("\r\n", "\n").split("\n")):
            name, separator, value = line.partition("=")
            if not name or not separator or len(line.encode()) > PAIR_BYTES_MAX:
                self.add_error(
                    "properties",
                    gettext("“{line}” is no property of at most {pair_bytes_max} bytes: write NAME=VALUE.").format(
                        line=line[:40], pair_bytes_max=PAIR_BYTES_MAX
                    ),
                )
                break
            pairs[name] = value
        if len(pairs) > PAIRS_COUNT_MAX:
            self.add_error(
                "properties", gettext("A message has at most {pairs_count_max} properties.").format(pairs_count_max=PAIRS_COUNT_MAX)
            )
        return pairs

    def message(self) -> MessageGiven:
        given = self.cleaned_data
        return MessageGiven(payload=given["bytes"], key=given["key"] or None, properties=given["pairs"])


def why_not_again(row: MessageRow) -> str:
    """Why the form could only publish something else than this message; empty: it can publish the same."""
    if row.masked:
        return gettext("Parts of it are masked for you: published again, it would have the mask in place of what it says.")
    if row.encryption_keys or row.payload_cut:
        return gettext("It is encrypted, or too large to be edited here.")
    if row.problem and row.format == "hex":
        return gettext("It could not be unpacked: download its payload instead.")
    if row.metadata_cut:
        return gettext("Its key or its properties are too long to be edited here.")
    if row.key_is_base64:
        return gettext("Its key is binary, and the form takes only a text: use a client.")
    if any("=" in name or not name or {"\r", "\n", "\0"} & {*name, *value} for name, value in row.properties.items()):
        return gettext(
            "A property of it has no name, a = in its name or a line break: the form has one property a line. Use a client."
        )
    return ""


def initial_of(row: MessageRow) -> dict[str, str]:
    """The form for one like it: its payload as it was published, not as it is shown. As base64 also where a browser would change
    the text: it sends every end of a line as CR LF, and no form takes a NUL."""
    payload = base64.b64decode(row.payload_base64)
    try:
        text, encoding = payload.decode(), TEXT
    except UnicodeDecodeError:
        text, encoding = row.payload_base64, BASE64
    if "\r" in text or "\0" in text:
        text, encoding = row.payload_base64, BASE64
    properties = "\n".join(f"{name}={value}" for name, value in row.properties.items())
    return {"payload": text, "encoding": encoding, "key": row.key or "", "properties": properties}
