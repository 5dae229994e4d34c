"""Settings for the type checker alone, whose Django plugin loads the models.

Its data directory lies in its cache and is used again: the checker ends without running any clean-up, so that a new one would be
left behind by each run.
"""

from pathlib import Path

from controlplane import current
from messaging.identity import create_secrets
from messaging.settings import Settings

_directory = Path(__file__).resolve().parents[1] / ".mypy_cache" / "data"
current.use(Settings(data_dir=str(_directory)))
create_secrets(current.settings())

from controlplane.settings import *  # noqa: E402, F403
