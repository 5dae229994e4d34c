"""Saved views: those that somebody keeps, and those that are shared with them."""

from __future__ import annotations

from urllib.parse import urlsplit

from django import forms
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import Resolver404, resolve, reverse

from admin_ui.access import ConsoleRequest, may_open, page
from admin_ui.pages import add_error, navigation, show, show_error, show_message
from admin_ui.permissions import CONSOLE
from admin_ui.translation.texts import gettext
from messaging.errors import MagnetarError, NotFound
from tenants.actions.saved_views import delete_view, save_view, views_of
from tenants.models.views import ADDRESS_LENGTH_MAX, VIEW_NAME_LENGTH_MAX


class ViewForm(forms.Form):
    name = forms.CharField(max_length=VIEW_NAME_LENGTH_MAX, label="Name", help_text="By which you find it again with Ctrl K.")
    address = forms.CharField(
        max_length=ADDRESS_LENGTH_MAX, label="Page", help_text="A path of the console, with its filter, order and span."
    )
    shared = forms.BooleanField(required=False, label="Share it with everybody who may see the tenant of the page")

    def clean_address(self) -> str:
        address: str = self.cleaned_data["address"]
        if page_of(address) is None:
            raise forms.ValidationError(gettext("This is no page of the console: copy what follows its host in the address bar."))
        return address


def page_of(address: str) -> dict[str, str] | None:
    """What the path names, such as its tenant; None if `address` is no page of this console that can be visited."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc or not address.startswith("/") or address.startswith(("//", "/\\")):
        return None
    try:
        match = resolve(parts.path)
    except Resolver404:
        return None
    if ("GET", match.view_name) not in CONSOLE or not match.view_name.startswith("console:"):
        return None
    return {name: str(value) for name, value in match.kwargs.items()}


@page
def views(request: ConsoleRequest) -> HttpResponse:
    rows = list(views_of(request.actor, request.user))
    return show(
        request,
        "pages/views.html",
        navigation(request, "account"),
        own=[row for row in rows if row.owner_id == request.user.pk],
        shared=[row for row in rows if row.owner_id != request.user.pk and may_open(request.actor, row.address)],
    )


@page
def view_create(request: ConsoleRequest) -> HttpResponse:
    address = request.GET.get("address", "")[:ADDRESS_LENGTH_MAX]
    form = ViewForm(request.POST or None, initial={"address": address})
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        tenant = (page_of(given["address"]) or {}).get("tenant", "")
        try:
            save_view(request.actor, request.user, given["name"], given["address"], tenant, shared=given["shared"])
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            show_message(request, gettext("The view {name} was saved. Ctrl K finds it by its name.").format(name=given["name"]))
            return HttpResponseRedirect(given["address"])
    return show(
        request,
        "pages/form.html",
        navigation(request, "account"),
        crumbs=[(gettext("Saved views"), reverse("console:views"))],
        heading=gettext("Save a view"),
        form=form,
        intro=gettext("A view is a page as it is now, with its filter, order and span, under a name."),
        submit=gettext("Save view"),
        cancel_url=address if page_of(address) is not None else reverse("console:views"),
    )


@page
def view_delete(request: ConsoleRequest, view: int) -> HttpResponse:
    try:
        name = delete_view(request.actor, request.user, view)
    except NotFound as error:
        show_error(request, error)
    else:
        show_message(request, gettext("The view {name} was deleted.").format(name=name))
    return HttpResponseRedirect(reverse("console:views"))
