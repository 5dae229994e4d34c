"""Texts of sources in the language of the request: `gettext` where a request is answered, `gettext_lazy` for constants, which are
made before there is one. Values are filled in afterwards: `gettext("Topic {topic} was deleted.").format(topic=topic)`.
"""

from __future__ import annotations

from typing import cast

from django.utils.functional import lazy
from django.utils.translation import gettext as gettext
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext as ngettext


def gettext_lazy(text: str) -> str:
    """Translated when it is shown. It has the methods of a text, but `str.join` and encoders need `str(...)` of it."""
    return cast(str, _lazy(text))


def _named(name: str, text: str) -> str:
    return f"{name}: {text}"


# A name of ours and what it means, in the language of whoever is shown it.
named_text = lazy(_named, str)
