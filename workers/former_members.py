"""Mail addresses of people who may see nothing of a tenant any more: it sends them none, whoever wrote them down where.

Somebody who never was a member may be told, such as an accountant outside: an administrator of the tenant chose that. Whose
membership ended, or whose account was deactivated, was told as a member, and is not told any more until they are one again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from django.db import connection

from messaging.permissions.model import user_role
from tenants.models import AuditRecord, Invitation, Membership, Tenant, User, administrators
from tenants.scoping import platform_scope

ENDS = ("member.remove", "member.expire")  # of the audit log
RECORDS_MAX = 200  # of one person as a member, that are looked at


def former(tenant_uid: str, addresses: Collection[str]) -> list[str]:
    """Those of the addresses to which no mail goes, in their order. An address that several people have counts as gone when
    none of them is to be told. Reads the database."""
    if not addresses:
        return []
    with platform_scope():
        people = _people_of(tenant_uid, {address.lower() for address in addresses})
        gone = {address for address, users in people.items() if all(_is_former(tenant_uid, user) for user in users)}
    return [address for address in addresses if address.lower() in gone]


def _people_of(tenant_uid: str, addresses: Collection[str]) -> dict[str, list[User]]:
    """Whose an address is was shown by them, or said by the tenant when it invited them; else somebody could keep mail from others
    by naming their address."""
    people: dict[str, list[User]] = {}
    shown = _shown_addresses(addresses)
    users = User.objects.in_bulk([user_id for user_id, _ in shown])
    for user_id, address in shown:
        if user_id in users:  # or it was deleted meanwhile
            people.setdefault(address, []).append(users[user_id])
    invited = Invitation.objects.filter(tenant__uid=tenant_uid, email__in=addresses).exclude(accepted_by="")
    accepted = set(invited.values_list("accepted_by", "email"))  # by one person perhaps several times, at another address each
    by_name = {user.username: user for user in User.objects.filter(username__in=[name for name, _ in accepted])}
    for name, address in accepted:
        if name in by_name:
            people.setdefault(address, []).append(by_name[name])
    return people


def _shown_addresses(addresses: Collection[str]) -> list[tuple[int, str]]:
    """The account and the address, of those that were shown: in lower case, as they are kept, so that an index finds them. Their
    table is read by its name: a worker does not load their app, which is of pages alone."""
    marks = ", ".join(["%s"] * len(addresses))
    with connection.cursor() as cursor:
        cursor.execute(f"select user_id, email from account_emailaddress where verified and email in ({marks})", list(addresses))
        return list(cursor.fetchall())


def _is_former(tenant_uid: str, user: User) -> bool:
    tenant = Tenant.objects.filter(uid=tenant_uid).first()
    if tenant is None:
        return False
    if not user.is_active:
        return True
    if user_role(user.username) in tenant.admin_roles:
        return False
    if Membership.objects.filter(tenant=tenant, user=user).exists() or administrators().filter(pk=user.pk).exists():
        return False
    if Membership.ever.filter(tenant=tenant, user=user).exists():  # its time is over, and no task has removed it yet
        return True
    records = AuditRecord.objects.filter(tenant_uid=tenant_uid, resource=f"{tenant.name}/{user.username}")
    return not set(ENDS).isdisjoint(records.order_by("-id").values_list("action", flat=True)[:RECORDS_MAX])


def former_of(tenant: str, addresses: Iterable[str]) -> list[str]:
    """The same by the name of the tenant, each once."""
    with platform_scope():
        uid = Tenant.objects.filter(name=tenant).values_list("uid", flat=True).first() or ""
    return former(uid, sorted(set(addresses)))


def without_former(tenant_uid: str, addresses: Sequence[str]) -> list[str]:
    gone = set(former(tenant_uid, addresses))
    return [address for address in addresses if address not in gone]
