"""The closed lists of energy."""

from django.db.models import TextChoices


class IdleSpread(TextChoices):
    VISIBLE = "visible", "Shown apart, as nobody's"
    BY_RESERVATION = "by_reservation", "Spread by reserved device-hours"
    BY_ENERGY = "by_energy", "Spread by energy used"
