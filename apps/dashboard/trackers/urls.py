"""Addresses of the trackers' pages: ``urlpatterns`` of each module ``<name>_views``."""

from importlib import import_module

from django.utils.module_loading import module_has_submodule

from apps.dashboard import trackers as pages
from apps.trackers.registry import NAMES

urlpatterns = [
    pattern
    for name in NAMES
    if module_has_submodule(pages, f"{name}_views")
    for pattern in import_module(f"{pages.__name__}.{name}_views").urlpatterns
]
