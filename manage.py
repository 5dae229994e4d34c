#!/usr/bin/env python
"""Django's own commands (migrate, makemigrations, shell, ...), for developers. The platform is run by `magnetar`."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent / "platform"))  # for a checkout that is not installed
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

    from django.core.management import execute_from_command_line

    from controlplane.current import settings
    from messaging.identity import create_secrets

    create_secrets(settings())
    settings().data_path.joinpath("control").mkdir(mode=0o700, exist_ok=True)
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
