"""Signing in, signing out, changing the password."""

from __future__ import annotations

from allauth.account.internal.flows.login import perform_login, record_authentication
from allauth.account.models import EmailAddress, Login
from django.contrib.auth import authenticate, logout, update_session_auth_hash
from django.contrib.auth.forms import PasswordChangeForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters

from admin_ui import devices
from admin_ui import sign_in_throttle as sign_in_throttle
from admin_ui.access import ConsoleRequest, page
from admin_ui.forms import SignInForm
from admin_ui.pages import navigation, show, show_message
from admin_ui.translation.texts import gettext, gettext_lazy
from tenants.http.authentication import client_address_of

# The same text whether the user does not exist, the password is wrong or the user was deactivated.
WRONG = gettext_lazy("The user name or password is incorrect.")
TOO_MANY = gettext_lazy("Too many sign-in attempts. Wait five minutes, then try again.")


@sensitive_post_parameters("password")
@page
def sign_in(request: HttpRequest) -> HttpResponse:
    after = _after(request)
    if request.method == "GET":
        if request.user.is_authenticated:
            return HttpResponseRedirect(after)
        return show(request, "pages/sign_in.html", form=SignInForm(), next=after)
    form = SignInForm(request.POST)
    status = 200
    if form.is_valid():
        username, address = form.cleaned_data["username"], client_address_of(request)
        device = devices.device_of(request, username)
        if sign_in_throttle.too_many(username, address, device):
            form.add_error(None, TOO_MANY)
            status = 429
        else:
            user = authenticate(request, username=_named(username), password=form.cleaned_data["password"])
            if user is not None:
                sign_in_throttle.succeeded(username, address, device)
                # What comes next, a second factor or the page that they asked for, is one of allauth's stages.
                # Who has just shown the password is not asked for it again by the pages that ask.
                record_authentication(request, user, method="password", username=user.get_username(), reauthenticated=True)
                response: HttpResponse = perform_login(request, Login(user=user, redirect_url=after))
                devices.remember(request, response, user)
                return response
            form.add_error(None, WRONG)
    return show(request, "pages/sign_in.html", form=form, next=after, status=status)


def _named(login: str) -> str:
    """The user name that somebody means who typed their address; only one that was shown to be theirs counts."""
    if "@" not in login:
        return login
    owner = EmailAddress.objects.filter(email=login.lower(), verified=True).select_related("user").first()
    return owner.user.username if owner is not None else login


def _after(request: HttpRequest) -> str:
    """Where to go after signing in; never to another site."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    if url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure()):
        return wanted
    return reverse("console:home")


@page
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return HttpResponseRedirect(reverse("console:sign_in"))


@sensitive_post_parameters()
@page
def password(request: ConsoleRequest) -> HttpResponse:
    form = PasswordChangeForm(request.user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        update_session_auth_hash(request, form.save())
        show_message(request, gettext("Your password was changed. Your other sessions were signed out."))
        return HttpResponseRedirect(reverse("console:home"))
    for name in ("old_password", "new_password1", "new_password2"):
        form.fields[name].help_text = (
            gettext("At least 12 characters; not a common password and not similar to your user name.")
            if name == "new_password1"
            else ""
        )
        form.fields[name].widget.attrs["autocomplete"] = "current-password" if name == "old_password" else "new-password"
    return show(
        request,
        "pages/form.html",
        navigation(request, "password"),
        heading=gettext("Change password"),
        form=form,
        submit=gettext("Change password"),
        cancel_url=reverse("console:home"),
        crumbs=[],
        account=True,
    )
