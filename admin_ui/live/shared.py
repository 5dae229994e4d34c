"""What the live pages of this process share: one of each per event loop, of which a web process has one."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from django.conf import settings as django_settings

from admin_ui import broker
from admin_ui.live.hub import LiveHub
from admin_ui.live.rights import RightsWatch, records_after
from admin_ui.live.watchers import Watchers
from tenants.http.threads import in_database_thread

_watchers: list[Watchers] = []
_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, LiveHub] = WeakKeyDictionary()
_rights: WeakKeyDictionary[asyncio.AbstractEventLoop, RightsWatch] = WeakKeyDictionary()


def live_hub() -> LiveHub:
    """Must be called on the loop. Asks the broker through `admin_ui.broker`."""
    loop = asyncio.get_running_loop()
    hub = _hubs.get(loop)
    if hub is None:
        hub = _hubs[loop] = LiveHub(broker.namespace_live)
    return hub


def live_watchers() -> Watchers:
    """Of this process."""
    if not _watchers:
        _watchers.append(Watchers(max(1, django_settings.MAGNETAR.http_connections_max // 2)))
    return _watchers[0]


def rights_watch() -> RightsWatch:
    """Must be called on the loop."""
    loop = asyncio.get_running_loop()
    watch = _rights.get(loop)
    if watch is None:
        watch = _rights[loop] = RightsWatch(in_database_thread(records_after))
    return watch
