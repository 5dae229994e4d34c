#!/usr/bin/python3 -I
"""Exit code 0 if every process of the platform in this container is ready, else 1 with the reason.

Which ones there are is what they wrote into DATA_DIR/run: all of `magnetar standalone`, or one of them. Needs Python alone.
"""

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

TIMEOUT_S = 3.0


def reasons(run: Path) -> list[str]:
    """Why the container is not ready, in a line for each; none: it is."""
    found = [(path.stem, _read(path)) for path in sorted(run.glob("*.json"))]
    announced = [(name, value) for name, value in found if name == "web" or name.startswith(("broker", "worker"))]
    alive = [(name, value) for name, value in announced if _alive(value.get("pid"))]
    supervised = dict(found).get("supervisor", {})
    missing = [child["name"] for child in supervised.get("children", ()) if child["state"] not in ("ready", "done")]
    if not alive and not missing:
        return [f"no process has written to {run} yet"]
    return [f"{name} is not ready" for name in missing] + [why for name, value in alive if (why := _asked(name, value))]


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _alive(pid: object) -> bool:
    return isinstance(pid, int) and Path(f"/proc/{pid}").exists()


def _asked(name: str, value: dict[str, Any]) -> str:
    url = value.get("web_url") or value.get("ws_url", "").replace("ws", "http", 1)
    if not url:
        return ""  # a worker: that it wrote its file says that it takes tasks
    # This machine asks itself: whose certificate it is does not matter.
    unverified = ssl._create_unverified_context() if url.startswith("https") else None
    try:
        with urllib.request.urlopen(url + "/readyz", timeout=TIMEOUT_S, context=unverified):
            return ""
    except urllib.error.HTTPError as error:
        return f"{name}: {error.read(500).decode(errors='replace').strip()}"
    except OSError as error:
        return f"{name} does not answer: {error}"


def main() -> int:
    found = reasons(Path(os.environ.get("MAGNETAR_DATA_DIR", "/var/lib/magnetar"), "run"))
    for why in found:
        sys.stderr.write(why + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
