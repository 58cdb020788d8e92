"""Site, node, device, and where a node stood when. Dated facts take effect on whole UTC hours."""

from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Lab
from apps.fleet.choices import DeviceKind, SiteKind


class Site(models.Model):
    """A place with a grid zone and a PUE history. ``zone`` is '' until somebody chooses it."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="sites")
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=16, choices=SiteKind)
    zone = models.CharField(max_length=40, blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["lab", "name"], name="site_name_once_per_lab")]

    def __str__(self) -> str:
        return self.name


class SitePue(models.Model):
    """Power usage effectiveness of a site from a whole UTC hour on, until the next."""

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="pues")
    from_hour = models.BigIntegerField()
    pue_ppm = models.BigIntegerField()
    note = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["site", "from_hour"], name="pue_once_per_hour"),
            models.CheckConstraint(condition=Q(pue_ppm__gte=1_000_000), name="pue_at_least_one"),
        ]

    def __str__(self) -> str:
        return f"PUE {self.pue_ppm / 1e6:.3f}"


class Node(models.Model):
    """A host. ``static_power_mw`` is the power of everything but its metered devices; null = nobody knows."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="nodes")
    uuid = models.UUIDField(unique=True)
    hostname = models.CharField(max_length=255)
    static_power_mw = models.BigIntegerField(null=True, blank=True)
    virtual = models.BooleanField(default=False)
    facts = models.JSONField(default=dict, blank=True)
    enrolled_us = models.BigIntegerField()
    last_push_us = models.BigIntegerField(null=True, blank=True)
    skew_us = models.BigIntegerField(null=True, blank=True)
    health = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(static_power_mw__isnull=True) | Q(static_power_mw__gte=0), name="static_power_not_negative"
            )
        ]

    def __str__(self) -> str:
        return self.hostname


class Placement(models.Model):
    """A node stood at a site over ``[from_hour, to_hour)``; an open end is null."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="placements")
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="placements")
    from_hour = models.BigIntegerField()
    to_hour = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(to_hour__isnull=True) | Q(to_hour__gt=F("from_hour")), name="placement_not_empty"
            ),
            models.UniqueConstraint(fields=["node"], condition=Q(to_hour__isnull=True), name="one_open_placement_per_node"),
        ]

    def __str__(self) -> str:
        return f"{self.node} at {self.site}"


class Device(models.Model):
    """A thing with a meter. ``node`` is where it was last seen; each window keeps the node it came from."""

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="devices")
    key = models.CharField(max_length=255)
    kind = models.CharField(max_length=16, choices=DeviceKind)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="devices")
    name = models.CharField(max_length=200, blank=True, default="")
    facts = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["lab", "key"], name="device_key_once_per_lab")]

    def __str__(self) -> str:
        return self.name or self.key
