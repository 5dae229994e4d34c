"""Users of the console."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils import timezone
from django.utils.crypto import salted_hmac

from messaging.permissions.model import user_role


class User(AbstractUser):
    """Somebody who signs in at the console. `is_superuser`: administers the platform; else what their memberships give.

    `session_epoch`: sessions that began with a lower one are over. `must_verify_email`: they created the account themselves and
    have not shown yet that its address is theirs; until then they cannot sign in. `has_second_factor`: a passkey, security key or
    app is set up, so that signing in asks for it; kept by `admin_ui.sign_in.factors`. `time_zone`: in which the console shows times
    and takes them, a name of the IANA database; "": that of the browser. `superuser_until`: when they cease to administer the
    platform; None: that does not end by itself."""

    session_epoch = models.PositiveIntegerField(default=0)
    must_verify_email = models.BooleanField(default=False)
    has_second_factor = models.BooleanField(default=False)
    time_zone = models.CharField(max_length=64, blank=True, default="", db_default="")
    superuser_until = models.DateTimeField(null=True, blank=True)

    class Meta(AbstractUser.Meta):
        indexes = [models.Index(fields=["-is_active", "username"], name="person_in_order")]

    provider_asks_second_factor = False  # set for a session that began with a sign-in provider

    @property
    def shows_second_factor(self) -> bool:
        """Whether their sessions begin with more than a password."""
        return self.has_second_factor or self.provider_asks_second_factor

    @property
    def administers(self) -> bool:
        """Whether they administer the platform now."""
        return self.is_active and self.is_superuser and (self.superuser_until is None or self.superuser_until > timezone.now())

    @property
    def role(self) -> str:
        """The role that grants, tenant admins and the audit log name this person by."""
        return user_role(self.username)

    def get_session_auth_hash(self) -> str:
        """What a session has to hold; a new password or epoch ends all that exist."""
        if not self.session_epoch:
            return super().get_session_auth_hash()
        return salted_hmac("tenants.user.session", f"{self.password}|{self.session_epoch}", algorithm="sha256").hexdigest()


def administrators() -> models.QuerySet[User]:
    """Who administers the platform now."""
    lasting = models.Q(superuser_until=None) | models.Q(superuser_until__gt=timezone.now())
    return User.objects.filter(lasting, is_superuser=True, is_active=True)
