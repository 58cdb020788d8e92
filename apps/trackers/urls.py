"""Routes of the trackers' own protocols."""

from apps.trackers.registry import import_parts

urlpatterns = [pattern for module in import_parts("urls") for pattern in module.urlpatterns]
