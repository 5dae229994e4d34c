"""How many files and connections a process may have open, and settings that fit into that.

A process without a free descriptor can neither accept a connection nor open a file of the log. So listeners take no more than what
is left beside the files.
"""

from __future__ import annotations

import resource

from msgspec.structs import replace

from messaging.http_server.connection_slots import RESERVED
from messaging.settings import ConfigError, Settings

FILES = 256  # descriptors for everything but connections: segments, databases, logs, sockets that listen
CONNECTIONS_MIN = 64
HTTP_LISTENERS = 2  # of a broker as of a web process
SHARE_BEFORE_SIGN_IN = 8  # where descriptors are few, 1/8 of them at most go to connections of each kind that may be idle strangers


def raise_limit(wanted: int) -> int:
    """Raises the limit of open files of this process to `wanted`, as far as the system permits. Returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited or soft >= wanted:
        return wanted if soft == unlimited else soft
    most = wanted if hard == unlimited else min(hard, wanted)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    except (OSError, ValueError):
        return soft
    return most


def of_broker(settings: Settings) -> int:
    """Descriptors that a broker needs if all of its connections are taken: those that are signed in, over whatever listener, and as
    many that are not as each listener takes. One of several has as many connections to others, on behalf of clients."""
    return FILES + _each(settings) * settings.connections_max + 2 * settings.connections_unauthenticated_max + of_http(settings)


def _each(settings: Settings) -> int:
    return 2 if settings.brokers > 1 else 1


def of_http(settings: Settings) -> int:
    """Descriptors of the HTTP listeners of a process."""
    return HTTP_LISTENERS * (settings.http_connections_max + RESERVED)


def of_web(settings: Settings) -> int:
    """Descriptors that a web process needs."""
    return FILES + of_http(settings) + 2 * settings.web_websockets_max


def tunnels_fitting(settings: Settings, limit: int) -> int:
    """How many WebSockets a web process with this limit of open files can pass on: two connections each."""
    return max(0, min(settings.web_websockets_max, (limit - FILES - of_http(settings)) // 2))


def fitting(settings: Settings, limit: int) -> Settings:
    """`settings` with as many connections as a broker with this limit of open files can have. Raises `ConfigError`."""
    if limit >= of_broker(settings):
        return settings
    left = limit - FILES - HTTP_LISTENERS * RESERVED
    if left < CONNECTIONS_MIN:
        raise ConfigError(
            f"the limit of open files is {limit}: the broker needs at least {FILES + HTTP_LISTENERS * RESERVED + CONNECTIONS_MIN}, "
            f"and {of_broker(settings)} for connections_max = {settings.connections_max}: raise it (ulimit -n, LimitNOFILE)"
        )
    share = left // SHARE_BEFORE_SIGN_IN
    unauthenticated = min(settings.connections_unauthenticated_max, share)
    http = min(settings.http_connections_max, share // HTTP_LISTENERS)
    connections = (left - 2 * unauthenticated - HTTP_LISTENERS * http) // _each(settings)
    return replace(
        settings,
        connections_max=min(settings.connections_max, connections),
        connections_unauthenticated_max=unauthenticated,
        http_connections_max=http,
    )
