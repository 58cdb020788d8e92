"""Activities without a collector."""

from uuid import uuid4

from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Lab, Project, User
from apps.activity.choices import ActivityKind, FileState, RecurringState, RepetitionKind
from apps.activity.periods import RecurringPeriod, number_at, period
from apps.fleet.models import Device


class Activity(models.Model):
    """An activity that a person declares, such as a month of cloud storage.

    - ``uuid``: that of its run, to which the energy belongs.
    - ``external_id``: id at the client, '' for none. The same id is the same activity.
    - ``zone``: grid zone; '' with ``ug_per_kwh``, the factor that the lab states.
    - ``inputs``: values of its kind as text. ``energy_mj`` with low and high is computed from them
      once; ``equation`` and ``source`` say how. Without the facility.
    - ``embodied_ug``: share of the embodied carbon of GPUs, in no total. Null: unknown.
    - ``device``: that of its window in the ledger.
    - ``withdrawn_us``: set if it does not count any more. The row stays.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="activities")
    uuid = models.UUIDField(default=uuid4)
    kind = models.CharField(max_length=24, choices=ActivityKind)
    name = models.CharField(max_length=200)
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="activities"
    )
    external_id = models.CharField(max_length=200, blank=True, default="")
    start_us = models.BigIntegerField()
    end_us = models.BigIntegerField()
    zone = models.CharField(max_length=40, blank=True, default="")
    ug_per_kwh = models.BigIntegerField(null=True, blank=True)
    pue_ppm = models.BigIntegerField()
    pue_source = models.CharField(max_length=200)
    inputs = models.JSONField(default=dict)
    energy_mj = models.BigIntegerField()
    low_mj = models.BigIntegerField()
    high_mj = models.BigIntegerField()
    equation = models.CharField(max_length=500)
    source = models.CharField(max_length=500)
    embodied_ug = models.BigIntegerField(null=True, blank=True)
    embodied_low_ug = models.BigIntegerField(null=True, blank=True)
    embodied_high_ug = models.BigIntegerField(null=True, blank=True)
    embodied_source = models.CharField(max_length=500, blank=True, default="")
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="+")
    created_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_us = models.BigIntegerField()
    withdrawn_us = models.BigIntegerField(null=True, blank=True)
    withdrawn_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    withdrawn_reason = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        verbose_name_plural = "activities"
        constraints = [
            models.UniqueConstraint(fields=["lab", "uuid"], name="activity_uuid_once_per_lab"),
            models.UniqueConstraint(
                fields=["lab", "external_id"],
                condition=~Q(external_id=""),
                name="activity_external_id_once_per_lab",
            ),
            models.CheckConstraint(
                condition=Q(end_us__gt=F("start_us")), name="activity_ends_after_start"
            ),
            models.CheckConstraint(
                condition=Q(low_mj__gte=0, energy_mj__gte=F("low_mj"), high_mj__gte=F("energy_mj")),
                name="activity_within_its_range",
            ),
            models.CheckConstraint(
                condition=Q(zone="", ug_per_kwh__isnull=False)
                | (~Q(zone="") & Q(ug_per_kwh__isnull=True)),
                name="activity_has_one_grid",
            ),
        ]
        indexes = [models.Index(fields=["lab", "-start_us"], name="activity_by_start")]

    def __str__(self) -> str:
        return self.name


class RecurringActivity(models.Model):
    """An activity that is recorded for each period that is over: week, month, quarter or year.

    - ``uuid``: the key of the form that added it.
    - ``inputs``, ``zone``, ``ug_per_kwh``: those of each period, as of an activity. ``pue_ppm``
      null: the default of the kind.
    - ``first_day``: of the first period. ``last_day`` null: until it is ended. Included.
    - ``next_first_day``: of the period that is recorded next. Those before are recorded.
    - ``problem``: why that period cannot be recorded, with what to do.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="recurring_activities")
    uuid = models.UUIDField(default=uuid4)
    kind = models.CharField(max_length=24, choices=ActivityKind)
    name = models.CharField(max_length=200)
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    zone = models.CharField(max_length=40, blank=True, default="")
    ug_per_kwh = models.BigIntegerField(null=True, blank=True)
    pue_ppm = models.BigIntegerField(null=True, blank=True)
    inputs = models.JSONField(default=dict)
    period = models.CharField(max_length=8, choices=RepetitionKind)
    first_day = models.DateField()
    last_day = models.DateField(null=True, blank=True)
    next_first_day = models.DateField()
    problem = models.CharField(max_length=600, blank=True, default="")
    created_us = models.BigIntegerField()
    created_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    ended_us = models.BigIntegerField(null=True, blank=True)
    ended_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        verbose_name_plural = "recurring activities"
        constraints = [
            models.UniqueConstraint(
                fields=["lab", "uuid"], name="recurring_activity_uuid_once_per_lab"
            ),
            models.CheckConstraint(
                condition=Q(zone="", ug_per_kwh__isnull=False)
                | (~Q(zone="") & Q(ug_per_kwh__isnull=True)),
                name="recurring_activity_has_one_grid",
            ),
        ]
        indexes = [models.Index(fields=["next_first_day"], name="recurring_activity_by_next_day")]

    def __str__(self) -> str:
        return self.name

    @property
    def recorded_periods(self) -> int:
        """Number of recorded periods."""
        return number_at(self.period, self.first_day, self.next_first_day)

    @property
    def next_period(self) -> RecurringPeriod | None:
        """The period that is recorded next; None after the last one."""
        if self.ended_us is not None:
            return None
        following = period(self.period, self.first_day, self.recorded_periods)
        if self.last_day is not None and following.last_day > self.last_day:
            return None
        return following

    @property
    def state(self) -> RecurringState:
        if self.next_period is None:
            return RecurringState.ENDED
        return RecurringState.PROBLEM if self.problem else RecurringState.ACTIVE


