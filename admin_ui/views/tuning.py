"""Settings for producers by what they send: from numbers that one fills in, or from what is published to a topic now."""

from __future__ import annotations

from typing import Any, NamedTuple

from django import forms
from django.http import Http404, HttpResponse

from admin_ui import api_calls, broker
from admin_ui.access import ConsoleRequest, page
from admin_ui.calls import calls_of, followed, show_calls
from admin_ui.pages import Navigation, add_error, crumbs, navigation, sentence, show
from admin_ui.translation.figures import size
from admin_ui.translation.said import said
from admin_ui.translation.texts import gettext_lazy
from admin_ui.views.topics import topic_name
from messaging.adminrpc.methods import TOPICS_PARTITIONS
from messaging.adminrpc.topics import PartitionsGet
from messaging.errors import InvalidValue, MagnetarError, NotFound
from messaging.limits import tuning as limits
from messaging.limits.model import Limit
from tenants.tuning import measured

EXAMPLE: dict[str, Any] = {"message_bytes": 1000, "messages_per_s": 5000}  # in the requests below a form that is not filled in
TRAFFIC = ("message_bytes", "messages_per_s", "partitions", "producers", "messages_per_entry", "latency_ms", "keyed")
OWN = tuple(limits.OWN_SETTINGS)
PRICES = ("gib_price", "cpu_hour_price")


def _default(more: dict[str, Any]) -> dict[str, Any]:
    """What counts where the field is empty is shown in it."""
    return {"placeholder": more["initial"]} if "initial" in more else {}


def _whole(label: str, limit: Limit, *, required: bool = False, **more: Any) -> forms.IntegerField:
    widget = forms.NumberInput(attrs=_default(more))
    return forms.IntegerField(
        label=label, min_value=limit.minimum, max_value=limit.maximum, required=required, widget=widget, **more
    )


def _number(label: str, limit: Limit, *, required: bool = False, **more: Any) -> forms.FloatField:
    widget = forms.NumberInput(attrs={"step": "any", **_default(more)})
    return forms.FloatField(label=label, min_value=limit.minimum, max_value=limit.maximum, required=required, widget=widget, **more)


def _plain(value: float) -> float:
    """A whole number without a fraction, as one writes it."""
    return int(value) if value.is_integer() else value


class TuneForm(forms.Form):
    """Sent with GET: an answer has an address that can be passed on."""

    message_bytes = _number(gettext_lazy("Message size, bytes"), limits.MESSAGE_BYTES, required=True)
    messages_per_s = _number(gettext_lazy("Messages a second"), limits.RATE, required=True)
    partitions = _whole(gettext_lazy("Partitions"), limits.PARTITIONS, initial=1)
    producers = _whole(gettext_lazy("Producers"), limits.PRODUCERS, initial=1)
    latency_ms = _number(gettext_lazy("Latency bound, ms"), limits.LATENCY, initial=10)
    messages_per_entry = _number(gettext_lazy("Messages in an entry now"), limits.MESSAGES_PER_ENTRY)
    keyed = forms.BooleanField(label="Messages have keys", required=False)
    batching = forms.ChoiceField(
        label="batching",
        choices=(("", gettext_lazy("not set")), ("true", gettext_lazy("on")), ("false", gettext_lazy("off"))),
        required=False,
    )
    batch_messages_max = _whole("batch_messages_max", limits.BATCH_MESSAGES)
    batch_bytes_max = _whole("batch_bytes_max", limits.BATCH_BYTES)
    batch_delay_ms = _number("batch_delay_ms", limits.BATCH_DELAY)
    pending_max = _whole("pending_max", limits.PENDING)
    pending_across_partitions_max = _whole("pending_across_partitions_max", limits.PENDING)
    send_timeout_s = _number("send_timeout_s", limits.SEND_TIMEOUT)
    memory_bytes_max = _whole("memory_bytes_max", limits.MEMORY)
    gib_price = _number(gettext_lazy("A GiB of traffic"), limits.PRICE)
    cpu_hour_price = _number(gettext_lazy("An hour of a processor"), limits.PRICE)

    def asked(self) -> dict[str, Any]:
        """What is filled in, as the API has it. The form is valid."""
        asked = {
            name: value for name, value in self.cleaned_data.items() if value is not None and value is not False and value != ""
        }
        if "batching" in asked:
            asked["batching"] = asked["batching"] == "true"
        return {name: _plain(value) if isinstance(value, float) else value for name, value in asked.items()}

    @property
    def of_traffic(self) -> list[forms.BoundField]:
        return [self[name] for name in TRAFFIC]

    @property
    def of_own(self) -> list[forms.BoundField]:
        return [self[name] for name in OWN]

    @property
    def of_prices(self) -> list[forms.BoundField]:
        return [self[name] for name in PRICES]


