"""What templates of the console may use beside Django's own: figures, and moments that the browser turns into local time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from django import template
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from admin_ui import time_zones
from admin_ui.history.ticks import Tick
from admin_ui.pages import sentence
from admin_ui.translation import figures
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext
from messaging.times import EPOCH, TIME_MS_MAX

register = template.Library()
for _name in ("count", "exact", "of_language", "percent", "rate", "size", "span"):
    register.filter(_name, getattr(figures, _name))
register.filter("said", said)
_LAST_MS = TIME_MS_MAX - 86_400_000  # in every zone it is in the calendar


@register.filter
def as_sentence(text: str) -> str:
    """What a part below the console said, for people."""
    return sentence(said(str(text)))


@register.filter
def help_text(text: str) -> str:
    """Of a field. What is HTML already, such as a link, has its language."""
    return text if hasattr(text, "__html__") else gettext(text)


@register.filter
def breakable(name: str) -> SafeString:
    """`name` with places between its words at which a line may end."""
    return format_html_join(mark_safe("_<wbr>"), "{}", ((part,) for part in name.split("_")))


@register.filter
def in_form(value: float | None, form: str) -> str:
    """`form`: count, size, span, rate (messages a second) or throughput (bytes a second)."""
    per_s = "/s" if form in ("rate", "throughput") and value is not None else ""
    return f"{getattr(figures, 'size' if form == 'throughput' else form)(value)}{per_s}"


@register.filter
def utc(value: date | None, form: str) -> str:
    """A day, month or hour of what is billed, which goes by UTC whoever reads it; `form` as of Django's `date`."""
    return date_format(value.astimezone(UTC) if isinstance(value, datetime) else value, form) if value else ""


@register.filter
def tick_text(tick: Tick) -> str:
    """Below a chart, in the zone that the head of the charts names."""
    return date_format(tick.at, gettext("j M") if tick.is_day else "H:i")


@register.filter
def moment(value: datetime | int | None, form: str = "full") -> str | SafeString:
    """A `<time>` in the person's zone, which local-time.js keeps true: `form` is "full", "second" (with seconds), "clock", "ago" or
    "for" (without the word). Takes a datetime or ms since 1970; producers and filters may say any, and what no calendar has is the
    last day that there is in every zone."""
    if value is None or value == "":
        return ""
    if not isinstance(value, datetime):
        value = EPOCH + timedelta(milliseconds=min(max(value, 0), _LAST_MS))
    local = timezone.localtime(value)
    text = (
        f"{local:%H:%M:%S %Z}"
        if form == "clock"
        else f"{local:%Y-%m-%d %H:%M:%S %Z}"
        if form == "second"
        else f"{local:%Y-%m-%d %H:%M %Z}"
    )
    value = value.astimezone(UTC)
    return format_html('<time datetime="{}" data-form="{}">{}</time>', f"{value:%Y-%m-%dT%H:%M:%SZ}", form, text)


@register.simple_tag
def time_zone() -> str:
    """The name of the zone in which the page shows times and takes them."""
    return time_zones.zone_name()


@register.filter
def typed_time(text: str) -> str:
    """A time of the address, as somebody types it in their zone."""
    return time_zones.typed(text)


@register.filter
def local_part(topic: str) -> str:
    """The last part of a topic's full name."""
    return topic.rpartition("/")[2]
