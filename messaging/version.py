"""The version of the platform, or of the SDK alone, as installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def _installed() -> str:
    for distribution in ("magnetar", "magnetar-client"):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "0.0.0"  # run from a tree that is not installed


VERSION = _installed()
