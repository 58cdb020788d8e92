"""Statements: the frozen figures of closed periods."""

from django.db import models
from django.db.models import F, Q

from apps.accounts.choices import Basis
from apps.accounts.models import Lab, User


class Statement(models.Model):
    """The figures of a closed period. Never changed: a restatement is the next revision.

    - ``first_day``, ``last_day``: days of ``time_zone``, both included. ``from_hour``, ``to_hour``:
      the same in whole UTC hours, half open.
    - ``content``: the figures and the editions of factors in canonical form
      (:mod:`apps.reports.rows`). ``sha256`` is its hash.
    - ``reason``: of a restatement, '' for the first revision.

    ``content`` has no names of persons, so the erasure of a person changes neither figures nor
    hash.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="statements")
    first_day = models.DateField()
    last_day = models.DateField()
    time_zone = models.CharField(max_length=64)
    from_hour = models.BigIntegerField()
    to_hour = models.BigIntegerField()
    revision = models.IntegerField()
    basis = models.CharField(max_length=16, choices=Basis)
    reason = models.CharField(max_length=300, blank=True, default="")
    created_us = models.BigIntegerField()
    created_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    content = models.TextField()
    sha256 = models.CharField(max_length=64)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["lab", "from_hour", "to_hour", "revision"], name="statement_revision_once"
            ),
            models.CheckConstraint(
                condition=Q(to_hour__gt=F("from_hour")), name="statement_not_empty"
            ),
            models.CheckConstraint(
                condition=Q(revision=1, reason="") | (Q(revision__gt=1) & ~Q(reason="")),
                name="restatement_has_a_reason",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.first_day} – {self.last_day}, revision {self.revision}"
