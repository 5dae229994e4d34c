"""Users of the console."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser

from messaging.permissions.model import user_role


class User(AbstractUser):
    """Somebody who signs in at the console. `is_superuser`: administers the platform; else what their memberships give."""

    @property
    def role(self) -> str:
        """The role that grants, tenant admins and the audit log name this person by."""
        return user_role(self.username)
