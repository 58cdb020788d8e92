"""Django settings, all from environment variables (labcarbon/env.py, docs/install.md)."""

from typing import Any
from urllib.parse import urlsplit

import dj_database_url
from csp.constants import NONE, SELF

from apps.core.url_allowlist import parse_allowlist
from labcarbon.env import BASE_DIR, read_environment

ENVIRONMENT = read_environment()
DATA_DIR = ENVIRONMENT.data_dir
DEMO = ENVIRONMENT.is_demo
DEBUG = ENVIRONMENT.debug
SECRET_KEY = ENVIRONMENT.secret_key or "unset-and-refused-by-check-labcarbon.E001"
TOKEN_PEPPERS = ENVIRONMENT.token_peppers
SITE_URL = ENVIRONMENT.url
DATA_PACKS = ENVIRONMENT.data_packs
ARCHIVE_DIR = DATA_DIR / "archive"
ATTACHMENTS_DIR = DATA_DIR / "attachments"
WHEELS_DIR = ENVIRONMENT.wheels_dir
ATTACHMENTS_QUOTA_BYTES = ENVIRONMENT.attachments_mb * 1_000_000
KEEP_WINDOWS_DAYS = ENVIRONMENT.keep_windows_days
# A server on a loopback address may query services of its machine.
TRACKER_ALLOWLIST = parse_allowlist(
    ENVIRONMENT.tracker_hosts, loopback=ENVIRONMENT.is_loopback_only
)
# Servers whose hardware lists labs may poll. Nobody in a lab can add one.
ASSET_SOURCES = tuple(ENVIRONMENT.asset_sources)
# Addresses instead of the published ones of providers of grid intensity, and their CSV files.
GRID_PROVIDERS = ENVIRONMENT.grid_providers
GRID_FOLDER = ENVIRONMENT.grid_folder
_HOST = urlsplit(SITE_URL).hostname or "127.0.0.1"
ALLOWED_HOSTS = sorted(
    {
        _HOST,
        *ENVIRONMENT.allowed_hosts,
        *(["127.0.0.1", "localhost", "[::1]"] if ENVIRONMENT.is_loopback_only else []),
    }
)

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "labcarbon.static_collection.FilteredStaticFiles",
    "django.contrib.humanize",
    "rest_framework",
    "drf_spectacular",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.mfa",
    "csp",
    "django_htmx",
    "heroicons",
    "labcarbon.apps.ProjectConfig",
    "apps.core",
    "apps.accounts",
    "apps.catalog",
    "apps.fleet",
    "apps.ingest",
    "apps.runs",
    "apps.attribution",
    "apps.energy",
    "apps.assets",
    "apps.pollers",
    "apps.carbon",
    "apps.activity",
    "apps.billing",
    "apps.artifacts",
    "apps.trackers",
    "apps.planner",
    "apps.preflight",
    "apps.reports",
    "apps.budgets",
    "apps.dashboard",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "labcarbon.response_headers.NoStoreMiddleware",
    *(["labcarbon.demo.responses.DemoMiddleware"] if DEMO else []),
    "labcarbon.entrance.EntranceMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "labcarbon.error_handlers.ApiSlashMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "labcarbon.database_outage.DatabaseOutageMiddleware",
]

ROOT_URLCONF = "labcarbon.urls"
WSGI_APPLICATION = "labcarbon.wsgi.application"
APPEND_SLASH = True
AUTH_USER_MODEL = "accounts.User"
# SQLite does not support nulls_distinct=False; those rows have one writer.
SILENCED_SYSTEM_CHECKS = ["models.W047"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "apps.dashboard.frame.context_processors.shell",
            ],
        },
    }
]

# SQLite: a writer takes its lock at BEGIN, so that no transaction fails half-way. Every commit is
# flushed to disk.
_SQLITE = {
    "ENGINE": "apps.core.database.sqlite",
    "NAME": DATA_DIR / "labcarbon.sqlite3",
    # Closing the last connection writes the log back, which each request would wait for.
    "CONN_MAX_AGE": 60,
    "OPTIONS": {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;",
    },
}
# PostgreSQL: a pool of connections per process, each checked before its use. A request waits five
# seconds for one, then the response is 503. A pool that could not connect for three seconds starts
# again with the next request: its own pauses would grow to minutes.
_POOL = {"min_size": 1, "max_size": 16, "timeout": 5, "max_idle": 300, "reconnect_timeout": 3}
_POSTGRESQL: dict[str, Any] = {
    "pool": _POOL,
    "connect_timeout": 5,
    # a host that vanished is noticed within 20 s, in both directions
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 20_000,
    # compiling a query takes 0.4 s, running it takes a tenth of that
    "options": "-c jit=off",
}


def _read_postgresql(url: str) -> dict[str, Any]:
    """Return the settings of a served database. Options in the URL have precedence."""
    database: dict[str, Any] = dict(dj_database_url.parse(url, conn_health_checks=True))
    own = database.get("OPTIONS", {})
    options = " ".join(filter(None, [_POSTGRESQL["options"], own.get("options")]))
    database["OPTIONS"] = {**_POSTGRESQL, **own, "options": options}
    return database


DATABASES = {
    "default": _read_postgresql(ENVIRONMENT.database_url) if ENVIRONMENT.is_served else _SQLITE
}
# PostgreSQL cancels a statement of a web process after this time, and the response is 503. Jobs and
# commands have no limit.
WEB_STATEMENT_TIMEOUT_S = 30