class ActivityFile(models.Model):
    """An uploaded file of activities. Its good rows are recorded in batches after a confirmation.

    - ``content``: its text as CSV; emptied when all rows are recorded.
    - ``options``: how it is read. ``headings``: digest of its headings.
    - ``rows_done``: rows that are checked, or recorded, so far. A batch is saved with it.
    - ``new``, ``known``, ``wrong``: rows by result; known ones were recorded before.
    - ``energy_mj``: energy of the new rows.
    - ``problem``: why the file cannot be read, with what to do.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    uuid = models.UUIDField(unique=True, default=uuid4)
    file_name = models.CharField(max_length=200)
    content = models.TextField(blank=True)
    options = models.JSONField(default=dict)
    headings = models.CharField(max_length=64)
    state = models.CharField(max_length=10, choices=FileState, default=FileState.MAPPING)
    rows = models.IntegerField()
    rows_done = models.IntegerField(default=0)
    new = models.IntegerField(default=0)
    known = models.IntegerField(default=0)
    wrong = models.IntegerField(default=0)
    energy_mj = models.BigIntegerField(default=0)
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
        constraints = [
            models.CheckConstraint(
                condition=Q(rows_done__gte=0, rows__gte=F("rows_done")),
                name="activity_file_rows_done",
            ),
        ]
        indexes = [models.Index(fields=["lab", "-created_us"], name="activity_files_of_lab")]

    def __str__(self) -> str:
        return self.file_name


class BadRow(models.Model):
    """A row of a file of activities that cannot be recorded, and why."""

    file = models.ForeignKey(ActivityFile, on_delete=models.CASCADE, related_name="bad_rows")
    line = models.IntegerField()
    name = models.CharField(max_length=200, blank=True, default="")
    field = models.CharField(max_length=40, blank=True, default="")
    message = models.CharField(max_length=500)
    hint = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["file", "line"], name="activity_bad_row_once_per_line")
        ]

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"
