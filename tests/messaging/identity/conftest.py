from __future__ import annotations

from pathlib import Path

import pytest

from messaging.identity import create_secrets
from messaging.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(data_dir=str(tmp_path / "data"))
    create_secrets(settings)
    return settings
