"""Template tags about trackers."""

from django import template

from apps.trackers.registry import trackers
from apps.trackers.tracker import Tracker

register = template.Library()


@register.simple_tag
def trackers_with_setup_page() -> list[Tracker]:
    """Return the registered trackers that have a setup page."""
    return [tracker for tracker in trackers() if tracker.setup_page]
