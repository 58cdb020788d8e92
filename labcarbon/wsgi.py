"""The web process's entry point (gunicorn labcarbon.wsgi)."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labcarbon.settings")
application = get_wsgi_application()
