"""Models of the trackers, imported for Django. Each tracker has its own module."""

from apps.trackers.registry import import_parts

import_parts("models")
