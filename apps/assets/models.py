"""Models of assets with embodied carbon: register, lifecycle events, and charges."""

from uuid import uuid4

from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Lab, Project, User
from apps.assets.choices import (
    Amortisation,
    AssetState,
    ChangeKind,
    ChargeKind,
    EndOfLife,
    EventKind,
    ImportState,
    MediaType,
)
from apps.catalog.choices import HardwareKind
from apps.catalog.models import EmbodiedFigure, HardwareModel
from apps.fleet.models import ACTIVE, DatedFact, Device, Node, Site


class RegisteredAssets(models.Manager["Asset"]):
    """The assets of the register, without removed ones."""

    def get_queryset(self) -> models.QuerySet["Asset"]:
        return super().get_queryset().filter(removed_us__isnull=True)


class Asset(models.Model):
    """A purchased item of hardware. Its facts are columns, its history is :class:`LifecycleEvent`.

    ``state``, ``parent``, ``site``, ``owner`` and ``borrower`` are derived from the events (see
    ``services.events.refresh``). They are stored so that lists can be filtered. ``owner`` null: the
    lab itself. ``parent``: the machine that contains the asset.

    The summary of all active events is stored too (see ``lifecycle_summary.LifecycleSummary``), so
    that sums over many assets do not read events. It holds for books from ``complete_until_hour``
    on. ``settled_ug`` and ``written_off_to_date_ug`` are the amounts charged and written off by
    charges that end by ``settled_hour``. Sums read only charges that end later.

    ``removed_us``: when an asset that was registered by mistake was removed. All of its events are
    then reversed, and only ``with_removed`` returns it (``services.undo``).
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="assets")
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=16, choices=HardwareKind)
    model = models.ForeignKey(
        HardwareModel, on_delete=models.SET_NULL, null=True, blank=True, related_name="assets"
    )
    serial = models.CharField(max_length=120, blank=True, default="")
    tag = models.CharField(max_length=60, blank=True, default="")  # the lab's own inventory number
    supplier = models.CharField(max_length=200, blank=True, default="")
    order_number = models.CharField(max_length=100, blank=True, default="")
    contact = models.CharField(max_length=200, blank=True, default="")
    price_ucurrency = models.BigIntegerField(null=True, blank=True)  # millionths of ``currency``
    currency = models.CharField(max_length=3, blank=True, default="")
    warranty_until = models.DateField(null=True, blank=True)
    location = models.CharField(max_length=200, blank=True, default="")
    note = models.CharField(max_length=1000, blank=True, default="")
    added_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    added_us = models.BigIntegerField()
    state = models.CharField(max_length=10, choices=AssetState, default=AssetState.STOCK)
    parent = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="parts"
    )
    site = models.ForeignKey(
        Site, on_delete=models.SET_NULL, null=True, blank=True, related_name="assets"
    )
    owner = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="assets"
    )
    borrower = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    embodied_total_ug = models.BigIntegerField(db_column="brought_ug", null=True, blank=True)
    embodied_low_ug = models.BigIntegerField(db_column="brought_low_ug", default=0)
    embodied_high_ug = models.BigIntegerField(db_column="brought_high_ug", default=0)
    embodied_at_least = models.BooleanField(db_column="brought_at_least", default=False)
    figure = models.ForeignKey(
        EmbodiedFigure, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    bought_hour = models.BigIntegerField(null=True, blank=True)
    in_use_hour = models.BigIntegerField(null=True, blank=True)
    life_end_hour = models.BigIntegerField(null=True, blank=True)
    disposed_hour = models.BigIntegerField(db_column="gone_hour", null=True, blank=True)
    complete_until_hour = models.BigIntegerField(db_column="told_to_hour", default=0)
    settled_hour = models.BigIntegerField(default=0)
    settled_ug = models.BigIntegerField(default=0)
    written_off_to_date_ug = models.BigIntegerField(db_column="settled_off_ug", default=0)
    removed_us = models.BigIntegerField(null=True, blank=True)

    objects = RegisteredAssets()
    with_removed = models.Manager["Asset"]()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~Q(name=""), name="asset_has_a_name"),
            models.CheckConstraint(
                condition=Q(price_ucurrency__isnull=True)
                | Q(price_ucurrency__gte=0) & ~Q(currency=""),
                name="asset_price_has_a_currency",
            ),
            models.UniqueConstraint(
                fields=["lab", "tag"],
                condition=~Q(tag="") & Q(removed_us__isnull=True),
                name="asset_tag_once_per_lab",
            ),
        ]
        indexes = [
            models.Index(fields=["lab", "kind", "state"], name="assets_of_lab"),
            models.Index(
                fields=["lab", "serial"], condition=~Q(serial=""), name="assets_by_serial"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class LifecycleEvent(models.Model):
    """One dated fact about an asset, valid from the whole UTC hour ``hour`` on.

    Append-only: another event reverses a wrong one and names it in ``reverses``.

    ``total_ug`` is the embodied carbon that the event adds (purchase, repair), or the actual
    end-of-life emissions (disposal). Null: none. ``manufacture_ug``, ``transport_ug``,
    ``end_of_life_ug`` are the parts that are stated separately. ``includes_end_of_life``: whether
    the total contains the end of life (null: unknown). ``project`` is the new owner (purchase,
    transfer; null: the lab) or the borrower. ``counterpart``: seller, lessor, external borrower,
    or disposer. ``end_of_life`` and ``mass_g`` (disposal): how the asset left the lab, and its
    mass. ``cause``: the disposal of the machine that caused this event of a part.
    """

    asset = models.ForeignKey(Asset, on_delete=models.CASCADE, related_name="events")
    kind = models.CharField(max_length=12, choices=EventKind)
    hour = models.BigIntegerField()
    total_ug = models.BigIntegerField(null=True, blank=True)
    low_ug = models.BigIntegerField(null=True, blank=True)
    high_ug = models.BigIntegerField(null=True, blank=True)
    manufacture_ug = models.BigIntegerField(null=True, blank=True)
    transport_ug = models.BigIntegerField(null=True, blank=True)
    end_of_life_ug = models.BigIntegerField(null=True, blank=True)
    includes_end_of_life = models.BooleanField(null=True, blank=True)
    figure = models.ForeignKey(
        EmbodiedFigure, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    source = models.CharField(max_length=500, blank=True, default="")
    life_hours = models.BigIntegerField(
        null=True, blank=True
    )  # opening: planned life, from the first day of use
    life_end_hour = models.BigIntegerField(
        null=True, blank=True
    )  # life changed, repurposed: its new planned end
    amortisation = models.CharField(max_length=8, choices=Amortisation, blank=True, default="")
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    parent = models.ForeignKey(
        Asset, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    site = models.ForeignKey(
        Site, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    counterpart = models.CharField(max_length=200, blank=True, default="")
    evidence = models.CharField(max_length=300, blank=True, default="")
    note = models.CharField(max_length=500, blank=True, default="")
    end_of_life = models.CharField(max_length=16, choices=EndOfLife, blank=True, default="")
    mass_g = models.BigIntegerField(null=True, blank=True)
    cause = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="consequences"
    )
    reverses = models.OneToOneField(
        "self", on_delete=models.PROTECT, null=True, blank=True, related_name="reversed_by"
    )
    recorded_us = models.BigIntegerField()
    recorded_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(hour__gte=0), name="event_not_before_time"),
            models.CheckConstraint(
                condition=Q(total_ug__isnull=True) | Q(total_ug__gte=0),
                name="event_total_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(end_of_life_ug__isnull=True) | Q(total_ug__isnull=False),
                name="event_part_has_a_whole",
            ),
            models.CheckConstraint(
                condition=Q(kind=EventKind.REVERSAL, reverses__isnull=False)
                | ~Q(kind=EventKind.REVERSAL) & Q(reverses__isnull=True),
                name="event_reverses_if_reversal",
            ),
            models.CheckConstraint(
                condition=Q(life_hours__isnull=True) | Q(life_hours__gt=0),
                name="event_life_not_empty",
            ),
            models.CheckConstraint(
                condition=Q(mass_g__isnull=True) | Q(mass_g__gt=0), name="event_mass_not_empty"
            ),
        ]
        indexes = [
            models.Index(fields=["asset", "hour"], name="events_of_asset"),
            models.Index(
                fields=["hour"], condition=Q(total_ug__isnull=False), name="events_that_bring"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.asset_id}"


class Attachment(models.Model):
    """A document of an asset, such as an invoice. ``file``: its name below the folder of
    attachments, chosen by the server. ``name``: for downloads.

    A deleted attachment keeps its row without ``name`` and ``sha256``. ``erased_us``: its bytes are
    erased.
    """

    asset = models.ForeignKey(
        Asset, on_delete=models.CASCADE, related_name="attachments", db_index=False
    )
    uuid = models.UUIDField(unique=True)
    file = models.CharField(max_length=100)
    name = models.CharField(max_length=200, blank=True, default="")
    media_type = models.CharField(max_length=20, choices=MediaType)
    bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64, blank=True, default="")
    added_us = models.BigIntegerField()
    added_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    deleted_us = models.BigIntegerField(null=True, blank=True)
    erased_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(bytes__gt=0), name="attachment_not_empty"),
            models.CheckConstraint(
                condition=Q(deleted_us__isnull=False) | ~Q(name="") & ~Q(sha256=""),
                name="attachment_has_a_name",
            ),
            models.CheckConstraint(
                condition=Q(erased_us__isnull=True) | Q(deleted_us__isnull=False),
                name="attachment_deleted_if_erased",
            ),
        ]
        indexes = [models.Index(fields=["asset", "added_us"], name="attachments_of_asset")]

    def __str__(self) -> str:
        return str(self.uuid)


class AssetMeter(DatedFact):
    """Source of an asset's use from an hour on: its own device, or the devices of a node (machine).

    Neither: not metered from then on.
    """

    asset = models.ForeignKey(Asset, on_delete=models.CASCADE, related_name="meters")
    device = models.ForeignKey(
        Device, on_delete=models.CASCADE, null=True, blank=True, related_name="asset_meters"
    )
    node = models.ForeignKey(
        Node, on_delete=models.CASCADE, null=True, blank=True, related_name="asset_meters"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["asset", "from_hour"], condition=ACTIVE, name="asset_meter_once_per_hour"
            ),
            models.CheckConstraint(
                condition=Q(device__isnull=True) | Q(node__isnull=True), name="asset_meter_is_one"
            ),
            models.CheckConstraint(
                condition=Q(from_hour__gte=0), name="asset_meter_not_before_time"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.asset_id} by {self.device_id or self.node_id}"


class StoredVolume(DatedFact):
    """Volume in GB that a project stores on an asset (a file server) from an hour on.

    The use of the asset is divided by volume. ``project`` null: no project. ``gigabytes`` 0:
    nothing stored from then on.
    """

    asset = models.ForeignKey(Asset, on_delete=models.CASCADE, related_name="volumes")
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    gigabytes = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["asset", "project", "from_hour"],
                condition=ACTIVE,
                name="volume_once_per_hour",
                nulls_distinct=False,
            ),
            models.CheckConstraint(condition=Q(gigabytes__gte=0), name="volume_not_negative"),
            models.CheckConstraint(condition=Q(from_hour__gte=0), name="volume_not_before_time"),
        ]

    def __str__(self) -> str:
        return f"{self.gigabytes} GB on {self.asset_id}"


class DeviceDay(models.Model):
    """Derived: measured and used time of a device on a node in one day of the lab.

    Use includes reservations. ``parts`` is [[project id or 0 for an unknown project, milliseconds],
    …].
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, db_index=False)
    device = models.ForeignKey(Device, on_delete=models.CASCADE, db_index=False)
    node = models.ForeignKey(Node, on_delete=models.CASCADE)
    from_hour = models.BigIntegerField()
    to_hour = models.BigIntegerField()
    measured_ms = models.BigIntegerField()
    parts = models.JSONField(default=list)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["device", "node", "from_hour"], name="device_day_once"),
            models.CheckConstraint(
                condition=Q(to_hour__gt=F("from_hour")), name="device_day_not_empty"
            ),
        ]
        indexes = [models.Index(fields=["lab", "from_hour"], name="device_days_of_lab")]

    def __str__(self) -> str:
        return f"{self.device_id} {self.from_hour}"


