"""Settings of the web process: the same, without the app that brings Celery (0.3 s and 10 MiB that no page needs), and without the
parts of OpenID Connect where there is no provider."""

from controlplane.settings import *  # noqa: F403
from controlplane.settings import INSTALLED_APPS as _ALL_APPS
from controlplane.settings import MAGNETAR as _MAGNETAR
from tenants.sign_in.providers import providers_of

_OF_PROVIDERS = [] if providers_of(_MAGNETAR) else ["allauth.socialaccount", "admin_ui.sign_in.openid"]
INSTALLED_APPS = [app for app in _ALL_APPS if app not in ("django_celery_beat", *_OF_PROVIDERS)]
MAGNETAR_SERVICE = "web"
