"""Asset sources: servers whose hardware lists are polled, and the rows of the last poll."""

from django.db import models
from django.db.models import Q

from apps.accounts.models import Lab, User
from apps.assets.models import Asset, RegisterImport
from apps.pollers.choices import Policy, System


class AssetSource(models.Model):
    """A NetBox, Snipe-IT or GLPI server of a lab. ``address`` is one that the server's
    administrator lists.

    - ``token``, ``app_token`` (GLPI): encrypted (apps.accounts.encryption).
    - ``currency``, ``bought_on``: for rows without the value.
    - ``pending_import``: proposed new rows. ``pending_digest``: of its content.
    - ``succeeded_us``: last complete list. Null: never.
    - ``halted_us``: a poll lost too many rows, ``lost_rows``. No poll follows until a person
      decides. ``loss_accepted``: number of rows that the next poll may lose.
    - ``removed_us``: set if the source is removed. It is not polled.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    system = models.CharField(max_length=10, choices=System)
    name = models.CharField(max_length=100)
    address = models.CharField(max_length=300)
    token = models.TextField(blank=True, default="")
    app_token = models.TextField(blank=True, default="")
    policy = models.CharField(max_length=8, choices=Policy, default=Policy.PROPOSE)
    currency = models.CharField(max_length=3, blank=True, default="")
    bought_on = models.CharField(max_length=10, blank=True, default="")
    enabled = models.BooleanField(default=True)
    created_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_us = models.BigIntegerField()
    removed_us = models.BigIntegerField(null=True, blank=True)

    polled_us = models.BigIntegerField(null=True, blank=True)
    succeeded_us = models.BigIntegerField(null=True, blank=True)
    problem = models.CharField(max_length=400, blank=True, default="")
    failures = models.IntegerField(default=0)
    due_us = models.BigIntegerField(default=0)
    halted_us = models.BigIntegerField(null=True, blank=True)
    lost_rows = models.IntegerField(default=0)
    loss_accepted = models.IntegerField(default=0)
    pending_import = models.ForeignKey(
        RegisterImport, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    pending_digest = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["lab", "system", "address"],
                condition=Q(removed_us__isnull=True),
                name="asset_source_once_per_lab",
            ),
            models.CheckConstraint(
                condition=~Q(token="") | Q(removed_us__isnull=False),
                name="asset_source_has_a_token",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class PolledRow(models.Model):
    """A row of an asset source, identified by its number there.

    - ``cells``: its fields, by the names of the import. ``accepted``: the fields that the register
      knows or that a person dismissed; {} without an asset.
    - ``asset``: the registered asset. ``problem``: why the row cannot be registered.
    - ``vanished_us``: when a poll first did not contain the row.
    - ``ignored``: a person does not want it registered.
    """

    source = models.ForeignKey(
        AssetSource, on_delete=models.CASCADE, related_name="rows", db_index=False
    )
    number = models.BigIntegerField()
    cells = models.JSONField(default=dict)
    accepted = models.JSONField(default=dict)
    asset = models.ForeignKey(
        Asset, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    problem = models.CharField(max_length=400, blank=True, default="")
    ignored = models.BooleanField(default=False)
    vanished_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "number"], name="polled_row_once")]

    def __str__(self) -> str:
        return self.title

    @property
    def title(self) -> str:
        """Return the name of the row for people."""
        names = (self.cells.get(name) for name in ("name", "model", "tag", "serial"))
        return next((str(name) for name in names if name), f"no. {self.number}")
