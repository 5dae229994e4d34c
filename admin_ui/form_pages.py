"""What pages with one form have in common: it is carried out and leads elsewhere, or is shown again with what was wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from django import forms
from django.http import Http404, HttpResponse, HttpResponseRedirect

from admin_ui.access import ConsoleRequest
from admin_ui.calls import Call, calls_of
from admin_ui.forms import ButtonForm, ConfirmForm
from admin_ui.pages import Navigation, add_error, show, show_error, show_message
from messaging.errors import MagnetarError, NotFound

T = TypeVar("T")


def carried_out(request: ConsoleRequest, form: forms.Form, act: Callable[[], object]) -> bool:
    """Whether the form was sent, is valid, and `act` did what it says. What `act` refuses, or adds to the form itself, is an error
    of the form."""
    if request.method != "POST" or not form.is_valid():
        return False
    try:
        act()
    except MagnetarError as error:
        add_error(request, form, error)
    return not form.errors


def refused(request: ConsoleRequest, why: str | MagnetarError, back: str) -> HttpResponseRedirect:
    """Of what cannot be done, and was not begun, so that it leaves no record: `why` is said at `back`."""
    show_error(request, why, begun=False)
    return HttpResponseRedirect(back)


def button_page(
    request: ConsoleRequest, act: Callable[[], T], back: str, after: Callable[[T], tuple[str, str]]
) -> HttpResponseRedirect:
    """What a button of another page does. `after`: what is said of the outcome, and where it leads; where `act` refuses, that leads
    `back`. 404 for what is not there."""
    try:
        outcome = act()
    except NotFound:
        raise Http404 from None
    except MagnetarError as error:
        show_error(request, error)
        return HttpResponseRedirect(back)
    message, page = after(outcome)
    show_message(request, message)
    return HttpResponseRedirect(page)


def confirm_page(
    request: ConsoleRequest,
    nav: Navigation,
    act: Callable[[], object],
    *,
    crumbs: list[tuple[str, str]],
    heading: str,
    impact: list[str],
    name: str = "",
    submit: str,
    done: str | Callable[[], str],
    back: str,
    cancel: str = "",
    calls: Sequence[Call] = (),
    given: Mapping[str, str] = MappingProxyType({}),
    asking: ButtonForm | None = None,
    final: bool = False,
) -> HttpResponse:
    """Asks for `name` before something is gone for good; without one, for a click. `done` is said at `back`; `cancel` leads there
    too, if it names no other page. `given`: what was filled in on the page before, sent again with the confirmation. `asking`: a
    form that asks for more than the click. `final`: it takes something away, and looks so where no name has to be typed, too."""
    form = asking or (ConfirmForm(request.POST or None, expected=name) if name else ButtonForm(request.POST or None))
    if (name or "confirmed" in request.POST) and carried_out(request, form, act):
        show_message(request, done if isinstance(done, str) else done())
        return HttpResponseRedirect(back)
    return show(
        request,
        "pages/confirm.html",
        nav,
        crumbs=crumbs,
        heading=heading,
        impact=impact,
        name=name,
        final=final or bool(name),
        form=form if name or asking or form.errors.get("__all__") else ButtonForm(),
        given=given.items(),
        submit=submit,
        cancel_url=cancel or back,
        calls=calls_of(request, calls) if calls else [],
    )
