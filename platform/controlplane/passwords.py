"""How passwords are stored."""

from __future__ import annotations

from django.contrib.auth.hashers import Argon2PasswordHasher


class PasswordHasher(Argon2PasswordHasher):
    """Argon2id with OWASP's parameters. Django's default takes 100 MiB a sign-in, which a small machine does not have to spare."""

    time_cost = 2
    memory_cost = 19_456  # KiB
    parallelism = 1
