"""Files with a lab's own emission factors."""

from uuid import uuid4

from django.db import models
from django.db.models import Q

from apps.accounts.models import Lab, User


class OwnFactorFile(models.Model):
    """An uploaded file with emission factors of a lab. Its factors refer to it.

    It is previewed first: ``content`` is its text until it is confirmed, ``summary`` its preview.
    ``sha256`` is of the uploaded bytes. ``from_hour``, ``to_hour``: the first and last hours whose
    emissions it changes, null for none.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="own_factor_files")
    uuid = models.UUIDField(unique=True, default=uuid4)
    file_name = models.CharField(max_length=200)
    content = models.TextField(blank=True)
    sha256 = models.CharField(max_length=64)
    summary = models.JSONField(default=dict)
    from_hour = models.BigIntegerField(null=True, blank=True)
    to_hour = models.BigIntegerField(null=True, blank=True)
    created_us = models.BigIntegerField()
    created_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    confirmed_us = models.BigIntegerField(null=True, blank=True)
    confirmed_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    withdrawn_us = models.BigIntegerField(null=True, blank=True)
    withdrawn_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    withdrawal_reason = models.CharField(max_length=400, blank=True, default="")

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(withdrawn_us__isnull=True)
                | (Q(confirmed_us__isnull=False) & ~Q(withdrawal_reason="")),
                name="own_factors_withdrawn_with_reason",
            )
        ]
        indexes = [models.Index(fields=["lab", "created_us"], name="own_factor_files_of_lab")]

    def __str__(self) -> str:
        return self.file_name
