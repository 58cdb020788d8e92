"""The web process's entry point (gunicorn labcarbon.wsgi). It refuses to start where a system check finds an error."""

import gc
import os
import sys

from django.core.checks import ERROR, run_checks
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labcarbon.settings")
application = get_wsgi_application()

# Django runs its checks for management commands alone; a web server would start with debug pages on, or without a key.
_problems = [problem for problem in run_checks() if problem.level >= ERROR and not problem.is_silenced()]
if _problems:
    sys.exit("\n".join(["LabCarbon does not start:", *(str(problem) for problem in _problems)]))

from apps.dashboard.charts import load_plotly  # noqa: E402 - nothing of the apps can be loaded before Django

load_plotly()

# What is loaded by now stays as long as the process: pages with many objects need not have it searched for garbage.
gc.collect()
gc.freeze()
