"""The people of a tenant: its members, and who is invited."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone

from admin_ui.access import ConsoleRequest, page
from admin_ui.form_pages import carried_out
from admin_ui.forms import KEPT, InviteForm, MemberForm
from admin_ui.pages import add_error, crumbs, navigation, show, show_error, show_message
from admin_ui.row_list import Column, list_rows, newest_first
from admin_ui.sign_in import mail
from admin_ui.sign_in.invitations import invite_and_tell
from admin_ui.translation.texts import gettext, gettext_lazy
from admin_ui.views.member import above, roles_offered
from messaging.errors import MagnetarError
from messaging.permissions.roles import OWNER
from tenants.actions.invitations import Inviters, revoke_invitation
from tenants.actions.members import require_second_factor, set_member
from tenants.audit.reading import records_of
from tenants.models import Invitation, Membership

MEMBER_COLUMNS = (
    Column("name", gettext_lazy("Person"), ("user__username",)),
    Column("role", gettext_lazy("Role"), ("role", "user__username")),
    Column("last_login", gettext_lazy("Last sign-in"), newest_first("user__last_login"), down=True),
)
INVITATION_COLUMNS = (
    Column("made", order=("created_at",), down=True),
    Column("email", gettext_lazy("Address"), ("email",)),
    Column("role", gettext_lazy("Role"), ("role", "email")),
    Column("state", gettext_lazy("State")),
    Column("by", gettext_lazy("By"), ("created_by", "email")),
    Column("ends", gettext_lazy("Ends"), ("expires_at",)),
)


REMOVED, EXPIRED = "member.remove", "member.expire"  # of the audit log
FORMER_MAX = 50


class FormerMember(NamedTuple):
    """`expired`: it ended by itself."""

    username: str
    at: datetime
    expired: bool


# Of `Invitation.state`.
_STATES = {
    "open": gettext_lazy("open"),
    "accepted": gettext_lazy("accepted"),
    "revoked": gettext_lazy("revoked"),
    "expired": gettext_lazy("expired"),
}


@page
def members(request: ConsoleRequest, tenant: str) -> HttpResponse:
    rows = Membership.objects.select_related("user")
    listed = list_rows(request.GET, rows, MEMBER_COLUMNS, searched=("user__username", "user__email", "role"))
    invited = list_rows(request.GET, Invitation.objects.all(), INVITATION_COLUMNS, searched=("email",), name="invited-")
    now, inviters = timezone.now(), Inviters()
    return show(
        request,
        "pages/members.html",
        navigation(request, "members", tenant),
        crumbs=crumbs(tenant),
        listed=listed,
        second_factor_required=request.actor.grants.requires_second_factor(tenant),
        former=_former(tenant),
        invitations=[
            {
                "row": row,
                "state": row.state(now),
                "said": _STATES[row.state(now)],
                "inviter": row.created_by.partition(":")[2] or row.created_by,
                "lapsed": row.state(now) == "open" and not inviters.may(row),
            }
            for row in invited.rows
        ],
        invited=invited,
    )


@page
def member_set(request: ConsoleRequest, tenant: str) -> HttpResponse:
    """Adds somebody who has an account, or changes what a member may do."""
    form = MemberForm(request.POST or None, roles=roles_offered())
    if carried_out(request, form, lambda: _set(request, tenant, form)):
        said = gettext("{username} is {role} of {tenant}.")
        show_message(request, said.format(tenant=tenant, username=form.cleaned_data["username"], role=form.cleaned_data["role"]))
        return HttpResponseRedirect(reverse("console:members", args=[tenant]))
    return show(
        request,
        "pages/form.html",
        navigation(request, "members", tenant),
        crumbs=above(tenant),
        heading=gettext("Add a member"),
        intro=gettext("Somebody who has an account. For others, make an invitation."),
        form=form,
        submit=gettext("Add"),
        cancel_url=reverse("console:members", args=[tenant]),
    )


@page
def second_factor_rule(request: ConsoleRequest, tenant: str) -> HttpResponse:
    required = request.POST.get("required") == "true"
    try:
        require_second_factor(request.actor, tenant, required)
    except MagnetarError as error:
        show_error(request, error)
    else:
        done = (
            gettext("{tenant} requires a second factor of people.")
            if required
            else gettext("{tenant} no longer requires a second factor of people.")
        )
        show_message(request, done.format(tenant=tenant))
    return HttpResponseRedirect(reverse("console:members", args=[tenant]))


@page
def invitation_create(request: ConsoleRequest, tenant: str) -> HttpResponse:
    form = InviteForm(request.POST or None, roles=roles_offered(), by_mail=mail.is_set_up())
    nav = navigation(request, "members", tenant)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            invitation, link = invite_and_tell(
                request,
                request.actor,
                tenant,
                given["email"],
                given["role"],
                given.get("how") == InviteForm.BY_MAIL,
                int(given["days"] or 0),
            )
        except MagnetarError as error:
            add_error(request, form, error)
        else:
            if not link:
                show_message(request, gettext("An invitation is on its way to {email}.").format(email=invitation.email))
                return HttpResponseRedirect(reverse("console:members", args=[tenant]))
            return show(
                request, "pages/invitation_link.html", nav, crumbs=above(tenant), invitation=invitation, link=link, tenant=tenant
            )
    return show(
        request,
        "pages/form.html",
        nav,
        crumbs=above(tenant),
        heading=gettext("Invite somebody"),
        intro=gettext("The invitation works once, for this address, and can be revoked until it is accepted."),
        form=form,
        submit=gettext("Invite"),
        cancel_url=reverse("console:members", args=[tenant]),
    )


@page
def invitation_revoke(request: ConsoleRequest, tenant: str) -> HttpResponse:
    try:
        invitation = revoke_invitation(request.actor, tenant, request.POST.get("invitation", ""))
    except MagnetarError as error:
        show_error(request, error)
    else:
        show_message(request, gettext("The invitation of {email} was revoked.").format(email=invitation.email))
    return HttpResponseRedirect(reverse("console:members", args=[tenant]))


def _former(tenant: str) -> list[FormerMember]:
    """Those of whom the membership ended last, of the newest records that say so; who is a member again is none of them."""
    ended = [
        FormerMember(record.resource.partition("/")[2], record.at, record.action == EXPIRED)
        for action in (REMOVED, EXPIRED)
        for record in records_of(tenant).filter(action=action).order_by("-id")[:FORMER_MAX]
    ]
    names = {person.username: person for person in sorted(ended, key=lambda person: person.at)}
    current = set(Membership.objects.filter(user__username__in=names).values_list("user__username", flat=True))
    former = [person for name, person in names.items() if name not in current]
    return sorted(former, key=lambda person: person.at, reverse=True)[:FORMER_MAX]


def _set(request: ConsoleRequest, tenant: str, form: MemberForm) -> None:
    username, role, days = (form.cleaned_data[name] for name in ("username", "role", "days"))
    member = Membership.objects.select_related("namespace").filter(user__username=username).first()
    expires_at = member.expires_at if member and role != OWNER else None
    if days and days != KEPT:
        expires_at = timezone.now() + timedelta(days=int(days)) if int(days) else None
    set_member(request.actor, tenant, username, role, *_scope_of(member, role), expires_at)


def _scope_of(member: Membership | None, role: str) -> tuple[str, str]:
    """Local namespace and pattern of topics in which somebody has a role; another role stays within them."""
    if member is None or role == OWNER:
        return "", ""
    return (member.namespace.local if member.namespace else ""), member.topics
