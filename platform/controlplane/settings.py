"""Django's settings, all derived from the one settings object (`controlplane.current`). Nothing here reads the environment."""

from __future__ import annotations

from typing import Any

from controlplane import current
from controlplane.databases import database
from messaging import languages
from messaging.identity import read_secret
from tenants.sign_in.providers import providers_of
from workers.translation import catalogs

MAGNETAR = current.settings()
MAGNETAR_SERVICE = "cli"  # the service identity of this process; web_settings and worker_settings have their own

DEBUG = False
SECRET_KEY = read_secret(MAGNETAR, "django-secret-key")
ROOT_URLCONF = "controlplane.urls"
API_URLCONF = "controlplane.api_urls"  # what the OpenAPI document describes
ASGI_APPLICATION = "controlplane.asgi.application"

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "tenants",
    "workers",
    "admin_ui",  # before allauth, whose templates it overrides
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.usersessions",
    "allauth.socialaccount",
    "admin_ui.sign_in.openid",
    "django_htmx",
    "lucide",
    "django_celery_beat",  # brings Celery: the web process does without it (controlplane.web_settings)
]
# REST framework and drf-spectacular work without being listed: nothing here uses their templates or models. So does
# template_partials: TEMPLATES names its loader and tags, and its app would bring Django's admin.

# --- requests ----------------------------------------------------------------------------------------------------------------

# Names are checked before Django sees a request, WebSockets included: controlplane.guard, messaging.http_guard.
ALLOWED_HOSTS = ["*"]
APPEND_SLASH = False
MIDDLEWARE = [
    "controlplane.middleware.RequestId",
    "controlplane.audit.AuditTrail",
    "django.middleware.security.SecurityMiddleware",
    "controlplane.static.StaticFiles",
    "controlplane.middleware.SegmentsAsSent",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "admin_ui.translation.languages.Language",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "controlplane.api_calls.CountApiCalls",
    "controlplane.middleware.PermissionTable",
    "controlplane.api_requests.ApiRequests",
]
DATA_UPLOAD_MAX_MEMORY_SIZE = 1 << 20
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"

_TLS = MAGNETAR.tls != "off"
SESSION_COOKIE_NAME = "magnetar_session"  # cookies do not know ports: another server of this machine must not overwrite ours
SESSION_COOKIE_SECURE = _TLS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 14 * 24 * 3600
CSRF_COOKIE_NAME = "magnetar_csrf"
CSRF_COOKIE_SECURE = _TLS
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "tenants.http.errors.csrf_refused"
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
    }
}

# --- pages -------------------------------------------------------------------------------------------------------------------

FORM_RENDERER = "admin_ui.form_fields.FormRenderer"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [],
        "OPTIONS": {
            "loaders": [
                (
                    "template_partials.loader.Loader",
                    [("django.template.loaders.cached.Loader", ["django.template.loaders.app_directories.Loader"])],
                )
            ],
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.csrf",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "admin_ui.sign_in.context.console",
            ],
            "builtins": ["template_partials.templatetags.partials", "django.templatetags.i18n"],
        },
    }
]
STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True  # straight from the packages: no collecting step between an installation and its first page
WHITENOISE_AUTOREFRESH = False
WHITENOISE_MAX_AGE = 60  # names carry no hash
STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.AppDirectoriesFinder"]

# --- people ------------------------------------------------------------------------------------------------------------------

AUTH_USER_MODEL = "tenants.User"
LOGIN_URL = "/sign-in"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/sign-in"
PASSWORD_HASHERS = ["controlplane.passwords.PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend", "admin_ui.sign_in.backends.ProviderBackend"]
PASSWORD_RESET_TIMEOUT = 24 * 3600

