"""Emission factors with their editions, which one holds where and when, and figures summed by day."""

from django.db import models
from django.db.models import F, Q

from apps.accounts.choices import Basis
from apps.accounts.models import Lab
from apps.assets.choices import ChargeKind
from apps.carbon.choices import RollupKind, UseKind
from apps.fleet.models import Node
from apps.ingest.choices import EnergyQuality


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


class RolledDay(models.Model):
    """A day of the lab whose figures are summed once, for pages: ``[from_hour, to_hour)``, priced on ``basis``.

    Its rows are derived, and held by no constraint of the database: who sums them waits for no row that others hold. It
    counts while it is of the lab's zone and basis and no :class:`StaleSpan` touches it.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="+")
    what = models.CharField(max_length=8, choices=RollupKind)
    from_hour = models.BigIntegerField()
    to_hour = models.BigIntegerField()
    basis = models.CharField(max_length=16, choices=Basis)
    time_zone = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "what", "from_hour"], name="rolled_day_once"),
            models.CheckConstraint(condition=Q(to_hour__gt=F("from_hour")), name="rolled_day_not_empty"),
        ]

    def __str__(self) -> str:
        return f"{self.what} of {self.lab_id}, {self.from_hour}"


class StaleSpan(models.Model):
    """What rolled days of ``[from_hour, to_hour)`` were summed from has changed: written with the change, only added to."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="+")
    what = models.CharField(max_length=8, choices=RollupKind)
    from_hour = models.BigIntegerField()
    to_hour = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["lab", "what", "from_hour"], name="stale_spans_of_lab")]

    def __str__(self) -> str:
        return f"{self.what} of {self.lab_id}, {self.from_hour}–{self.to_hour}"


class UseDay(models.Model):
    """The ledger of a rolled day by node and consumer, by who is charged and what for, by quality and by what priced it."""

    day = models.ForeignKey(RolledDay, on_delete=models.CASCADE, db_constraint=False, related_name="+")
    node_id = models.BigIntegerField()
    consumer_id = models.BigIntegerField()
    project_id = models.BigIntegerField(null=True)
    person_id = models.BigIntegerField(null=True)
    os_user = models.CharField(max_length=100, blank=True, default="")
    program = models.CharField(max_length=256, blank=True, default="")
    kind = models.CharField(max_length=12, choices=UseKind)
    energy_quality = models.SmallIntegerField(choices=EnergyQuality)
    factor_id = models.BigIntegerField(null=True)
    pue_ppm = models.BigIntegerField(null=True)
    energy_mj = models.BigIntegerField()
    facility_energy_mj = models.BigIntegerField()
    emission_ug = models.BigIntegerField()
    without_factor_mj = models.BigIntegerField()
    entries = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.day_id}: {self.energy_mj} mJ"


class MeterDay(models.Model):
    """A device in a node on a rolled day: how long it was measured, µs (``measured_us``, ``estimated_us`` by the quality of
    each hour), and what it used."""

    day = models.ForeignKey(RolledDay, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="+")
    device_id = models.BigIntegerField()
    node_id = models.BigIntegerField()
    covered_us = models.BigIntegerField()
    measured_us = models.BigIntegerField()
    estimated_us = models.BigIntegerField()
    energy_mj = models.BigIntegerField()
    facility_energy_mj = models.BigIntegerField()
    emission_ug = models.BigIntegerField()
    without_factor_mj = models.BigIntegerField()
    idle_mj = models.BigIntegerField()
    entries = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["day", "device_id"], name="meter_days")]

    def __str__(self) -> str:
        return f"{self.day_id}: {self.covered_us} µs, {self.energy_mj} mJ"


class EmbodiedDay(models.Model):
    """What charges of embodied carbon put into a rolled day, by reason and project; ``entries`` is how many they were."""

    day = models.ForeignKey(RolledDay, on_delete=models.CASCADE, db_constraint=False, related_name="+")
    kind = models.CharField(max_length=12, choices=ChargeKind)
    project_id = models.BigIntegerField(null=True)
    embodied_ug = models.BigIntegerField()
    entries = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.day_id}: {self.embodied_ug} µg"
