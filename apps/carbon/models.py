"""Models of carbon: editions of emission factors, applied factors, and daily rollups."""

from calendar import month_name

from django.db import models
from django.db.models import F, Q

from apps.accounts.choices import Basis
from apps.accounts.models import Lab
from apps.assets.choices import ChargeKind
from apps.carbon.choices import Resolution, RollupKind, UseKind
from apps.carbon.market.models import Instrument  # noqa: F401  # so that Django finds it
from apps.carbon.own_factors.models import OwnFactorFile
from apps.carbon.providers.models import (  # so that Django finds them
    ForecastHour,  # noqa: F401
    GridProvider,  # noqa: F401
)
from apps.fleet.models import Node, Site, SitePrice
from apps.ingest.choices import EnergyQuality
from apps.runs.models import Run


class EmissionFactor(models.Model):
    """µg CO2e per kWh of a zone over a year or a month. Never edited: a new edition supersedes it.

    ``lab`` null = shipped. ``month`` 0 = the year. ``ug_per_kwh`` null: the factor changes by hour,
    its values are :class:`HourFactor`. ``own_file``: the file of the lab that contains it.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, null=True, blank=True)
    zone = models.CharField(max_length=80)
    zone_name = models.CharField(max_length=120)
    basis = models.CharField(max_length=16, choices=Basis)
    resolution = models.CharField(max_length=32, choices=Resolution)
    year = models.IntegerField()
    month = models.SmallIntegerField(default=0)
    edition = models.IntegerField()
    ug_per_kwh = models.BigIntegerField(null=True, blank=True)
    low_ug_per_kwh = models.BigIntegerField(null=True, blank=True)
    high_ug_per_kwh = models.BigIntegerField(null=True, blank=True)
    source = models.CharField(max_length=400)
    licence = models.CharField(max_length=120)
    loaded_us = models.BigIntegerField()
    superseded_us = models.BigIntegerField(null=True, blank=True)
    own_file = models.ForeignKey(
        OwnFactorFile, on_delete=models.PROTECT, null=True, blank=True, related_name="factors"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["zone", "basis", "resolution", "year", "month", "edition"],
                condition=Q(lab__isnull=True),
                name="factor_edition_once",
            ),
            models.UniqueConstraint(
                fields=["lab", "zone", "basis", "resolution", "year", "month", "edition"],
                condition=Q(lab__isnull=False),
                name="factor_edition_of_lab_once",
            ),
            models.CheckConstraint(condition=Q(ug_per_kwh__gt=0), name="factor_not_zero"),
            models.CheckConstraint(
                condition=Q(ug_per_kwh__isnull=False, month=0)
                | Q(ug_per_kwh__isnull=False, resolution="monthly", month__gte=1, month__lte=12)
                | Q(ug_per_kwh__isnull=True, resolution__startswith="hourly_", month=0),
                name="factor_fits_its_resolution",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.zone} {self.period} edition {self.edition}"

    @property
    def period(self) -> str:
        """Return the year or month for which it was made, '' for a declared factor."""
        if self.resolution == Resolution.DECLARED:
            return ""
        return f"{month_name[self.month]} {self.year}".strip()

    @property
    def name(self) -> str:
        """Return the zone and the period: 'Germany 2025'."""
        return f"{self.zone_name} {self.period}".strip()


class HourlySeries(models.Model):
    """The hourly factors that a lab has of a zone on one basis."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="hourly_series")
    zone = models.CharField(max_length=80)
    basis = models.CharField(max_length=16, choices=Basis)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "zone", "basis"], name="hourly_series_once")
        ]

    def __str__(self) -> str:
        return f"{self.zone} by hour, {self.basis}"


class HourFactor(models.Model):
    """The factor of one UTC hour. Never edited: a later value supersedes it. ``factor`` has its
    source, licence and resolution.
    """

    series = models.ForeignKey(
        HourlySeries, on_delete=models.CASCADE, db_index=False, related_name="hours"
    )
    hour = models.BigIntegerField()
    factor = models.ForeignKey(EmissionFactor, on_delete=models.PROTECT, related_name="hours")
    ug_per_kwh = models.BigIntegerField()
    loaded_us = models.BigIntegerField()
    superseded_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["series", "hour"],
                condition=Q(superseded_us__isnull=True),
                name="hour_factor_once",
            ),
            models.CheckConstraint(condition=Q(ug_per_kwh__gt=0), name="hour_factor_not_zero"),
        ]
        indexes = [models.Index(fields=["series", "hour"], name="hour_factor_editions")]

    def __str__(self) -> str:
        return f"{self.hour}: {self.ug_per_kwh} µg/kWh"


