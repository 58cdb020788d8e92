"""Choices of CodeCarbon."""

from django.db.models import IntegerChoices


class Channel(IntegerChoices):
    """The channel of a CodeCarbon message."""

    INTERVAL = 1, "Interval, sent to the API"
    RECORD = 2, "Whole run, sent by the HTTP output"
    FILE = 3, "Whole run, imported from a file"
