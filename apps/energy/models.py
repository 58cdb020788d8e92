"""The hourly ledger: who used how much of which device in which UTC hour."""

from django.db import models

from apps.accounts.models import Lab
from apps.fleet.models import Device, Node
from apps.ingest.choices import EnergyQuality, PlacementQuality, ShareQuality
from apps.ingest.models import Consumer


class LedgerEntry(models.Model):
    """One UTC hour of one device for one consumer. Written only by settling; a rebuild gives the same integers."""

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
                fields=["device", "hour", "node", "consumer", "energy_quality", "share_quality", "placement_quality"],
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
    """How much of one device-hour was measured, and what its entries must sum to."""

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
