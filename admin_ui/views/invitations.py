"""Accepting an invitation, with an account or without one.

Opening the link accepts nothing: mail scanners open it, too. Its secret moves into the session, out of the address."""

from __future__ import annotations

from allauth.account.internal.flows.login import perform_login, record_authentication
from allauth.account.models import EmailAddress, Login
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters

from admin_ui.access import page
from admin_ui.forms import JoinForm
from admin_ui.pages import add_error, explain, show, show_message
from admin_ui.sign_in.trail import acting
from admin_ui.translation.texts import gettext
from messaging.errors import MagnetarError
from tenants.actions.invitations import accept_invitation, join_by_invitation, open_invitation
from tenants.http.authentication import client_address_of
from tenants.http.errors import fail
from tenants.models import Invitation, User

_KEPT = "invitation"  # in the session


@page
def invitation_link(request: HttpRequest, secret: str) -> HttpResponse:
    request.session[_KEPT] = secret[:100]
    return HttpResponseRedirect(reverse("console:invitation"))


@sensitive_post_parameters("password1", "password2")
@page
def invitation(request: HttpRequest) -> HttpResponse:
    secret = str(request.session.get(_KEPT, ""))
    offered = open_invitation(secret)
    if offered is None:
        return show(request, "pages/invitation.html", invitation=None)
    user = request.user
    if isinstance(user, User):
        return _with_account(request, offered, secret, user)
    if EmailAddress.objects.filter(email=offered.email, verified=True).exists():
        return show(request, "pages/invitation.html", invitation=offered, has_account=True)
    return _without_account(request, offered, secret)


def _with_account(request: HttpRequest, offered: Invitation, secret: str, user: User) -> HttpResponse:
    own = list(EmailAddress.objects.filter(user=user, verified=True).values_list("email", flat=True))
    error = ""
    if request.method == "POST":
        try:
            accept_invitation(acting(request, user), secret, user, own)
        except MagnetarError as refusal:
            fail(request, refusal, begun=True)
            error = explain(refusal)
        else:
            del request.session[_KEPT]
            show_message(request, gettext("You are a member of {tenant_id} now.").format(tenant_id=offered.tenant_id))
            return HttpResponseRedirect(reverse("console:tenant", args=[offered.tenant_id]))
    mine = offered.email in {address.lower() for address in own}
    return show(request, "pages/invitation.html", invitation=offered, signed_in=True, mine=mine, error=error)


def _without_account(request: HttpRequest, offered: Invitation, secret: str) -> HttpResponse:
    form = JoinForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            user = join_by_invitation(
                secret, form.cleaned_data["password1"], getattr(request, "request_id", ""), client_address_of(request)
            )
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            EmailAddress.objects.create(user=user, email=offered.email, verified=offered.mailed, primary=True)
            logout(request)  # nothing of the session before goes on
            record_authentication(request, user, method="invitation")
            show_message(
                request,
                gettext("You are a member of {tenant_id} now. Your user name is {username}.").format(
                    tenant_id=offered.tenant_id, username=user.username
                ),
            )
            redirect_url = reverse("console:tenant", args=[offered.tenant_id])
            response: HttpResponse = perform_login(request, Login(user=user, redirect_url=redirect_url))
            return response
    return show(request, "pages/invitation.html", invitation=offered, form=form)
