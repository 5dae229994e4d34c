"""Where an audit log is streamed to: of a tenant, or of the platform. How far that is, what is wrong, set, try again, stop."""

from __future__ import annotations

from django import forms
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui import api_calls
from admin_ui.access import ConsoleRequest, page
from admin_ui.calls import calls_of, followed, show_calls
from admin_ui.form_pages import carried_out, confirm_page
from admin_ui.forms import PLAIN
from admin_ui.pages import Navigation, crumbs, navigation, show, show_error, show_message
from admin_ui.translation.texts import gettext
from messaging.errors import MagnetarError, NotFound
from workers.alerts.target_topics import PLATFORM
from workers.alerts.webhooks import host_of
from workers.audit_streams.actions import delete_stream, newest_id, set_stream, stream_of
from workers.audit_streams.models import AuditStream
from workers.of_tenant import TOPIC_LENGTH_MAX


class StreamForm(forms.Form):
    url = forms.CharField(
        label="Webhook",
        max_length=2000,
        required=False,
        widget=forms.TextInput(attrs=PLAIN | {"inputmode": "url"}),
        help_text="https://host/path: gets batches of records as JSON lines, by POST. Another address gets another secret.",
    )
    topic = forms.CharField(
        label="Or a topic",
        max_length=TOPIC_LENGTH_MAX,
        required=False,
        widget=forms.TextInput(attrs=PLAIN),
        help_text="persistent://tenant/namespace/topic: gets each record as a message, the same line.",
    )
    oldest = forms.BooleanField(
        label="Begin with the oldest record there is",
        required=False,
        help_text="Else with what is written now, or where it is.",
    )


@page
def audit_stream(request: ConsoleRequest, tenant: str) -> HttpResponse:
    return _stream(request, tenant)


@page
def platform_audit_stream(request: ConsoleRequest) -> HttpResponse:
    return _stream(request, PLATFORM)


@page
def audit_stream_delete(request: ConsoleRequest, tenant: str) -> HttpResponse:
    return _delete(request, tenant)


@page
def platform_audit_stream_delete(request: ConsoleRequest) -> HttpResponse:
    return _delete(request, PLATFORM)


def _stream(request: ConsoleRequest, tenant: str) -> HttpResponse:
    row = _existing(tenant)
    if request.method == "POST" and "again" in request.POST:
        return _again(request, tenant, row)
    form = StreamForm(request.GET if followed(request) else request.POST or None, initial=_initial(row))
    if followed(request):
        form.is_valid()
        given = form.cleaned_data
        url, topic, oldest = given.get("url", ""), given.get("topic", ""), bool(given.get("oldest"))
        return show_calls(request, [api_calls.set_audit_stream(tenant, url, topic=topic, oldest=oldest)])

    def change() -> None:
        given = form.cleaned_data
        set_stream(request.actor, tenant, given["url"], topic=given["topic"], oldest=given["oldest"])

    if carried_out(request, form, change):
        show_message(request, gettext("Records are sent there from now on."))
        return HttpResponseRedirect(request.path)
    return show(
        request,
        "pages/audit_stream.html",
        _navigation(request, tenant),
        crumbs=_above(tenant),
        stream=row,
        host=_target(row) if row else "",
        newest=newest_id(row) if row else 0,
        remove_url=_address("audit_stream_delete", tenant),
        form=form,
        calls=calls_of(request, [api_calls.set_audit_stream(tenant, **_initial(row), oldest=False)]),
    )


def _again(request: ConsoleRequest, tenant: str, row: AuditStream | None) -> HttpResponse:
    """As setting the same address again: nothing is waited for any longer."""
    if row is None:
        raise Http404
    try:
        set_stream(request.actor, tenant, row.url, topic=row.topic, oldest=False)
    except MagnetarError as error:
        show_error(request, error)
    else:
        show_message(request, gettext("A worker tries again in a moment. What comes of it is shown here."))
    return HttpResponseRedirect(request.path)


def _delete(request: ConsoleRequest, tenant: str) -> HttpResponse:
    row = _existing(tenant)
    if row is None:
        raise Http404
    host = _target(row)
    return confirm_page(
        request,
        _navigation(request, tenant),
        lambda: delete_stream(request.actor, tenant),
        crumbs=[*_above(tenant), (gettext("Stream"), _address("audit_stream", tenant))],
        heading=gettext("Stop streaming the audit log"),
        impact=[
            gettext(
                "Nothing more is sent to {host}, and how far it was is forgotten: a later stream begins anew. The log itself stays."
            ).format(host=host)
        ],
        name=host,
        submit=gettext("Stop streaming"),
        done=gettext("The audit log is no longer sent to {host}.").format(host=host),
        back=_address("audit_stream", tenant),
        calls=[api_calls.delete_audit_stream(tenant)],
    )


def _initial(row: AuditStream | None) -> dict[str, str]:
    return {"url": row.url, "topic": row.topic} if row is not None else {"url": "", "topic": ""}


def _target(row: AuditStream) -> str:
    """The host of its receiver, or its topic."""
    return row.topic or host_of(row.url)


def _existing(tenant: str) -> AuditStream | None:
    try:
        return stream_of(tenant)
    except NotFound:
        return None


def _navigation(request: ConsoleRequest, tenant: str) -> Navigation:
    return navigation(request, "audit", tenant) if tenant else navigation(request, "platform_audit")


def _above(tenant: str) -> list[tuple[str, str]]:
    log = (gettext("Audit log"), _address("audit", tenant))
    return crumbs(tenant, "", log) if tenant else [log]


def _address(name: str, tenant: str) -> str:
    return reverse(f"console:{name}", args=[tenant]) if tenant else reverse(f"console:platform_{name}")