ACCOUNT_ADAPTER = "admin_ui.sign_in.adapters.AccountAdapter"
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*", "password2*"]
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_EMAIL_VERIFICATION = "mandatory"  # of who signs up: `admin_ui.sign_in.adapters.VerificationStage`
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False  # strangers get no mail from us
ACCOUNT_EMAIL_NOTIFICATIONS = True
ACCOUNT_MAX_EMAIL_ADDRESSES = 5
ACCOUNT_REAUTHENTICATION_METHODS = ("password", "mfa")
ACCOUNT_LOGIN_ON_EMAIL_CONFIRMATION = False
MFA_ADAPTER = "admin_ui.sign_in.adapters.MFAAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_TOTP_TOLERANCE = 1  # clocks of telephones
MFA_ALLOW_UNVERIFIED_EMAIL = True  # addresses are optional, and prove nothing that a second factor depends on

SOCIALACCOUNT_ADAPTER = "admin_ui.sign_in.openid.adapter.ProviderAdapter"
SOCIALACCOUNT_EMAIL_VERIFICATION = "none"  # only addresses that the provider has proven are kept
SOCIALACCOUNT_EMAIL_REQUIRED = False
SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True  # where a provider `links_accounts`
SOCIALACCOUNT_STORE_TOKENS = False  # `tenants.models.ProviderLogin` has what is needed, encrypted
providers_of(MAGNETAR)  # a file that is wrong stops the start

# Counts of attempts (`admin_ui.sign_in_throttle`, allauth's limits). Django's default of 300 entries would let an attacker who
# tries many names push the counts out.
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 20_000}}}
if MAGNETAR.redis_url:  # several web processes count together; the embedded platform has one
    CACHES = {"default": {"BACKEND": "admin_ui.sign_in.shared_cache.SharedCache", "LOCATION": MAGNETAR.redis_url}}

# --- storage and notices -----------------------------------------------------------------------------------------------------

DATABASES = {"default": database(MAGNETAR)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"


def _channel_layer() -> dict[str, Any]:
    """Redis's pub/sub where there is a server. In this process alone otherwise: pages then miss what other processes tell them."""
    url = MAGNETAR.redis_url
    socket = MAGNETAR.data_path / "run" / "valkey.sock"
    if not url and socket.exists():
        url = f"unix://{socket}"
    if not url:
        return {"BACKEND": "channels.layers.InMemoryChannelLayer"}
    # Celery spells Unix sockets differently. redis-py's timeout would end a consumer that is idle for longer: none.
    host = {"address": url.replace("redis+socket://", "unix://", 1), "socket_timeout": None}
    return {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [host]}}


CHANNEL_LAYERS = {"default": _channel_layer()}

# --- the rest ----------------------------------------------------------------------------------------------------------------

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = languages.ENGLISH
LANGUAGES = list(languages.LANGUAGES.items())
LOCALE_PATHS = [catalogs.compiled(MAGNETAR.data_path)]
FORMAT_MODULE_PATH = "admin_ui.formats"
LOGGING_CONFIG = None  # messaging.logs sets it up, for every process alike

REST_FRAMEWORK = {
    # Authentication and authorisation happen before: controlplane.middleware.PermissionTable
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["tenants.http.renderers.JSONBodyRenderer"],
    "DEFAULT_PARSER_CLASSES": ["tenants.http.parsers.JSONBodyParser"],
    "DEFAULT_SCHEMA_CLASS": "tenants.rest.schema.Schema",
    "EXCEPTION_HANDLER": "tenants.rest.base.exception_handler",
    "UNAUTHENTICATED_USER": None,
    "UNAUTHENTICATED_TOKEN": None,
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Magnetar API",
    "DESCRIPTION": "Tenants, namespaces, topics and keys. Every error is an `application/problem+json`.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVERS": [],
    "COMPONENT_SPLIT_REQUEST": True,
    "APPEND_COMPONENTS": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}}},
    "SECURITY": [{"token": []}],
    "POSTPROCESSING_HOOKS": ["tenants.rest.document_parts.complete"],  # choices stay with the fields that have them
    "PATH_CONVERTER_OVERRIDES": {"kind": {"type": "string", "enum": ["topics", "non-persistent"]}},
}
