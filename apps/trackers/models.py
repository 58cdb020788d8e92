"""Models of the trackers. Each tracker has its own module; Django needs all of them imported here."""

from apps.trackers.registry import import_parts

import_parts("models")
