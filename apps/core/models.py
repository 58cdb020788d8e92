"""The job table, and the results of the daily checks of all tables.

The job table is the queue of record: a row is written in the transaction that made the job
necessary.
"""

from django.db import models


class Job(models.Model):
    """A job that must run at least once.

    ``requested`` counts requests, so that a race loses none.
    """

    kind = models.CharField(max_length=64)
    key = models.CharField(max_length=200)
    requested = models.BigIntegerField(default=1)
    done = models.BigIntegerField(default=0)
    due_us = models.BigIntegerField(default=0)
    leased_until_us = models.BigIntegerField(default=0)
    leased_by = models.CharField(max_length=64, default="", blank=True)
    attempts = models.IntegerField(default=0)
    last_error = models.TextField(default="", blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "key"], name="job_kind_key_once"),
            models.CheckConstraint(
                condition=models.Q(done__lte=models.F("requested")),
                name="job_done_at_most_requested",
            ),
        ]
        indexes = [
            models.Index(
                fields=["due_us"],
                name="job_due",
                condition=models.Q(done__lt=models.F("requested")),
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


class TableCheck(models.Model):
    """The last check of a table for damage. ``problem``: '' if it is intact."""

    name = models.CharField(max_length=100, unique=True)
    checked_us = models.BigIntegerField()
    problem = models.TextField(blank=True, default="")

    def __str__(self) -> str:
        return f"{self.name}: {self.problem or 'intact'}"


class ErasedName(models.Model):
    """A name of an erased person in a lab, as a keyed hash (:mod:`apps.core.erasure.names`).

    ``lab_id`` 0: the user name of the account. ``number``: of the person; ``position``: of the
    name; ``words``: its number of words; ``in_texts``: whether it is also replaced in prose;
    ``pepper``: of its key.
    """

    lab_id = models.BigIntegerField()
    number = models.IntegerField()
    position = models.IntegerField()
    words = models.IntegerField()
    in_texts = models.BooleanField()
    pepper = models.PositiveSmallIntegerField()
    digest = models.CharField(max_length=64)
    erased_us = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab_id", "digest"], name="erased_name_once_per_lab")
        ]

    def __str__(self) -> str:
        return f"name {self.position} of erased person {self.number}"
