"""The hourly ledger: energy of each consumer on each device per UTC hour."""

from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Lab, Project, User
from apps.energy.choices import IdleSpread
from apps.fleet.models import Device, Node
from apps.ingest.choices import EnergyQuality, PlacementQuality, ShareQuality
from apps.ingest.models import Consumer


class LedgerEntry(models.Model):
    """One UTC hour of a device for one consumer. Only ``settle`` writes it. A rebuild gives the
    same integers.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, db_index=False)
    device = models.ForeignKey(Device, on_delete=models.CASCADE, db_index=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, db_index=False)
    hour = models.BigIntegerField()
    consumer = models.ForeignKey(Consumer, on_delete=models.PROTECT)
    energy_quality = models.SmallIntegerField(choices=EnergyQuality)
    share_quality = models.SmallIntegerField(choices=ShareQuality)
    placement_quality = models.SmallIntegerField(choices=PlacementQuality)
    energy_mj = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "device",
                    "hour",
                    "node",
                    "consumer",
                    "energy_quality",
                    "share_quality",
                    "placement_quality",
                ],
                name="ledger_entry_once",
            )
        ]
        indexes = [
            models.Index(fields=["lab", "hour"], name="ledger_of_lab"),
            models.Index(fields=["node", "hour"], name="ledger_of_node"),
        ]

    def __str__(self) -> str:
        return f"{self.device_id} {self.hour}: {self.energy_mj} mJ"


class DeviceHour(models.Model):
    """Covered time of a device-hour, and the sum of its entries."""

    pk = models.CompositePrimaryKey("device_id", "hour", "node_id")
    device = models.ForeignKey(Device, on_delete=models.CASCADE, db_index=False)
    hour = models.BigIntegerField()
    node = models.ForeignKey(Node, on_delete=models.CASCADE, db_index=False)
    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, db_index=False)
    covered_us = models.BigIntegerField()
    windows = models.IntegerField()
    energy_mj = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["lab", "hour"], name="device_hour_of_lab")]

    def __str__(self) -> str:
        return f"{self.device_id} {self.hour}"


class UtilizationHour(models.Model):
    """Utilization and memory of a device in a UTC hour, over the windows with a share of a
    consumer. They are those of the whole device. See ``apps.energy.utilization``.

    ``util_bins``, ``mem_bins``: JSON objects of µs by bin.
    """

    pk = models.CompositePrimaryKey("device_id", "hour", "node_id", "consumer_id")
    device = models.ForeignKey(Device, on_delete=models.CASCADE, db_index=False)
    hour = models.BigIntegerField()
    node = models.ForeignKey(Node, on_delete=models.CASCADE, db_index=False)
    consumer = models.ForeignKey(Consumer, on_delete=models.CASCADE)
    util_us = models.BigIntegerField()
    util_pm_us = models.BigIntegerField()
    idle_us = models.BigIntegerField()
    util_bins = models.TextField()
    mem_us = models.BigIntegerField()
    mem_mib_us = models.BigIntegerField()
    mem_max_mib = models.IntegerField()
    mem_bins = models.TextField()
    shared_us = models.BigIntegerField()
    most_consumers = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.device_id} {self.hour} {self.consumer_id}"


class IdlePolicy(models.Model):
    """Charging of idle energy from a UTC hour until the next policy: shown separately, or
    distributed to projects.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="idle_policies")
    from_hour = models.BigIntegerField()
    policy = models.CharField(max_length=16, choices=IdleSpread)
    created_by = models.ForeignKey(
        User, db_column="made_by_id", on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_us = models.BigIntegerField(db_column="made_us")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "from_hour"], name="idle_policy_once_per_hour")
        ]

    def __str__(self) -> str:
        return f"{self.policy} from {self.from_hour}"


class IdleShare(models.Model):
    """Derived: over ``[from_hour, to_hour)`` a project is charged ``[low, high)`` of ``total`` of
    each idle entry.

    The parts of one span are disjoint and fill ``total``, so that ``v × high div total − v × low
    div total`` divides any integer v among the projects without loss.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, db_index=False)
    from_hour = models.BigIntegerField()
    to_hour = models.BigIntegerField()
    project = models.ForeignKey(Project, on_delete=models.PROTECT)
    low = models.IntegerField()
    high = models.IntegerField()
    total = models.IntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "from_hour", "project"], name="idle_share_once"),
            models.CheckConstraint(
                condition=Q(
                    low__gte=0, high__gt=F("low"), total__gte=F("high"), to_hour__gt=F("from_hour")
                ),
                name="idle_share_is_a_part",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.project_id}: {self.high - self.low} of {self.total}"
