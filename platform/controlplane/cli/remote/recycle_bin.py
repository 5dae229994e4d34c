"""`magnetar recycle-bin`: deleted topics, namespaces and tenants that can be restored."""

from __future__ import annotations

import click

from controlplane.cli.remote.command import DRY_RUN, Remote, RemoteGroup, remote
from controlplane.cli.remote.output import show_outcome, show_rows

COLUMNS = ("recycle_id", "topic", "partitions", "storage_bytes", "deleted_at", "expires_at", "deleted_by")
RECYCLED_COLUMNS = ("recycle_id", "name", "contents", "deleted_at", "expires_at", "deleted_by")
TENANT = click.argument("tenant")
NAMESPACE = click.argument("namespace", metavar="TENANT/NAMESPACE")


@click.group("recycle-bin", cls=RemoteGroup)
def recycle_bin() -> None:
    """Deleted topics, namespaces and tenants that can be restored."""


def _parts(at: Remote, namespace: str) -> tuple[str, str]:
    tenant, slash, local = namespace.partition("/")
    return (tenant, local) if slash else (at.tenant(), namespace)


@recycle_bin.command("list")
@NAMESPACE
@remote
def recycle_bin_list(at: Remote, namespace: str) -> None:
    """List them, in the order of their deletion."""
    show_rows(at.admin.recycle_bin.each(*_parts(at, namespace)), COLUMNS, as_json=at.as_json)


@recycle_bin.command("restore")
@NAMESPACE
@click.argument("recycle_id")
@DRY_RUN
@remote
def recycle_bin_restore(at: Remote, namespace: str, recycle_id: str, dry_run: bool) -> None:
    """Restore a topic with its messages, subscriptions, schema and policies."""
    told = at.admin.recycle_bin.restore(*_parts(at, namespace), recycle_id, dry_run=dry_run)
    show_outcome(told, as_json=at.as_json)


@recycle_bin.command("purge")
@NAMESPACE
@click.argument("recycle_id")
@DRY_RUN
@remote
def recycle_bin_purge(at: Remote, namespace: str, recycle_id: str, dry_run: bool) -> None:
    """Delete a topic for good. This cannot be undone."""
    told = at.admin.recycle_bin.delete(*_parts(at, namespace), recycle_id, dry_run=dry_run)
    done = {"dry_run": False, "action": "topic.purge", "resource": recycle_id, "affected": {}}
    show_outcome(told or done, as_json=at.as_json)


@recycle_bin.command("namespaces")
@TENANT
@remote
def recycled_namespaces_list(at: Remote, tenant: str) -> None:
    """List deleted namespaces of a tenant, in the order of their deletion."""
    show_rows(at.admin.recycled_namespaces.each(tenant), RECYCLED_COLUMNS, as_json=at.as_json)


@recycle_bin.command("restore-namespace")
@TENANT
@click.argument("recycle_id")
@DRY_RUN
@remote
def recycled_namespaces_restore(at: Remote, tenant: str, recycle_id: str, dry_run: bool) -> None:
    """Restore a namespace with its policies, permissions, topics and messages."""
    told = at.admin.recycled_namespaces.restore(tenant, recycle_id, dry_run=dry_run)
    show_outcome(told, as_json=at.as_json)


@recycle_bin.command("purge-namespace")
@TENANT
@click.argument("recycle_id")
@DRY_RUN
@remote
def recycled_namespaces_purge(at: Remote, tenant: str, recycle_id: str, dry_run: bool) -> None:
    """Delete a namespace for good. This cannot be undone."""
    told = at.admin.recycled_namespaces.delete(tenant, recycle_id, dry_run=dry_run)
    done = {"dry_run": False, "action": "namespace.purge", "resource": recycle_id, "affected": {}}
    show_outcome(told or done, as_json=at.as_json)


@recycle_bin.command("tenants")
@remote
def recycled_tenants_list(at: Remote) -> None:
    """List deleted tenants, in the order of their deletion."""
    show_rows(at.admin.recycled_tenants.each(), RECYCLED_COLUMNS, as_json=at.as_json)


@recycle_bin.command("restore-tenant")
@click.argument("recycle_id")
@DRY_RUN
@remote
def recycled_tenants_restore(at: Remote, recycle_id: str, dry_run: bool) -> None:
    """Restore a tenant with its people, keys, namespaces, topics and messages."""
    show_outcome(at.admin.recycled_tenants.restore(recycle_id, dry_run=dry_run), as_json=at.as_json)


@recycle_bin.command("purge-tenant")
@click.argument("recycle_id")
@DRY_RUN
@remote
def recycled_tenants_purge(at: Remote, recycle_id: str, dry_run: bool) -> None:
    """Delete a tenant for good. This cannot be undone."""
    told = at.admin.recycled_tenants.delete(recycle_id, dry_run=dry_run)
    done = {"dry_run": False, "action": "tenant.purge", "resource": recycle_id, "affected": {}}
    show_outcome(told or done, as_json=at.as_json)
