"""One person of a tenant: what they are, what they made and what of it stays; and their removal."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse

from admin_ui.access import ConsoleRequest, page
from admin_ui.form_pages import confirm_page
from admin_ui.forms import KEPT, MEMBER_DAYS, MemberForm
from admin_ui.made_view import made_row
from admin_ui.pages import crumbs, navigation, show, show_error
from admin_ui.row_list import cursor_links
from admin_ui.translation.texts import gettext
from messaging.errors import InvalidValue
from messaging.permissions.model import user_role
from messaging.permissions.roles import BUILT_IN
from tenants.actions.members import remove_member
from tenants.models import CustomRole, Membership
from workers.made.kinds import KINDS
from workers.made.reading import MadePage, before_the_log, read_made

MADE_A_PAGE = 50
MADE_NAMED = 10  # before somebody is removed
USERNAME_LENGTH_MAX = 150


def roles_offered() -> list[str]:
    """What a member of the tenant in scope may be; the actions refuse what the actor cannot give."""
    return [*BUILT_IN, *CustomRole.objects.values_list("name", flat=True)]


def above(tenant: str) -> list[tuple[str, str]]:
    return crumbs(tenant, "", (gettext("People"), reverse("console:members", args=[tenant])))


@page
def member(request: ConsoleRequest, tenant: str, person: str) -> HttpResponse:
    """Also of somebody who is no member any more, or never was one."""
    role = user_role(person)
    row = Membership.objects.select_related("user").filter(user__username=person).first()
    found = MadePage([], None)
    try:
        found = read_made(request.actor, tenant, role, limit=MADE_A_PAGE, after=request.GET.get("after", ""))
    except InvalidValue as error:
        show_error(request, error)
    before = before_the_log(request.actor, tenant, role)
    return show(
        request,
        "pages/member.html",
        navigation(request, "members", tenant),
        crumbs=above(tenant),
        person=person,
        member=row,
        form=_form(row) if row else None,
        made=[
            {"row": made_row(tenant, item.kind, item.thing), "made": item.made, "at": item.record.at, "record": item.record.id}
            for item in found.items
        ],
        links=cursor_links(request.GET, found.following or ""),
        before=before,
        old=[made_row(tenant, kind, thing) for kind, thing in before.made],
        unknown=[made_row(tenant, kind, thing) for kind, thing in before.unknown],
        audit_url=f"{reverse('console:audit', args=[tenant])}?{urlencode({'role': role})}",
    )


@page
def member_remove(request: ConsoleRequest, tenant: str) -> HttpResponse:
    """Says before what goes on without them; the page that follows lists all of it."""
    person = (request.POST.get("username") or request.GET.get("username", ""))[:USERNAME_LENGTH_MAX]
    people = reverse("console:members", args=[tenant])
    if not Membership.objects.filter(user__username=person).exists():
        show_error(request, gettext("{username} is not a member.").format(username=person))
        return HttpResponseRedirect(people)
    return confirm_page(
        request,
        navigation(request, "members", tenant),
        lambda: remove_member(request.actor, tenant, person),
        crumbs=above(tenant),
        heading=gettext("Remove {username}").format(username=person),
        impact=[
            gettext("They may do nothing in this tenant from then on, and leave its teams."),
            *_staying(request, tenant, person),
        ],
        given={"username": person},
        submit=gettext("Remove"),
        done=gettext("They are no longer a member. What they made goes on: look through it, and take away what is not wanted."),
        back=reverse("console:member", args=[tenant, person]),
        cancel=people,
        final=True,
    )


def _staying(request: ConsoleRequest, tenant: str, person: str) -> list[str]:
    """Keys and what else gives rights come first, in the order of `KINDS`."""
    found = read_made(request.actor, tenant, user_role(person), limit=MADE_A_PAGE)
    if not found.items and found.following:
        return [gettext("Nothing of what they made lately goes on.")]
    if not found.items:
        return [gettext("They made nothing that goes on.")]
    order = [kind.name for kind in KINDS]
    rows = [made_row(tenant, item.kind, item.thing) for item in sorted(found.items, key=lambda item: order.index(item.kind))]
    named = [gettext("{kind}: {name}").format(kind=row.kind, name=row.name) for row in rows[:MADE_NAMED]]
    more = [gettext("And more: their page lists all of it.")] if found.following or len(rows) > MADE_NAMED else []
    return [gettext("What they made goes on without them:"), *named, *more]


def _form(row: Membership) -> MemberForm:
    """As they are."""
    form = MemberForm(initial={"role": row.role, "days": KEPT}, roles=roles_offered())
    kept = gettext("Until then") if row.expires_at else gettext("Without an end")
    form.offer_days([(KEPT, kept), *((value, label) for value, label in MEMBER_DAYS if value != "0" or row.expires_at)])
    return form