class Row(NamedTuple):
    """A setting. `text` is the value as it is written in Python, `about` the same in words where it is a size."""

    name: str
    text: str
    about: str
    reason: str


@page
def tune(request: ConsoleRequest) -> HttpResponse:
    return _answer(request, navigation(request, "tune"), TuneForm(request.GET) if request.GET else TuneForm())


@page
def topic_tune(request: ConsoleRequest, tenant: str, namespace: str, topic: str) -> HttpResponse:
    """Without a query, from the traffic of the topic."""
    name = topic_name(tenant, namespace, topic)
    form, problem = TuneForm(request.GET), ""
    if not request.GET:
        try:
            partitions = broker.ask(lambda rpc: rpc.call(TOPICS_PARTITIONS, PartitionsGet(topic=str(name)))).partitions
            form = TuneForm(_filled_in(broker.ask(lambda rpc: measured(rpc, name, partitions))))
        except NotFound:
            raise Http404 from None
        except MagnetarError as error:
            form, problem = TuneForm(), sentence(broker.why(error))
    above = crumbs(tenant, namespace)
    return _answer(request, navigation(request, "topic", tenant, namespace), form, crumbs=above, topic=topic, problem=problem)


def _filled_in(traffic: Any) -> dict[str, Any]:
    """The fields of the form, rounded to what a person reads."""
    return {
        "message_bytes": max(1, round(traffic.message_bytes)),
        "messages_per_s": _plain(max(0.001, round(traffic.messages_per_s, 1 if traffic.messages_per_s > 10 else 3))),
        "partitions": traffic.partitions,
        "producers": traffic.producers,
        "messages_per_entry": "" if traffic.messages_per_entry is None else _plain(round(traffic.messages_per_entry, 2)),
        "latency_ms": 10,
    }


def _answer(request: ConsoleRequest, nav: Navigation, form: TuneForm, **context: Any) -> HttpResponse:
    asked = form.asked() if form.is_bound and form.is_valid() else {}
    calls = [api_calls.tune(asked or EXAMPLE)]
    if followed(request):
        return show_calls(request, calls)
    report = None
    if asked:
        try:
            report = _report(asked)
        except InvalidValue as error:
            add_error(request, form, error)
    return show(
        request,
        "pages/tune.html",
        nav,
        form=form,
        report=report,
        rows=[_row(setting) for setting in report.settings] if report else [],
        warnings=[sentence(said(warning)) for warning in report.warnings] if report else [],
        contradictions=[sentence(said(contradiction)) for contradiction in report.contradictions] if report else [],
        compared_with=_in_words(report) if report else "",
        traffic_saved=size(report.saved_a_day.traffic_bytes) if report else "",
        own_given=any(name in asked for name in OWN) or any(form[name].errors for name in OWN),
        prices_given=any(name in asked for name in PRICES) or any(form[name].errors for name in PRICES),
        calls=calls_of(request, calls),
        **context,
    )


def _report(asked: dict[str, Any]) -> Any:
    """Raises `InvalidValue`."""
    from messaging.client.savings import TopicTraffic  # the SDK is loaded only where it is asked for
    from messaging.client.tuning_report import TuneQuestion
    from messaging.client.tuning_report import tune as report

    traffic = TopicTraffic(
        asked["messages_per_s"],
        asked["message_bytes"],
        asked.get("messages_per_entry"),
        asked.get("partitions", 1),
        asked.get("producers", 1),
    )
    own = {name: asked[name] for name in OWN if name in asked}
    prices = (asked.get("gib_price"), asked.get("cpu_hour_price"))
    return report(TuneQuestion(traffic, asked.get("latency_ms", 10), asked.get("keyed", False), own, *prices))


def _in_words(report: Any) -> str:
    from messaging.client.tuning_report import IN_WORDS

    return said(IN_WORDS[report.compared_with])


def _written(value: float | str | bool) -> str:
    """In Python."""
    return str(_plain(value)) if isinstance(value, float) else repr(value)


def _row(setting: Any) -> Row:
    value = setting.value
    about = size(value) if "_bytes_" in setting.name and isinstance(value, int) else ""
    return Row(setting.name, _written(value), about, said(setting.reason))
