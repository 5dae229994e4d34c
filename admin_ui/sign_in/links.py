"""Links that go to somebody by mail, or are copied by whoever may make them where no mail is sent."""

from __future__ import annotations

from allauth.account.adapter import get_adapter
from allauth.account.forms import default_token_generator
from allauth.account.models import EmailAddress, get_emailconfirmation_model
from allauth.account.utils import user_pk_to_url_str
from django.conf import settings
from django.http import HttpRequest

from tenants.models import User

LIFETIME_H = settings.PASSWORD_RESET_TIMEOUT // 3600


def password_reset(request: HttpRequest, user: User) -> str:
    """ "" for somebody who has no password. It works once: the new password makes it invalid."""
    if not user.has_usable_password():
        return ""
    key = f"{user_pk_to_url_str(user)}-{default_token_generator.make_token(user)}"
    return str(get_adapter(request).get_reset_password_from_key_url(key))


def verification(request: HttpRequest, user: User) -> str:
    """ "" where no address waits to be confirmed."""
    address = EmailAddress.objects.filter(user=user, verified=False).order_by("-primary", "id").first()
    if address is None:
        return ""
    confirmation = get_emailconfirmation_model().create(address)
    return str(get_adapter(request).get_email_confirmation_url(request, confirmation))
