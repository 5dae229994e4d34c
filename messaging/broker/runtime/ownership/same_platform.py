"""What a broker looks at before it joins others over shared storage: that it has their secrets, and a clock like the database's.

With secrets of its own it could not speak to the others, would refuse every key that they accept, and would still take over their
topics. So the metadata has a fingerprint of the file secrets/platform-id, which is made once and copied with the rest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from messaging.clock import OFF_MS_MAX, ahead_ms, off_text, wall_ms
from messaging.identity.files import read_secret
from messaging.identity.first_start import PLATFORM_ID_FILE
from messaging.settings import ConfigError, Settings
from messaging.storage.ledger_store import Fence
from messaging.storage.sql.meta_store import SqlMetaStore

KEY = "fleet/platform"


async def require_same_platform(settings: Settings, meta: SqlMetaStore, now_ms: Callable[[], int] = wall_ms) -> None:
    """Changes nothing. Raises `ConfigError`, `StoreError`."""
    noted = await meta.get_value(KEY)
    if noted is not None and noted != _fingerprint(settings):
        raise ConfigError(
            f"the secrets in {settings.data_path / 'secrets'} are not those of the brokers that store in metadata_url: copy the "
            "folder secrets from a machine of that platform, or name another database. If those secrets are lost for good, and no "
            f"other broker runs, run there: delete from magnetar_broker.value where key = '{KEY}'"
        )
    begun_ms = now_ms()
    database_ms = await meta.ownership.clock_ms()
    ended_ms = now_ms()
    off_ms = ahead_ms(begun_ms, database_ms, ended_ms)
    if abs(off_ms) > OFF_MS_MAX:
        raise ConfigError(
            f"{off_text(off_ms, 'the server of metadata_url')}, more than {OFF_MS_MAX // 1000} s: set it (timedatectl, chrony) on "
            "whichever of both is wrong"
        )


async def note_platform(settings: Settings, meta: SqlMetaStore, fence: Fence) -> None:
    """The first broker does it, before it serves. Raises `StoreError`."""
    if await meta.get_value(KEY) is None:
        await meta.put_value(fence, KEY, _fingerprint(settings))


def _fingerprint(settings: Settings) -> bytes:
    return hashlib.sha256(b"platform " + read_secret(settings, PLATFORM_ID_FILE).encode()).hexdigest().encode()
