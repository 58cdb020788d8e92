"""Uploaded data: batches, windows, shares, gaps and quarantined windows."""

from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Lab, User
from apps.fleet.models import Device, Node
from apps.ingest.choices import (
    Decision,
    EnergyQuality,
    Measurement,
    MoveRule,
    MoveState,
    PlacementQuality,
    ShareQuality,
)


class Consumer(models.Model):
    """A consumer of energy by text key (``run:<uuid>``, ``idle``, ``proc:<user>/<comm>`` …),
    interned.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE)
    key = models.CharField(max_length=256)
    kind = models.CharField(max_length=16)
    run_uuid = models.UUIDField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["run_uuid", "lab"], name="consumer_of_run")]
        constraints = [
            models.UniqueConstraint(fields=["lab", "key"], name="consumer_key_once_per_lab")
        ]

    def __str__(self) -> str:
        return self.key


class Epoch(models.Model):
    """A period without a restart of a device's counter."""

    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="epochs")
    key = models.CharField(max_length=200)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["device", "key"], name="epoch_once_per_device")
        ]

    def __str__(self) -> str:
        return self.key


class Batch(models.Model):
    """One upload."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="batches")
    uuid = models.UUIDField()
    received_us = models.BigIntegerField()
    sent_us = models.BigIntegerField(null=True)
    skew_us = models.BigIntegerField(null=True)
    windows = models.IntegerField()
    origin = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        indexes = [models.Index(fields=["node", "received_us"], name="batch_of_node")]

    def __str__(self) -> str:
        return str(self.uuid)


class BootClock(models.Model):
    """Server time minus the monotonic clock of one boot of a node, as of its latest window."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="boot_clocks")
    boot = models.CharField(max_length=256)
    monotonic_us = models.BigIntegerField()
    offset_us = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["node", "boot"], name="boot_clock_once_per_node")
        ]

    def __str__(self) -> str:
        return f"{self.node_id} {self.boot}"


class EnergyWindow(models.Model):
    """Measured activity data with the identity (epoch, sequence). An accepted window is never
    changed.

    ``shares``: JSON object of energy in mJ by consumer id. The sum is exactly ``energy_mj``. The
    references are no constraints of the database: four double the cost of an insert.
    """

    pk = models.CompositePrimaryKey("epoch_id", "sequence")
    epoch = models.ForeignKey(
        Epoch,
        on_delete=models.CASCADE,
        related_name="windows",
        db_index=False,
        db_constraint=False,
    )
    sequence = models.BigIntegerField()
    device = models.ForeignKey(
        Device,
        on_delete=models.CASCADE,
        related_name="windows",
        db_index=False,
        db_constraint=False,
    )
    node = models.ForeignKey(
        Node, on_delete=models.CASCADE, related_name="windows", db_constraint=False
    )
    batch = models.ForeignKey(
        Batch,
        on_delete=models.PROTECT,
        related_name="accepted",
        db_index=False,
        db_constraint=False,
    )
    start_us = models.BigIntegerField()
    end_us = models.BigIntegerField()
    energy_mj = models.BigIntegerField()
    counter_start = models.BigIntegerField(null=True)
    counter_end = models.BigIntegerField(null=True)
    measurement = models.SmallIntegerField(choices=Measurement)
    energy_quality = models.SmallIntegerField(choices=EnergyQuality)
    share_quality = models.SmallIntegerField(choices=ShareQuality)
    placement_quality = models.SmallIntegerField(choices=PlacementQuality)
    flags = models.IntegerField(default=0)
    clock_shift_us = models.BigIntegerField(default=0)
    util_mean_pm = models.SmallIntegerField(null=True)
    util_max_pm = models.SmallIntegerField(null=True)
    mem_mean_mib = models.IntegerField(null=True)
    mem_max_mib = models.IntegerField(null=True)
    processes = models.IntegerField(null=True)
    digest = models.BigIntegerField()
    shares = models.TextField(default="{}")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["device", "start_us"], name="window_start_once_per_device"
            ),
            models.CheckConstraint(condition=Q(end_us__gt=F("start_us")), name="window_not_empty"),
            models.CheckConstraint(
                condition=Q(energy_mj__gte=0), name="window_energy_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.device_id} {self.start_us}"


class ConsumerHour(models.Model):
    """Energy of a consumer in the windows of a device that start in a UTC hour.

    Finds the windows of a consumer. ``last_us``: end of the latest of these windows.
    """

    pk = models.CompositePrimaryKey("consumer_id", "device_id", "hour")
    consumer = models.ForeignKey(Consumer, on_delete=models.PROTECT, db_index=False)
    device = models.ForeignKey(Device, on_delete=models.CASCADE)
    hour = models.BigIntegerField()
    energy_mj = models.BigIntegerField()
    last_us = models.BigIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(energy_mj__gte=0), name="consumer_hour_not_negative")
        ]

    def __str__(self) -> str:
        return f"{self.consumer_id} {self.device_id} {self.hour}: {self.energy_mj} mJ"


