"""Users of the console."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils.crypto import salted_hmac

from messaging.permissions.model import user_role


class User(AbstractUser):
    """Somebody who signs in at the console. `is_superuser`: administers the platform; else what their memberships give.

    `session_epoch`: sessions that began with a lower one are over. `must_verify_email`: they created the account themselves and
    have not shown yet that its address is theirs; until then they cannot sign in. `has_second_factor`: a passkey, security key or
    app is set up, so that signing in asks for it; kept by `admin_ui.sign_in.factors`. `time_zone`: in which the console shows times
    and takes them, a name of the IANA database; "": that of the browser."""

    session_epoch = models.PositiveIntegerField(default=0)
    must_verify_email = models.BooleanField(default=False)
    has_second_factor = models.BooleanField(default=False)
    time_zone = models.CharField(max_length=64, blank=True, default="")

    provider_asks_second_factor = False  # set for a session that began with a sign-in provider

    @property
    def shows_second_factor(self) -> bool:
        """Whether their sessions begin with more than a password."""
        return self.has_second_factor or self.provider_asks_second_factor

    @property
    def role(self) -> str:
        """The role that grants, tenant admins and the audit log name this person by."""
        return user_role(self.username)

    def get_session_auth_hash(self) -> str:
        """What a session has to hold; a new password or epoch ends all that exist."""
        if not self.session_epoch:
            return super().get_session_auth_hash()
        return salted_hmac("tenants.user.session", f"{self.password}|{self.session_epoch}", algorithm="sha256").hexdigest()
