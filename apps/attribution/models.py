"""Attribution of energy: dated rules, claims, and the derived attributions of each consumer on
each node.
"""

from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Lab, Project, User
from apps.fleet.models import Node, Site
from apps.ingest.models import Consumer
from apps.runs.choices import AttributionSource


class AttributionRule(models.Model):
    """Energy that matches the criteria belongs to a project and person over ``[from_hour,
    to_hour)``. Open end: null.

    Empty criteria match everything. A rule is never edited. It can be ended, or withdrawn with its
    effect on past energy.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="rules")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, null=True, blank=True)
    site = models.ForeignKey(Site, on_delete=models.PROTECT, null=True, blank=True)
    os_user = models.CharField(max_length=100, blank=True, default="")
    cluster = models.CharField(max_length=100, blank=True, default="")
    account = models.CharField(max_length=100, blank=True, default="")
    namespace = models.CharField(max_length=100, blank=True, default="")
    path_prefix = models.CharField(max_length=256, blank=True, default="")
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="rules"
    )
    person = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="rules"
    )
    from_hour = models.BigIntegerField()
    to_hour = models.BigIntegerField(null=True, blank=True)
    note = models.CharField(max_length=200, blank=True, default="")
    created_by = models.ForeignKey(
        User, db_column="made_by_id", on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_us = models.BigIntegerField(db_column="made_us")
    withdrawn_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(to_hour__isnull=True) | Q(to_hour__gt=F("from_hour")),
                name="rule_not_empty",
            ),
            models.CheckConstraint(
                condition=Q(project__isnull=False) | Q(person__isnull=False),
                name="rule_has_a_target",
            ),
            models.CheckConstraint(
                condition=Q(node__isnull=False)
                | Q(site__isnull=False)
                | ~Q(os_user="")
                | ~Q(account="")
                | ~Q(namespace="")
                | ~Q(path_prefix=""),
                name="rule_asks_for_something",
            ),
            models.CheckConstraint(
                condition=~Q(cluster__gt="", account="", namespace=""), name="cluster_with_account"
            ),
        ]

    def __str__(self) -> str:
        return f"rule {self.pk}"


class Claim(models.Model):
    """The energy of a consumer over ``[from_hour, to_hour)``, claimed for a project. ``act``
    groups the rows of one claim.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="claims")
    act = models.UUIDField(db_index=True)
    consumer = models.ForeignKey(Consumer, on_delete=models.CASCADE, related_name="claims")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, null=True, blank=True)
    from_hour = models.BigIntegerField()
    to_hour = models.BigIntegerField()
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="claims")
    created_by = models.ForeignKey(
        User, db_column="made_by_id", on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_us = models.BigIntegerField(db_column="made_us")
    undone_us = models.BigIntegerField(null=True, blank=True)
    undone_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(to_hour__gt=F("from_hour")), name="claim_not_empty"),
            models.UniqueConstraint(
                fields=["act", "consumer", "node", "from_hour"],
                name="claim_once_per_act",
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        return f"claim of {self.consumer_id} for {self.project_id}"


class Attribution(models.Model):
    """Derived: the energy of a consumer on a node over ``[from_hour, to_hour)`` is charged to a
    project and person.

    ``os_user`` and ``program`` describe the consumer if known. The spans of a consumer on a node
    are disjoint and cover all time, so that a join never counts energy twice.
    """

    consumer = models.ForeignKey(
        Consumer, on_delete=models.CASCADE, related_name="attributions", db_index=False
    )
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="attributions")
    from_hour = models.BigIntegerField()
    to_hour = models.BigIntegerField()
    project = models.ForeignKey(
        Project, on_delete=models.PROTECT, null=True, blank=True, related_name="attributions"
    )
    person = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, blank=True, related_name="attributions"
    )
    way = models.CharField(max_length=16, choices=AttributionSource, blank=True, default="")
    os_user = models.CharField(max_length=100, blank=True, default="")
    program = models.CharField(max_length=256, blank=True, default="")
    rule = models.ForeignKey(AttributionRule, on_delete=models.CASCADE, null=True, blank=True)
    claim = models.ForeignKey(Claim, on_delete=models.CASCADE, null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["consumer", "node", "from_hour"], name="attribution_once"
            ),
            models.CheckConstraint(
                condition=Q(to_hour__gt=F("from_hour")), name="attribution_not_empty"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.consumer_id} on {self.node_id}: {self.way or 'unattributed'}"