class DeclaredGap(models.Model):
    """A period for which a collector reports that the energy of a device is unknown."""

    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="gaps")
    epoch_key = models.CharField(max_length=200)
    from_us = models.BigIntegerField()
    to_us = models.BigIntegerField()
    reason = models.CharField(max_length=32)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["device", "epoch_key", "from_us"], name="gap_once"),
            models.CheckConstraint(condition=Q(to_us__gte=F("from_us")), name="gap_not_backwards"),
        ]

    def __str__(self) -> str:
        return f"{self.reason} {self.from_us}"


class QuarantinedWindow(models.Model):
    """A window that is stored but not counted in the ledger until a manager accepts it.

    ``possible``: its possible times on arrival, best first, as lists of start, end, placement
    quality and flags. ``accepted_sequence``: that of the window which the decision added.
    """

    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="quarantined")
    node = models.ForeignKey(Node, on_delete=models.CASCADE)
    batch = models.ForeignKey(Batch, on_delete=models.PROTECT)
    epoch_key = models.CharField(max_length=200)
    sequence = models.BigIntegerField()
    reason = models.CharField(max_length=64)
    energy_mj = models.BigIntegerField()
    digest = models.BigIntegerField()
    content = models.JSONField()
    possible = models.JSONField(default=list, blank=True)
    decision = models.CharField(max_length=16, choices=Decision, blank=True, default=Decision.NONE)
    decided_us = models.BigIntegerField(null=True, blank=True)
    decided_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    decision_reason = models.CharField(max_length=300, blank=True, default="")
    accepted_sequence = models.BigIntegerField(null=True, blank=True)
    accepted_mj = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["device", "epoch_key", "sequence", "digest"], name="quarantined_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.reason}: {self.energy_mj} mJ"


class DeviceMove(models.Model):
    """A claim of a node that it has the device of another node now.

    ``from_us``: start of its first window. Until the move is accepted, the windows of ``to_node``
    are quarantined (``pending_move``).
    """

    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="moves")
    from_node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")
    to_node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")
    from_us = models.BigIntegerField()
    claimed_us = models.BigIntegerField()
    state = models.CharField(max_length=16, choices=MoveState, default=MoveState.PENDING)
    rule = models.CharField(max_length=16, choices=MoveRule, blank=True, default=MoveRule.NONE)
    decided_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["device", "to_node"],
                condition=Q(state=MoveState.PENDING),
                name="one_pending_move_per_node",
            )
        ]

    def __str__(self) -> str:
        return f"{self.device} from {self.from_node} to {self.to_node}"


class SealedBlock(models.Model):
    """Where archived windows of one device and epoch are: a block in a file of the archive.

    ``end_us``: end of its latest window. ``counter_low``, ``counter_high``: its lowest and highest
    counter reading.
    """

    device = models.ForeignKey(Device, on_delete=models.CASCADE, db_index=False)
    epoch = models.ForeignKey(Epoch, on_delete=models.CASCADE, db_index=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE)
    first_sequence = models.BigIntegerField()
    last_sequence = models.BigIntegerField()
    start_us = models.BigIntegerField()
    end_us = models.BigIntegerField()
    counter_low = models.BigIntegerField(null=True)
    counter_high = models.BigIntegerField(null=True)
    windows = models.IntegerField()
    file = models.CharField(max_length=80)
    offset = models.BigIntegerField()
    length = models.IntegerField()
    sha256 = models.BinaryField(max_length=32)

    class Meta:
        indexes = [
            models.Index(fields=["epoch", "last_sequence"], name="sealed_block_of_epoch"),
            models.Index(fields=["device", "start_us"], name="sealed_block_of_device"),
            models.Index(fields=["device", "end_us"], name="sealed_block_ends"),
        ]

    def __str__(self) -> str:
        return f"{self.file} {self.offset}"


class SealedHour(models.Model):
    """A device-hour whose windows are archived: it is never summed again.

    ``windows``, ``energy_mj``, ``sha256``: of the windows of the node that start in the hour.
    """

    pk = models.CompositePrimaryKey("device_id", "hour", "node_id")
    device = models.ForeignKey(Device, on_delete=models.CASCADE, db_index=False)
    hour = models.BigIntegerField()
    node = models.ForeignKey(Node, on_delete=models.CASCADE, db_index=False)
    windows = models.IntegerField()
    energy_mj = models.BigIntegerField()
    sha256 = models.BinaryField(max_length=32)

    class Meta:
        indexes = [models.Index(fields=["node", "hour"], name="sealed_hour_of_node")]

    def __str__(self) -> str:
        return f"{self.device_id} {self.hour}"


class DirtyHour(models.Model):
    """A device-hour whose ledger entries must be recomputed. Written with the windows, in one
    transaction.
    """

    pk = models.CompositePrimaryKey("device_id", "hour")
    device = models.ForeignKey(Device, on_delete=models.CASCADE)
    hour = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.device_id} {self.hour}"