# The counters of failed sign-ins are shared by all web processes. A served installation has several
# of them and keeps the counters in the database, because Redis may lose data at any time
# (docs/sign-in.md). An embedded one has one.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache"
        if ENVIRONMENT.is_served
        else "django.core.cache.backends.locmem.LocMemCache",
        "LOCATION": "labcarbon_cache",
        "OPTIONS": {"MAX_ENTRIES": 10_000},  # enough that nobody can evict the counters of others
    }
}

AUTHENTICATION_BACKENDS = [
    "apps.accounts.backends.UsernameOrEmailBackend",
    "django.contrib.auth.backends.ModelBackend",  # for sessions of one-time links
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
    )
]
ACCOUNT_ADAPTER = "apps.accounts.backends.ClosedSignup"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGOUT_ON_GET = False
# the proxy sets the last address in X-Forwarded-For
ALLAUTH_TRUSTED_PROXY_COUNT = 1 if ENVIRONMENT.behind_proxy else 0
ACCOUNT_RATE_LIMITS = {"login_failed": "10/m/ip,5/300s/key"}
SOCIALACCOUNT_ADAPTER = "apps.accounts.oidc.adapter.Identities"
# An open browser alone is not enough to link an identity.
SOCIALACCOUNT_REAUTHENTICATION_REQUIRED = True
MFA_ADAPTER = "apps.accounts.mfa.SecondFactor"
MFA_FORMS = {
    "authenticate": "apps.accounts.mfa.Authenticate",
    "reauthenticate": "apps.accounts.mfa.Reauthenticate",
}
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_TOLERANCE = 1  # tolerates slow typing and a clock that is 30 s off
MFA_RECOVERY_CODES_SHOW_ONCE = True
# The library's check is for public sign-up, which is closed here.
MFA_ALLOW_UNVERIFIED_EMAIL = True
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "overview"
ACCOUNT_LOGOUT_REDIRECT_URL = "account_login"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.accounts.authentication.BearerTokenAuthentication",
        "apps.accounts.authentication.ApiSessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["apps.core.request_body.JsonParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "apps.core.api.error_response",
    "UNAUTHENTICATED_USER": None,
    # number of trusted proxies for the client address
    "NUM_PROXIES": 1 if ENVIRONMENT.behind_proxy else 0,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "LabCarbon API",
    "DESCRIPTION": "Energy and carbon of a lab's machine learning: collectors "
    "upload measurements, trackers "
    "register "
    "runs, and members of the lab query figures.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "ENUM_NAME_OVERRIDES": {
        "ActivityKindEnum": "apps.activity.choices.ActivityKind",
        "HardwareKindEnum": "apps.catalog.choices.HardwareKind",
        "EventKindEnum": "apps.assets.choices.EventKind",
        "AssetStateEnum": "apps.assets.choices.AssetState",
        "ImportStateEnum": "apps.assets.choices.ImportState",
        "RunStateEnum": "apps.runs.choices.RunState",
        "FindingStateEnum": "apps.preflight.choices.FindingState",
        "VerdictEnum": "apps.preflight.choices.Verdict",
        "FailureEnum": "apps.runs.choices.Failure",
        "IntensitySourceEnum": "apps.carbon.choices.IntensitySource",
        "ValueStateEnum": "apps.preflight.choices.ValueState",
        "JobReplyBasisEnum": "apps.planner.choices.Basis",
    },
}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "/static/"
STATIC_ROOT = ENVIRONMENT.static_dir
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "labcarbon.static_collection.PlotlyFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}

# Nothing is loaded from another origin. Why style attributes are allowed: docs/adr/0003-content-
# security-policy.md
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "style-src-attr": ["'unsafe-inline'"],
        "img-src": [SELF, "data:", "blob:"],
        "connect-src": [SELF],
        "font-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
        "manifest-src": [SELF],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
_TLS = SITE_URL.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = _TLS
# The client of CodeCarbon turns a redirected POST into a GET, so it gets an error message instead.
# A redirect of the install address could be changed on the way: it is refused over http.
SECURE_REDIRECT_EXEMPT = [r"^codecarbon/", r"^install/"]
SECURE_HSTS_SECONDS = 31_536_000 if _TLS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = _TLS
if ENVIRONMENT.behind_proxy:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
CSRF_TRUSTED_ORIGINS = [SITE_URL]
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024

# Only jobs send mails, so that no page waits for a mail server.
MAIL_ON = ENVIRONMENT.mail.is_enabled
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if MAIL_ON else 'dummy'}.EmailBackend"
EMAIL_HOST, EMAIL_PORT = ENVIRONMENT.mail.host, ENVIRONMENT.mail.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = ENVIRONMENT.mail.user, ENVIRONMENT.mail.password
EMAIL_USE_SSL, EMAIL_USE_TLS = (
    ENVIRONMENT.mail.tls == "implicit",
    ENVIRONMENT.mail.tls == "starttls",
)
EMAIL_TIMEOUT = 20
DEFAULT_FROM_EMAIL = ENVIRONMENT.mail.sender

CELERY_BROKER_URL = ENVIRONMENT.redis_url or None
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BEAT_SCHEDULE = {
    "look-for-jobs": {"task": "labcarbon.work_on_jobs", "schedule": 20.0},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "labcarbon.log_redaction.RedactingFormatter",
            "fmt": "%(asctime)s %(levelname)s %(name)s: %(message)s",
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
}
