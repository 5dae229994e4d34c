"""Connections and files share the descriptors of a process: what listeners take is never what the log needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from messaging import descriptors
from messaging.settings import ConfigError, Settings

SETTINGS = Settings()


def test_settings_that_fit_are_left_alone() -> None:
    assert descriptors.fitting(SETTINGS, descriptors.of_broker(SETTINGS)) is SETTINGS


@pytest.mark.parametrize("limit", [352, 400, 1024, 4096, 12_000])
def test_all_connections_together_leave_the_descriptors_of_the_files(limit: int) -> None:
    fitting = descriptors.fitting(SETTINGS, limit)
    assert descriptors.of_broker(fitting) <= limit
    assert limit - descriptors.of_broker(fitting) <= 2, "as many as there can be"
    assert min(fitting.connections_max, fitting.connections_unauthenticated_max, fitting.http_connections_max) >= 4


@pytest.mark.parametrize("limit", [400, 1024, 12_000, 20_000])
def test_one_of_several_brokers_has_as_many_connections_to_the_others(limit: int) -> None:
    settings = Settings(brokers=2)
    fitting = descriptors.fitting(settings, limit)
    assert 0 <= limit - descriptors.of_broker(fitting) <= 3
    assert fitting.connections_max < descriptors.fitting(SETTINGS, limit).connections_max


def test_ten_thousand_connections_fit_into_twenty_thousand_descriptors() -> None:
    assert SETTINGS.connections_max == 10_000
    assert descriptors.fitting(SETTINGS, 20_000) is SETTINGS


def test_a_limit_without_room_for_connections_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"limit of open files is 256.*needs at least 352.*raise it \(ulimit -n"):
        descriptors.fitting(SETTINGS, 256)


def test_the_limit_is_raised_as_far_as_the_system_permits() -> None:
    program = (
        "import resource\n"
        "from messaging.descriptors import raise_limit\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 500))\n"
        "print(raise_limit(150), raise_limit(300), raise_limit(900), resource.getrlimit(resource.RLIMIT_NOFILE))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "200 300 500 (500, 500)\n"
