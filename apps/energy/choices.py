"""Choices of energy."""

from django.db.models import TextChoices


class IdleSpread(TextChoices):
    VISIBLE = "visible", "Shown separately"
    BY_RESERVATION = "by_reservation", "Distributed by reserved device-hours"
    BY_ENERGY = "by_energy", "Distributed by energy used"
