"""Estimates: time and energy of a run before it, and its outcome."""

import uuid

from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Lab, Project, User
from apps.fleet.models import Node
from apps.planner.choices import Basis
from apps.runs.models import Run


def _range_is_whole(name: str, unit: str) -> Q:
    """Return the condition that a range is unknown or ordered."""
    low, likely, high = (f"{name}_{end}_{unit}" for end in ("low", "likely", "high"))
    is_unknown = Q(**{f"{field}__isnull": True for field in (low, likely, high)})
    is_known = Q(**{f"{field}__isnull": False for field in (low, likely, high)})
    return is_unknown | is_known & Q(**{f"{low}__gte": 0, f"{low}__lte": F(likely)}) & Q(
        **{f"{likely}__lte": F(high)}
    )


class Estimate(models.Model):
    """Time and energy of a run before it. Null is unknown. Only its run and its outcome are added.

    - ``input``: model costs, training, work and place. ``facts``: what the estimate rests on.
    - ``version``: of the formulas.
    - ``*_low``, ``*_likely``, ``*_high``: P10, likely value, P90. ``gpu_energy``: of the GPUs;
      ``node_energy``: of the run, all devices of its node.
    - ``conditions``: PUE, emission factor and price of the place with their ids and editions, or
      the reason why one is unknown.
    - ``run``: the run that it was attached to, None after its deletion (``attached_us`` remains).
      ``scored_us`` and ``actual_*``: its outcome.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+", db_index=False)
    uuid = models.UUIDField(unique=True, default=uuid.uuid4)
    project = models.ForeignKey(
        Project, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    person = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    node = models.ForeignKey(
        Node, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_us = models.BigIntegerField()
    expires_us = models.BigIntegerField()
    input = models.JSONField(default=dict)
    f2 = models.BigIntegerField(null=True, blank=True)
    f2_weak = models.BigIntegerField(null=True, blank=True)
    basis = models.CharField(max_length=16, choices=Basis)
    facts = models.JSONField(default=dict)
    version = models.SmallIntegerField()
    time_low_us = models.BigIntegerField(null=True, blank=True)
    time_likely_us = models.BigIntegerField(null=True, blank=True)
    time_high_us = models.BigIntegerField(null=True, blank=True)
    gpu_energy_low_mj = models.BigIntegerField(null=True, blank=True)
    gpu_energy_likely_mj = models.BigIntegerField(null=True, blank=True)
    gpu_energy_high_mj = models.BigIntegerField(null=True, blank=True)
    node_energy_low_mj = models.BigIntegerField(null=True, blank=True)
    node_energy_likely_mj = models.BigIntegerField(null=True, blank=True)
    node_energy_high_mj = models.BigIntegerField(null=True, blank=True)
    emission_low_ug = models.BigIntegerField(null=True, blank=True)
    emission_likely_ug = models.BigIntegerField(null=True, blank=True)
    emission_high_ug = models.BigIntegerField(null=True, blank=True)
    cost_low_ucurrency = models.BigIntegerField(null=True, blank=True)
    cost_likely_ucurrency = models.BigIntegerField(null=True, blank=True)
    cost_high_ucurrency = models.BigIntegerField(null=True, blank=True)
    currency = models.CharField(max_length=3, blank=True, default="")
    conditions = models.JSONField(default=dict)
    run = models.OneToOneField(
        Run, on_delete=models.SET_NULL, null=True, blank=True, related_name="estimate"
    )
    attached_us = models.BigIntegerField(null=True, blank=True)
    scored_us = models.BigIntegerField(null=True, blank=True)
    actual_time_us = models.BigIntegerField(null=True, blank=True)
    actual_gpu_energy_mj = models.BigIntegerField(null=True, blank=True)
    actual_node_energy_mj = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=_range_is_whole("time", "us"), name="estimate_time_range"
            ),
            models.CheckConstraint(
                condition=_range_is_whole("gpu_energy", "mj"), name="estimate_gpu_energy_range"
            ),
            models.CheckConstraint(
                condition=_range_is_whole("node_energy", "mj"), name="estimate_node_energy_range"
            ),
            models.CheckConstraint(
                condition=_range_is_whole("emission", "ug"), name="estimate_emission_range"
            ),
            models.CheckConstraint(
                condition=Q(basis=Basis.NONE, time_likely_us__isnull=True)
                | ~Q(basis=Basis.NONE) & Q(time_likely_us__isnull=False),
                name="estimate_number_needs_basis",
            ),
            models.CheckConstraint(
                condition=Q(expires_us__gt=F("created_us")), name="estimate_expires_later"
            ),
        ]
        indexes = [
            models.Index(fields=["lab", "-created_us"], name="estimate_by_time"),
            models.Index(
                fields=["lab", "f2"],
                name="estimate_open_by_work",
                condition=Q(run__isnull=True, f2__isnull=False),
            ),
            models.Index(
                fields=["lab", "f2_weak"],
                name="estimate_open_by_weak_work",
                condition=Q(run__isnull=True, f2_weak__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.basis} {self.uuid}"
