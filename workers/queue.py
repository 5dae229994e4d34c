"""Where the queue of tasks is. Redis or Valkey; without either, files: a message taken by a worker that dies is lost then, which
beat's next tick makes good."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from kombu.transport import TRANSPORT_ALIASES

from messaging.settings import ConfigError, Settings

TRANSPORT_ALIASES["filesystem"] = "workers.file_queue:Transport"
_SCHEMES = ("redis", "rediss", "redis+socket", "filesystem")
# A task that was not finished when its worker died is given to another after this time. No task may take longer than that.
VISIBILITY_TIMEOUT_MARGIN_S = 600
# Said explicitly: redis-py 8 makes its own choice of 5 s, which ends idle waits.
SOCKET_TIMEOUT_S = 30.0
CONNECT_TIMEOUT_S = 5.0
_POLL_S = 0.5


def queue_url(settings: Settings) -> str:
    """As Celery spells it. Raises `ConfigError` for a URL that is none of a queue."""
    url = settings.redis_url
    if not url:
        socket = settings.data_path.absolute() / "run" / "valkey.sock"
        return f"redis+socket://{quote(str(socket))}" if socket.exists() else "filesystem://"
    if url.startswith("unix://"):
        url = "redis+socket://" + url.removeprefix("unix://")
    if url.partition("://")[0] not in _SCHEMES:
        raise ConfigError(
            f"redis_url = {url.partition('://')[0]}://... is not the URL of a Redis or Valkey server: redis://host:6379/0"
        )
    return url


def queue_configuration(settings: Settings) -> dict[str, Any]:
    """Celery's settings for the queue and for results."""
    url = queue_url(settings)
    if url.startswith("filesystem"):
        folder = settings.data_path / "run" / "queue"
        for name in ("messages", "control", "results"):
            (folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        options = {
            "data_folder_in": str(folder / "messages"),
            "data_folder_out": str(folder / "messages"),  # one folder: what is sent is what is received
            "control_folder": str(folder / "control"),
            "polling_interval": _POLL_S,
        }
        return {"broker_url": url, "broker_transport_options": options, "result_backend": f"file://{folder / 'results'}"}
    return {
        "broker_url": url,
        "broker_transport_options": {
            "visibility_timeout": settings.usage_job_timeout_s + VISIBILITY_TIMEOUT_MARGIN_S,
            "socket_timeout": SOCKET_TIMEOUT_S,
            "socket_connect_timeout": CONNECT_TIMEOUT_S,
        },
        "result_backend": url,
        "redis_socket_timeout": SOCKET_TIMEOUT_S,
        "redis_socket_connect_timeout": CONNECT_TIMEOUT_S,
    }


def worker_ready_file(settings: Settings) -> Path:
    """Of a process with some of the pools a file of its own."""
    pools = "".join(f"-{name.strip()}" for name in settings.worker_pools.split(",") if name.strip())
    return settings.data_path / "run" / f"worker{pools}.json"
