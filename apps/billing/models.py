"""Billing exports of cloud providers: files, accounts, tags, and billed months with their items."""

from uuid import uuid4

from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Lab, Project, User
from apps.activity.models import Activity
from apps.billing.choices import Category, Charge, FileState, Provider


class BillingFile(models.Model):
    """An uploaded export, in one or several files that belong together.

    - ``parts``: name and size of each of its files.
    - ``sha256``: digest of all files. The same files are the same version of their months.
    - ``bytes_done``: of the upload, for the progress.
    - ``found``: its accounts and months with their lines, and its tags with their values.
    - ``options``: ``tag``, whose value names the project, and ``utilization`` in percent.
    - ``lines``, ``ignored``: lines that were read, and those that are not stored.
    - ``problem``: why the file cannot be read, with what to do.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    uuid = models.UUIDField(unique=True, default=uuid4)
    provider = models.CharField(max_length=8, choices=Provider, blank=True, default="")
    name = models.CharField(max_length=200)
    parts = models.JSONField(default=list)
    sha256 = models.CharField(max_length=64)
    state = models.CharField(max_length=10, choices=FileState, default=FileState.SCANNING)
    bytes = models.BigIntegerField()
    bytes_done = models.BigIntegerField(default=0)
    found = models.JSONField(default=dict)
    options = models.JSONField(default=dict)
    lines = models.BigIntegerField(default=0)
    ignored = models.BigIntegerField(default=0)
    problem = models.CharField(max_length=600, blank=True, default="")
    created_us = models.BigIntegerField()
    created_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    confirmed_us = models.BigIntegerField(null=True, blank=True)
    confirmed_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        indexes = [models.Index(fields=["lab", "-created_us"], name="billing_files_of_lab")]

    def __str__(self) -> str:
        return self.name


class FilePart(models.Model):
    """A part of the bytes of an upload. It is deleted when the upload is recorded or refused."""

    file = models.ForeignKey(BillingFile, on_delete=models.CASCADE, related_name="stored_parts")
    number = models.IntegerField()
    position = models.IntegerField()
    content = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["file", "number", "position"], name="billing_part_once_per_file"
            )
        ]

    def __str__(self) -> str:
        return f"{self.file_id} {self.number}.{self.position}"


class BillingAccount(models.Model):
    """An account of a provider, and whether its use belongs to the lab. ``project``: of use
    without a tag.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    provider = models.CharField(max_length=8, choices=Provider)
    account = models.CharField(max_length=200, blank=True)
    is_included = models.BooleanField()
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["lab", "provider", "account"], name="billing_account_once_per_lab"
            )
        ]

    def __str__(self) -> str:
        return f"{self.provider} {self.account}"


class BillingTag(models.Model):
    """A value of a tag and its project."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    provider = models.CharField(max_length=8, choices=Provider)
    key = models.CharField(max_length=128)
    value = models.CharField(max_length=200)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["lab", "provider", "key", "value"], name="billing_tag_once_per_lab"
            )
        ]

    def __str__(self) -> str:
        return f"{self.key}={self.value}"


class BilledMonth(models.Model):
    """A billed month of an account, of one version of its export.

    - ``version``: counts the versions of this month, from 1.
    - ``is_current``: false before the export is confirmed. A new version replaces the whole month.
    - ``number_of_uses``, ``energy_mj``: number and energy of the activities of its items.
    - ``problem``: why it cannot replace the earlier version, '' for none.
    """

    file = models.ForeignKey(BillingFile, on_delete=models.CASCADE, related_name="months")
    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    provider = models.CharField(max_length=8, choices=Provider)
    account = models.CharField(max_length=200, blank=True)
    month = models.CharField(max_length=7)
    version = models.IntegerField(default=0)
    is_current = models.BooleanField(default=False)
    currency = models.CharField(max_length=10, blank=True)
    number_of_uses = models.IntegerField(default=0)
    energy_mj = models.BigIntegerField(default=0)
    problem = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["lab", "provider", "account", "month"],
                condition=Q(is_current=True),
                name="billed_month_once_per_account",
            ),
            models.UniqueConstraint(
                fields=["file", "account", "month"], name="billed_month_once_per_file"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.provider} {self.account} {self.month}"


class BillingItem(models.Model):
    """The sum of the lines of a billed month with the same content.

    - ``start_us``, ``end_us``: the UTC day of the use, or its hours; 0 for a charge without use.
    - ``amount_millionths``: hours, GB-months or GB; ``covered_millionths``: hours of it that a
      collector measured, which count there.
    - ``resource``: id of an instance with a collector, '' for others.
    - ``problem``: why its energy is unknown, '' for none.
    """

    month = models.ForeignKey(BilledMonth, on_delete=models.CASCADE, related_name="items")
    start_us = models.BigIntegerField()
    end_us = models.BigIntegerField()
    charge = models.CharField(max_length=10, choices=Charge)
    category = models.CharField(max_length=10, choices=Category, blank=True)
    instance_type = models.CharField(max_length=200, blank=True)
    gpu = models.CharField(max_length=200, blank=True)
    medium = models.CharField(max_length=10, blank=True)
    region = models.CharField(max_length=200, blank=True)
    resource = models.CharField(max_length=1000, blank=True)
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    amount_millionths = models.BigIntegerField(default=0)
    covered_millionths = models.BigIntegerField(default=0)
    cost_ucurrency = models.BigIntegerField(default=0)
    lines = models.BigIntegerField()
    problem = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(end_us__gte=F("start_us")), name="billing_item_ends_after_start"
            ),
            models.CheckConstraint(
                condition=Q(covered_millionths__gte=0), name="billing_item_covered_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.category or self.charge} {self.instance_type}"


class BilledUse(models.Model):
    """The activity of items of a billed month that have one day, type, region and project.

    - ``digest``: of what the activity was computed from. An equal digest keeps its activity.
    """

    month = models.ForeignKey(BilledMonth, on_delete=models.CASCADE, related_name="uses")
    digest = models.CharField(max_length=64)
    activity = models.OneToOneField(Activity, on_delete=models.CASCADE, related_name="billed_use")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["month", "digest"], name="billed_use_once_per_month")
        ]

    def __str__(self) -> str:
        return str(self.activity_id)
