"""The data directory of an earlier release, kept in the repository: recorded once, opened by every later release.

    python -m tests.compat.earlier_data record CHECKOUT NAME

`CHECKOUT` is a checkout of the earlier release in which `make setup` has run. Its platform is filled by `backup_world.py` and
stopped. Kept are the logs, the metadata, the control plane's database and what the platform answered; not its secrets, in whose
place the first start makes new ones. What depends on the time of day (delayed messages that are due by now, the recycle bin) is
not compared.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from tests.compat.backup_world import World
from tests.support.brokers.standalone import Standalone

FOLDER = Path(__file__).parent / "recorded_data"
BROKERS = ["--brokers", "2"]
SMALL = {
    "MAGNETAR_SEGMENT_BYTES": str(1 << 20),
    "MAGNETAR_RESERVED_BYTES": str(1 << 20),
    "MAGNETAR_MESSAGE_BYTES_MAX": str(256 << 10),
}
LASTING = ("cursors", "backlogs", "schemas", "policies", "grants", "keys", "messages")


def lasting(facts: dict[str, Any]) -> Any:
    """Those that do not depend on the time, as JSON has them."""
    return msgspec.json.decode(msgspec.json.encode({name: facts[name] for name in LASTING}))


def record(checkout: Path, name: str) -> Path:
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder = Path(made)
        platform = Standalone(folder / "data", *BROKERS, **SMALL)
        platform.program = checkout / ".venv" / "bin" / "magnetar"
        platform.environment.pop("PYTHONPATH", None)  # it would find this release
        stack.callback(platform.close)
        world = World(platform.start(), folder)
        world.fill()
        facts = world.facts()
        world.close()
        platform.stop()
        for unkept in ("secrets", "tls", "run", "logs", "ready.json", "lock", "broker/meta.reserve", "control/db.reserve"):
            path = platform.folder / unkept
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        for path in [*platform.folder.glob("broker*/feed"), *platform.folder.glob("broker*/meta.reserve")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path in platform.folder.glob("broker*/log/spare-*"):
            path.unlink()
        (platform.folder / "facts.json").write_bytes(msgspec.json.encode(lasting(facts)))
        FOLDER.mkdir(exist_ok=True)
        archive = FOLDER / f"{name}.tar.xz"
        with tarfile.open(archive, "w:xz", preset=9) as tar:
            tar.add(platform.folder, "data")
        return archive


def put_back(name: str, folder: Path) -> Any:
    """Makes `folder` the data directory, and returns what the earlier release answered."""
    with tarfile.open(FOLDER / f"{name}.tar.xz") as tar:
        tar.extractall(folder.parent / "archive")
    (folder.parent / "archive" / "data").rename(folder)
    return msgspec.json.decode((folder / "facts.json").read_bytes())


if __name__ == "__main__":
    _, what, chosen, called = sys.argv
    sys.stdout.write(f"{record(Path(chosen).absolute(), called)}\n")
