"""The link of an invitation, and the mail that carries it."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from admin_ui.sign_in import mail
from admin_ui.sign_in.adapters import console_address
from admin_ui.translation.texts import gettext, gettext_lazy
from tenants.access import Actor
from tenants.actions.invitations import Invited, invite
from tenants.models import Invitation
from workers.translation.of_tenants import told_in

_TEXT = gettext_lazy("""{inviter} invites you to the tenant {tenant} at Magnetar, as {role}.

Accept here, once, until {until:%Y-%m-%d %H:%M} UTC:
{link}

If you do not know them, do nothing.
""")


def invite_and_tell(
    request: HttpRequest, actor: Actor, tenant: str, email: str, role: str, by_mail: bool, member_days: int = 0
) -> tuple[Invitation, str]:
    """The invitation, and its link for whoever has to pass it on: "" where mail does."""
    by_mail = by_mail and mail.is_set_up()
    made = invite(actor, tenant, email, role, mailed=by_mail, member_days=member_days)
    link = link_of(request, made)
    if not by_mail:
        return made.invitation, link
    inviter = actor.principal.role.partition(":")[2] or actor.principal.role
    with told_in(settings.MAGNETAR, made.invitation.tenant.uid):
        text = str(_TEXT).format(inviter=inviter, tenant=tenant, role=role, until=made.invitation.expires_at, link=link)
        subject = gettext("Invitation to {tenant} at Magnetar").format(tenant=tenant)
    mail.send_later([made.invitation.email], subject, text)
    return made.invitation, ""


def link_of(request: HttpRequest, made: Invited) -> str:
    return console_address(request, reverse("console:invitation_link", args=[made.secret]))
