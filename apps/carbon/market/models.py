"""Instruments of a lab, their certificates and their evidence."""

from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Lab, User
from apps.carbon.market.choices import Granularity, InstrumentKind, RuleEdition


class Instrument(models.Model):
    """A contractual instrument, or a published factor of unclaimed electricity. Never edited: it is
    withdrawn with a reason and entered again.

    - ``name``: of the product or contract, or the source of a published factor.
    - ``market``: codes of the grid zones in which it can be used, with all zones inside them.
    - ``plant_zone``: grid zone of the plant, '' if unknown.
    - ``first_day``, ``last_day``: vintage, both included, in the lab's time zone.
    - ``volume_wh`` null: a tariff without a limit, or a published factor.
    - ``volumes_wh``: parts of the volume by ``volumes_by``: by month of the vintage, or by UTC hour
      from ``volumes_from_hour``. Null: only the total is known.
    - ``ug_per_kwh``: direct emissions, as stated by the instrument.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="instruments")
    kind = models.CharField(max_length=16, choices=InstrumentKind)
    name = models.CharField(max_length=200)
    registry = models.CharField(max_length=100, blank=True, default="")
    market = models.JSONField()
    plant_zone = models.CharField(max_length=40, blank=True, default="")
    first_day = models.DateField()
    last_day = models.DateField()
    granularity = models.CharField(max_length=8, choices=Granularity)
    volume_wh = models.BigIntegerField(null=True, blank=True)
    volumes_by = models.CharField(max_length=8, choices=Granularity, default=Granularity.YEAR)
    volumes_from_hour = models.BigIntegerField(null=True, blank=True)
    volumes_wh = models.JSONField(null=True, blank=True)
    ug_per_kwh = models.BigIntegerField()
    retired_on = models.DateField(null=True, blank=True)
    beneficiary = models.CharField(max_length=200, blank=True, default="")
    notes = models.CharField(max_length=1000, blank=True, default="")
    created_us = models.BigIntegerField()
    created_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    withdrawn_us = models.BigIntegerField(null=True, blank=True)
    withdrawn_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    withdrawal_reason = models.CharField(max_length=400, blank=True, default="")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(last_day__gte=F("first_day")), name="instrument_vintage_not_empty"
            ),
            models.CheckConstraint(
                condition=Q(volume_wh__isnull=True) | Q(volume_wh__gt=0),
                name="instrument_volume_above_zero",
            ),
            models.CheckConstraint(
                condition=Q(ug_per_kwh__gte=0), name="instrument_rate_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(withdrawn_us__isnull=True) | ~Q(withdrawal_reason=""),
                name="instrument_withdrawn_with_reason",
            ),
        ]
        indexes = [models.Index(fields=["lab", "first_day"], name="instruments_of_lab")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.name}"


class CertificateRange(models.Model):
    """Certificates of an instrument whose ids are ``prefix`` and a number from ``first`` to
    ``last``. Those of instruments that are not withdrawn do not overlap within a lab.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, db_index=False, related_name="+")
    instrument = models.ForeignKey(
        Instrument, on_delete=models.CASCADE, related_name="certificates"
    )
    prefix = models.CharField(max_length=100, blank=True, default="")
    first = models.BigIntegerField()
    last = models.BigIntegerField()
    text = models.CharField(max_length=250)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(last__gte=F("first")), name="certificate_range_not_empty"
            )
        ]
        indexes = [models.Index(fields=["lab", "prefix", "first"], name="certificates_of_lab")]

    def __str__(self) -> str:
        return self.text


class InstrumentEvidence(models.Model):
    """The document of an instrument. Separate from it: lists never read it.

    ``content_type``: as recognised from the content.
    """

    instrument = models.OneToOneField(Instrument, on_delete=models.CASCADE, related_name="evidence")
    file_name = models.CharField(max_length=200)
    content_type = models.CharField(max_length=40)
    size_bytes = models.IntegerField()
    sha256 = models.CharField(max_length=64)
    content = models.BinaryField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(size_bytes__gt=0), name="instrument_evidence_not_empty"
            )
        ]

    def __str__(self) -> str:
        return self.file_name


class MarketYear(models.Model):
    """Market-based totals of a lab in a calendar year under a rule edition. Derived.

    - ``until_hour``: end of the hours in it; for the current year the first hour of a day.
    - ``fingerprint``: of the inputs. The totals are stale if the inputs have another one.
    - ``result``: lines and rates, in the form of :mod:`apps.carbon.market.stored_result`.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, db_index=False, related_name="+")
    year = models.IntegerField()
    edition = models.CharField(max_length=20, choices=RuleEdition)
    from_hour = models.BigIntegerField()
    until_hour = models.BigIntegerField()
    fingerprint = models.CharField(max_length=64)
    result = models.JSONField()
    computed_us = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "year", "edition"], name="market_year_once")
        ]

    def __str__(self) -> str:
        return f"{self.lab_id}: {self.year}, {self.edition}"
