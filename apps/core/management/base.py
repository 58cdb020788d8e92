"""Management commands that need neither pages nor the API."""

from django.core.management.base import BaseCommand

CHECK_TAG = "labcarbon"  # the tag of our own system checks, labcarbon/checks.py


class MinimalCommand(BaseCommand):
    """A command that looks for mistakes in the environment before it begins, and does not load what only the web server
    needs: it starts in half the time, and a worker takes less memory."""

    requires_system_checks = [CHECK_TAG]
