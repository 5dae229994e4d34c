"""The control plane inside a command, whether or not the platform is running. Commands import this when they run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from controlplane import bootstrap, datadir
from controlplane.django_setup import set_up
from messaging.errors import MagnetarError
from messaging.settings import ConfigError, Settings, load


@contextmanager
def control_plane(overrides: Mapping[str, str | None]) -> Iterator[Settings]:
    """Sets up Django with the platform's database, which is created if needed. Errors of actions become `ConfigError`."""
    settings = load(os.environ, **overrides)
    datadir.prepare(settings)
    bootstrap.prepare(settings)
    set_up(settings)
    try:
        yield settings
    except MagnetarError as error:
        raise ConfigError(error.message) from None
