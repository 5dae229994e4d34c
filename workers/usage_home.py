"""Where usage is computed, if brokers and workers are on several machines: in one data directory, which has every broker's files.

An hour is computed from all files that may hold records of it. Two directories with different files would replace each other's
hours; so the control plane remembers one, and a worker with another one leaves this work alone.
"""

from __future__ import annotations

import secrets
import socket
from datetime import datetime
from pathlib import Path

from messaging.atomic_files import make_directory
from messaging.identity.files import create
from messaging.settings import Settings
from workers.models import UsageHome
from workers.schedule import POOLS

FILE = "home"
POOL = "usage"


def is_home(settings: Settings, now: datetime) -> bool:
    """Whether it is this data directory: the first one that asks, until `move_here` is called in another."""
    if not settings.broker_rpc_urls:
        return True  # broker and workers share the data directory
    home, _ = UsageHome.objects.get_or_create(number=1, defaults=_here(settings, now))
    return home.home == _id(settings.data_path)


def home() -> UsageHome | None:
    return UsageHome.objects.filter(number=1).first()


def move_here(settings: Settings, now: datetime) -> None:
    """From now on it is this data directory. Workers notice when they start, and before each run."""
    UsageHome.objects.update_or_create(number=1, defaults=_here(settings, now))


def pools_here(settings: Settings, now: datetime) -> str:
    """`worker_pools` without the pool of usage where another data directory is the home."""
    if is_home(settings, now):
        return settings.worker_pools
    named = [name.strip() for name in settings.worker_pools.split(",") if name.strip()] or list(POOLS)
    return ",".join(name for name in named if name != POOL)


def _here(settings: Settings, now: datetime) -> dict[str, object]:
    path = settings.data_path.absolute()
    return {"home": _id(path), "machine": socket.gethostname()[:255], "data_dir": str(path)[:4096], "since": now}


def _id(data_path: Path) -> str:
    path = data_path / "usage" / FILE
    make_directory(path.parent)
    create(path, secrets.token_hex(16))
    return path.read_text().strip()
