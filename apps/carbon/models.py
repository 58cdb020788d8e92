"""Emission factors with their editions, and which one holds where and when."""

from django.db import models
from django.db.models import F, Q

from apps.accounts.choices import Basis
from apps.accounts.models import Lab
from apps.fleet.models import Node


class EmissionFactor(models.Model):
    """µg CO2e per kWh of a zone over an interval. Never edited: a new edition supersedes it. ``lab`` null = shipped."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, null=True, blank=True)
    zone = models.CharField(max_length=80)
    zone_name = models.CharField(max_length=120)
    basis = models.CharField(max_length=16, choices=Basis)
    resolution = models.CharField(max_length=32)
    year = models.IntegerField()
    edition = models.IntegerField()
    ug_per_kwh = models.BigIntegerField()
    low_ug_per_kwh = models.BigIntegerField(null=True, blank=True)
    high_ug_per_kwh = models.BigIntegerField(null=True, blank=True)
    source = models.CharField(max_length=400)
    licence = models.CharField(max_length=120)
    loaded_us = models.BigIntegerField()
    superseded_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["zone", "basis", "resolution", "year", "edition"], name="factor_edition_once"),
            models.CheckConstraint(condition=Q(ug_per_kwh__gt=0), name="factor_not_zero"),
        ]

    def __str__(self) -> str:
        return f"{self.zone} {self.year} edition {self.edition}"


class AppliedFactor(models.Model):
    """Which PUE and factor hold for a node over ``[from_hour, to_hour)``: derived from placements, PUE and editions.

    ``factor`` is null where none is known: the energy is shown, and no carbon.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="applied_factors")
    from_hour = models.BigIntegerField()
    to_hour = models.BigIntegerField()
    basis = models.CharField(max_length=16, choices=Basis)
    pue_ppm = models.BigIntegerField()
    factor = models.ForeignKey(EmissionFactor, on_delete=models.PROTECT, null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "basis", "from_hour"], name="applied_factor_once"),
            models.CheckConstraint(condition=Q(to_hour__gt=F("from_hour")), name="applied_factor_not_empty"),
        ]

    def __str__(self) -> str:
        return f"{self.node_id} {self.from_hour}–{self.to_hour}"