class DeclaredRange(models.Model):
    """The stated or default range (P5–P95) of the energy of a declared run, and of its declared
    factor, in parts per million of the value. Null: the range of the zone's factor applies.
    """

    run = models.OneToOneField(
        Run, on_delete=models.CASCADE, primary_key=True, related_name="declared_range"
    )
    energy_low_ppm = models.BigIntegerField()
    energy_high_ppm = models.BigIntegerField()
    factor_low_ppm = models.BigIntegerField(null=True, blank=True)
    factor_high_ppm = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(energy_low_ppm__gte=0) & Q(energy_high_ppm__gte=0),
                name="declared_range_not_negative",
            )
        ]

    def __str__(self) -> str:
        return f"−{self.energy_low_ppm} … +{self.energy_high_ppm} ppm"


class AppliedFactor(models.Model):
    """Derived: PUE, factor and electricity price of a node over ``[from_hour, to_hour)``.

    Sources are placements, PUE, editions and prices. The factor of an hour is that of ``hourly`` if
    it has this hour, else ``factor``. Null: unknown, so the energy has no emissions. The price of
    an hour is the :class:`HourPrice` of ``hourly_site`` if it has this hour, else ``price``. Null:
    unknown, so it has no cost.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="applied_factors")
    from_hour = models.BigIntegerField()
    to_hour = models.BigIntegerField()
    basis = models.CharField(max_length=16, choices=Basis)
    pue_ppm = models.BigIntegerField()
    factor = models.ForeignKey(EmissionFactor, on_delete=models.PROTECT, null=True, blank=True)
    hourly = models.ForeignKey(
        HourlySeries, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    price = models.ForeignKey(
        SitePrice, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    hourly_site = models.ForeignKey(
        Site, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node", "basis", "from_hour"], name="applied_factor_once"
            ),
            models.CheckConstraint(
                condition=Q(to_hour__gt=F("from_hour")), name="applied_factor_not_empty"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node_id} {self.from_hour}–{self.to_hour}"


class HourPrice(models.Model):
    """Derived: the price of a site in one UTC hour, of a file of hourly prices, else of a tariff.

    ``price`` has its currency and source.
    """

    site = models.ForeignKey(Site, on_delete=models.CASCADE, db_index=False, related_name="+")
    hour = models.BigIntegerField()
    price = models.ForeignKey(SitePrice, on_delete=models.CASCADE, related_name="+")
    ucurrency_per_kwh = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["site", "hour"], name="hour_price_once")]

    def __str__(self) -> str:
        return f"{self.hour}: {self.ucurrency_per_kwh}"


class RolledDay(models.Model):
    """A daily rollup: figures of ``[from_hour, to_hour)``, summed once and priced on ``basis``.

    Its rows are derived and have no database constraints, so that the rollup does not wait for
    locked rows. It is valid if it has the lab's time zone and basis and no :class:`StaleSpan`
    overlaps it.
    """

    lab = models.ForeignKey(
        Lab, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="+"
    )
    what = models.CharField(max_length=8, choices=RollupKind)
    from_hour = models.BigIntegerField()
    to_hour = models.BigIntegerField()
    basis = models.CharField(max_length=16, choices=Basis)
    time_zone = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "what", "from_hour"], name="rolled_day_once"),
            models.CheckConstraint(
                condition=Q(to_hour__gt=F("from_hour")), name="rolled_day_not_empty"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.what} of {self.lab_id}, {self.from_hour}"


class StaleSpan(models.Model):
    """The sources of daily rollups in ``[from_hour, to_hour)`` have changed.

    Written in the transaction of the change. Rows are only added.
    """

    lab = models.ForeignKey(
        Lab, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="+"
    )
    what = models.CharField(max_length=8, choices=RollupKind)
    from_hour = models.BigIntegerField()
    to_hour = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["lab", "what", "from_hour"], name="stale_spans_of_lab")]

    def __str__(self) -> str:
        return f"{self.what} of {self.lab_id}, {self.from_hour}–{self.to_hour}"


class UseDay(models.Model):
    """Ledger of a daily rollup.

    Rows are by node, consumer, attribution, kind of use, quality, PUE, factor and price. The cost
    is in ``currency``, that of the price: '' and 0 without one.
    """

    day = models.ForeignKey(
        RolledDay, on_delete=models.CASCADE, db_constraint=False, related_name="+"
    )
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
    price_id = models.BigIntegerField(null=True)
    currency = models.CharField(max_length=3, blank=True, default="")
    energy_mj = models.BigIntegerField()
    facility_energy_mj = models.BigIntegerField()
    emission_ug = models.BigIntegerField()
    without_factor_mj = models.BigIntegerField()
    cost_ucurrency = models.BigIntegerField(default=0)
    entries = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["consumer_id", "day"], name="use_of_consumer")]

    def __str__(self) -> str:
        return f"{self.day_id}: {self.energy_mj} mJ"


class ChargeDay(models.Model):
    """The sums of :class:`UseDay` over nodes and consumers: a large lab has thousands of these a
    day, and few charged parties.
    """

    day = models.ForeignKey(
        RolledDay, on_delete=models.CASCADE, db_constraint=False, related_name="+"
    )
    project_id = models.BigIntegerField(null=True)
    person_id = models.BigIntegerField(null=True)
    kind = models.CharField(max_length=12, choices=UseKind)
    energy_quality = models.SmallIntegerField(choices=EnergyQuality)
    factor_id = models.BigIntegerField(null=True)
    pue_ppm = models.BigIntegerField(null=True)
    price_id = models.BigIntegerField(null=True)
    currency = models.CharField(max_length=3, blank=True, default="")
    energy_mj = models.BigIntegerField()
    facility_energy_mj = models.BigIntegerField()
    emission_ug = models.BigIntegerField()
    without_factor_mj = models.BigIntegerField()
    cost_ucurrency = models.BigIntegerField(default=0)
    entries = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.day_id}: {self.energy_mj} mJ"


class LabDay(models.Model):
    """The whole lab on a daily rollup: sums of :class:`ChargeDay`, and covered device time, µs."""

    day = models.OneToOneField(
        RolledDay,
        on_delete=models.CASCADE,
        db_constraint=False,
        primary_key=True,
        related_name="+",
    )
    energy_mj = models.BigIntegerField()
    facility_energy_mj = models.BigIntegerField()
    emission_ug = models.BigIntegerField()
    without_factor_mj = models.BigIntegerField()
    entries = models.BigIntegerField()
    covered_us = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.day_id}: {self.energy_mj} mJ"


class RunTotal(models.Model):
    """Sums of the use of a run over all daily rollups of its lab, valid or stale.

    Written with the rollups, in their transaction. A reader subtracts the stale days and adds the
    ledger of all hours without a valid day (apps/carbon/figures/run_table.py). ``run_uuid`` can be
    of a run that is not registered yet.
    """

    pk = models.CompositePrimaryKey("lab_id", "run_uuid")
    lab = models.ForeignKey(
        Lab, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="+"
    )
    run_uuid = models.UUIDField()
    energy_mj = models.BigIntegerField()
    facility_energy_mj = models.BigIntegerField()
    emission_ug = models.BigIntegerField()
    without_factor_mj = models.BigIntegerField()
    entries = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.run_uuid}: {self.energy_mj} mJ"


class RunCost(models.Model):
    """Sums of the use of a run with prices in one currency, beside its :class:`RunTotal`."""

    pk = models.CompositePrimaryKey("lab_id", "currency", "run_uuid")
    lab = models.ForeignKey(
        Lab, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="+"
    )
    currency = models.CharField(max_length=3)
    run_uuid = models.UUIDField()
    energy_mj = models.BigIntegerField()
    cost_ucurrency = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.run_uuid}: {self.cost_ucurrency} millionths of {self.currency}"


class MeterDay(models.Model):
    """A device in a node on a daily rollup: measured time in µs, and sums of its energy.

    ``measured_us`` and ``estimated_us`` divide the time by the quality of each hour.
    """

    day = models.ForeignKey(
        RolledDay, on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="+"
    )
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
    """Charges of embodied carbon in a daily rollup, by kind and project.

    ``entries`` is their number.
    """

    day = models.ForeignKey(
        RolledDay, on_delete=models.CASCADE, db_constraint=False, related_name="+"
    )
    kind = models.CharField(max_length=12, choices=ChargeKind)
    project_id = models.BigIntegerField(null=True)
    embodied_ug = models.BigIntegerField()
    entries = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.day_id}: {self.embodied_ug} µg"
