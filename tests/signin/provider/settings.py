"""An identity provider of its own: django-oauth-toolkit with OpenID Connect and RS256, SQLite in
a temporary folder.
"""

import os
from pathlib import Path

HOME = Path(os.environ["PROVIDER_HOME"])
SECRET_KEY = "of a provider that lives as long as a test"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "tests.signin.provider.urls"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "oauth2_provider",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [Path(__file__).parent],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
            ]
        },
    }
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": HOME / "provider.sqlite3",
        "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
LOGIN_URL = "/login/"
# Both servers are on 127.0.0.1, whose ports share one cookie jar.
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "provider_session", "provider_csrf"
OAUTH2_PROVIDER = {
    "OIDC_ENABLED": True,
    "OIDC_RSA_PRIVATE_KEY": (HOME / "key.pem").read_text(encoding="ascii"),
    "OIDC_ISS_ENDPOINT": os.environ["PROVIDER_ISSUER"],
    "OAUTH2_VALIDATOR_CLASS": "tests.signin.provider.claims.Claims",
    "SCOPES": {"openid": "Who you are", "profile": "Your name", "email": "Your mail address"},
    "PKCE_REQUIRED": True,
}