class EmbodiedCharge(models.Model):
    """Derived: ``amount_ug`` of embodied carbon, charged evenly over ``[from_hour, to_hour)``.

    The charge of ``[a, b)`` is ``v × (b − from) div (to − from)`` less the same term for ``a``, so
    parts sum exactly to the whole. ``project`` null: the lab, or an unknown project (kind used).
    Rows can end after today. Sums end with the current hour.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, db_index=False)
    asset = models.ForeignKey(Asset, on_delete=models.CASCADE, related_name="charges")
    from_hour = models.BigIntegerField()
    to_hour = models.BigIntegerField()
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    kind = models.CharField(max_length=12, choices=ChargeKind)
    amount_ug = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["asset", "from_hour", "to_hour", "kind", "project"],
                name="embodied_charge_once",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(to_hour__gt=F("from_hour")), name="embodied_charge_not_empty"
            ),
        ]
        indexes = [
            models.Index(fields=["lab", "to_hour", "from_hour"], name="embodied_charges_of_lab")
        ]

    def __str__(self) -> str:
        return f"{self.asset_id}: {self.amount_ug} µg"


class RegisterImport(models.Model):
    """An uploaded file of assets.

    It is previewed first, and registered on confirmation: all or none.

    ``options``: how it is read. ``summary`` is that of the preview: counts, first lines, errors; in
    state "mapping": what is to be confirmed. ``content`` is its text as CSV; it is emptied when the
    file is registered, and :class:`RegisterChange` contains what was done. ``task``: which assets
    the job of an undo leaves out, or why the last job failed.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    uuid = models.UUIDField(unique=True, default=uuid4)
    file_name = models.CharField(max_length=200)
    content = models.TextField()
    options = models.JSONField(default=dict)
    state = models.CharField(max_length=8, choices=ImportState, default=ImportState.READING)
    lines_done = models.IntegerField(default=0)
    lines = models.IntegerField()
    summary = models.JSONField(db_column="told", default=dict)
    task = models.JSONField(default=dict)
    created_us = models.BigIntegerField(db_column="made_us")
    created_by = models.ForeignKey(
        User, db_column="made_by_id", on_delete=models.SET_NULL, null=True, related_name="+"
    )

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(lines__gte=0), name="import_has_lines")]
        indexes = [models.Index(fields=["lab", "created_us"], name="imports_of_lab")]

    def __str__(self) -> str:
        return self.file_name


