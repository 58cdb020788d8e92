"""Providers of grid intensity that a lab uses."""

from django.db import models
from django.db.models import Q

from apps.accounts.choices import Basis
from apps.accounts.models import Lab, User


class GridProvider(models.Model):
    """A provider of hourly factors of one grid zone of a lab.

    - ``kind``: name in the registry (apps.carbon.providers.registry).
    - ``token``: encrypted (apps.accounts.encryption), '' if the provider needs none.
    - ``fetched_to_hour``: hours before it have been requested. Null: none yet.
    - ``reviewed_us``: when the last days were requested again, so that provisional hours become
      final. ``tried_us``, ``succeeded_us``: last attempt and last good response. Null: never.
    - ``message``: remark of the last success, such as refused readings. ``problem``: why the last
      attempt failed, '' after a success.
    - ``forecast_problem``: why it has no forecast of the next hours, '' if it has one.
    - ``removed_us``: set if the provider is removed. Its hours stay.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=24)
    zone = models.CharField(max_length=40)
    token = models.TextField(blank=True, default="")
    enabled = models.BooleanField(default=True)
    created_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_us = models.BigIntegerField()
    removed_us = models.BigIntegerField(null=True, blank=True)

    fetched_to_hour = models.BigIntegerField(null=True, blank=True)
    reviewed_us = models.BigIntegerField(default=0)
    tried_us = models.BigIntegerField(null=True, blank=True)
    succeeded_us = models.BigIntegerField(null=True, blank=True)
    problem = models.CharField(max_length=400, blank=True, default="")
    message = models.CharField(max_length=400, blank=True, default="")
    failures = models.IntegerField(default=0)
    due_us = models.BigIntegerField(default=0)
    forecast_problem = models.CharField(max_length=400, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["lab", "zone"],
                condition=Q(removed_us__isnull=True),
                name="one_grid_provider_per_zone",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.zone}"


class ForecastHour(models.Model):
    """The forecast intensity of a coming UTC hour. Advice on when to run; no figure uses it.
    Replaced by each new forecast of the provider.
    """

    provider = models.ForeignKey(
        GridProvider, on_delete=models.CASCADE, db_index=False, related_name="forecast_hours"
    )
    basis = models.CharField(max_length=16, choices=Basis)
    hour = models.BigIntegerField()
    ug_per_kwh = models.BigIntegerField()
    fetched_us = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["provider", "hour"], name="forecast_hour_once"),
            models.CheckConstraint(condition=Q(ug_per_kwh__gt=0), name="forecast_hour_not_zero"),
        ]

    def __str__(self) -> str:
        return f"{self.hour}: {self.ug_per_kwh} µg/kWh"
