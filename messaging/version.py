"""The version of the platform, as installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("magnetar")
except PackageNotFoundError:  # run from a tree that is not installed
    VERSION = "0.0.0"