class RegisterChange(models.Model):
    """What an import did to one asset. Undo reverses ``events``, and undo of the undo reverses
    those reversals.

    ``register_import`` null: the registration of a single asset that was removed. ``before`` and
    ``after``: columns of the asset that changed. ``values``: the values of the file by field, to
    which the next import compares. ``differences``: the changed values as shown before the
    confirmation. ``undone_us`` null: not undone.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    register_import = models.ForeignKey(
        RegisterImport, on_delete=models.CASCADE, null=True, blank=True, related_name="changes"
    )
    asset = models.ForeignKey(Asset, on_delete=models.CASCADE, related_name="changes")
    kind = models.CharField(max_length=10, choices=ChangeKind)
    before = models.JSONField(default=dict)
    after = models.JSONField(default=dict)
    values = models.JSONField(default=dict)
    differences = models.JSONField(default=list)
    events = models.JSONField(default=list)
    recorded_us = models.BigIntegerField()
    undone_us = models.BigIntegerField(null=True, blank=True)
    undone_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["asset"],
                condition=Q(kind=ChangeKind.REGISTERED),
                name="asset_registered_once",
            )
        ]
        indexes = [models.Index(fields=["lab", "undone_us"], name="register_changes_of_lab")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.asset_id}"


class ColumnMapping(models.Model):
    """How a lab reads files with these headings, as a person confirmed it.

    ``source``: digest of the headings. ``columns``: the field of each column by its key, null: by
    their headings. ``date_order``, ``decimal`` and ``currency`` '': not asked.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    source = models.CharField(max_length=64)
    columns = models.JSONField(null=True)
    date_order = models.CharField(max_length=3, blank=True, default="")
    decimal = models.CharField(max_length=1, blank=True, default="")
    currency = models.CharField(max_length=3, blank=True, default="")
    confirmed_us = models.BigIntegerField()
    confirmed_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "source"], name="column_mapping_once")
        ]

    def __str__(self) -> str:
        return self.source[:12]


class DismissedProposal(models.Model):
    """A device or node that a user does not want proposed as an asset."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    device = models.OneToOneField(
        Device, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    node = models.OneToOneField(
        Node, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    dismissed_us = models.BigIntegerField()
    dismissed_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(device__isnull=True, node__isnull=False)
                | Q(device__isnull=False, node__isnull=True),
                name="dismissed_is_one",
            )
        ]

    def __str__(self) -> str:
        return f"{self.device_id or self.node_id}"
