"""Settings for the type checker alone, whose Django plugin loads the models: a data directory that is gone when it ends."""

import atexit
import shutil
import tempfile

from controlplane import current
from messaging.identity import create_secrets
from messaging.settings import Settings

_directory = tempfile.mkdtemp(prefix="magnetar-typing-")
atexit.register(shutil.rmtree, _directory, ignore_errors=True)
current.use(Settings(data_dir=_directory))
create_secrets(current.settings())

from controlplane.settings import *  # noqa: E402, F403
