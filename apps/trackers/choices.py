"""The closed lists of trackers."""

from django.db.models import IntegerChoices


class Door(IntegerChoices):
    """By which way CodeCarbon told something."""

    EMISSION = 1, "An interval over its API"
    RECORD = 2, "A whole run over its HTTP output"
    FILE = 3, "A whole run from its file"
