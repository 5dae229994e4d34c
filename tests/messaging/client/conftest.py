from __future__ import annotations

import pytest

from tests.messaging.client.scripted import ScriptedBroker


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()
