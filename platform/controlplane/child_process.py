"""How a process of the platform starts another: its command and its environment."""

from __future__ import annotations

import sys
from pathlib import Path

from messaging.settings import PREFIX, Settings


def environment(settings: Settings) -> dict[str, str]:
    """The environment variables for these settings: those that differ from the defaults, and always the data directory."""
    defaults = Settings()
    values: dict[str, str] = {}
    for key in Settings.__struct_fields__:
        value = getattr(settings, key)
        if key == "data_dir":
            values[PREFIX + "DATA_DIR"] = str(Path(value).absolute())
        elif value != getattr(defaults, key):
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            values[PREFIX + key.upper()] = text.lower() if isinstance(value, bool) else text
    return values


def python(module: str) -> list[str]:
    """`-P`: do not import modules from the current directory."""
    return [sys.executable, "-P", "-m", module]
