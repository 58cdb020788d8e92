"""Sites, nodes, devices and dated facts. Dated facts take effect at whole UTC hours."""

from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Lab, OneTimeCode, Project, Token, User
from apps.fleet.choices import Control, DeviceKind, EnrolmentState, PriceKind, SiteKind
from apps.fleet.tariffs import range_text


class Site(models.Model):
    """A location of nodes. Grid zone, PUE, electricity price and nodes are dated facts.

    ``control``: who controls the electricity, for the whole history. A new contract needs a new
    site.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="sites")
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=16, choices=SiteKind)
    control = models.CharField(max_length=16, choices=Control, default=Control.OWN)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "name"], name="site_name_once_per_lab")
        ]

    def __str__(self) -> str:
        return self.name


# A fact that is not withdrawn.
ACTIVE = Q(withdrawn_us__isnull=True)


class DatedFact(models.Model):
    """A fact that is valid from a whole UTC hour until the next fact of its history.

    No end is stored, so a history has neither gaps nor overlaps. Facts are never edited. A wrong
    fact is withdrawn and stays in the table with its author. ``recorded_us`` null: recorded by a
    version without this column.
    """

    from_hour = models.BigIntegerField()
    recorded_us = models.BigIntegerField(null=True, blank=True)
    recorded_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    withdrawn_us = models.BigIntegerField(null=True, blank=True)
    withdrawn_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        abstract = True


_IN_TIME = Q(from_hour__gte=0)


class SiteZone(DatedFact):
    """The grid zone of a site from an hour on. Without a zone, emissions are unknown."""

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="zones")
    zone = models.CharField(max_length=40)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["site", "from_hour"], condition=ACTIVE, name="zone_once_per_hour"
            ),
            models.CheckConstraint(condition=_IN_TIME, name="zone_not_before_time"),
            models.CheckConstraint(condition=~Q(zone=""), name="zone_not_empty"),
        ]

    def __str__(self) -> str:
        return self.zone


class SitePue(DatedFact):
    """Power usage effectiveness of a site from an hour on."""

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="pues")
    pue_ppm = models.BigIntegerField()
    note = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["site", "from_hour"], condition=ACTIVE, name="pue_once_per_hour"
            ),
            models.CheckConstraint(condition=_IN_TIME, name="pue_not_before_time"),
            models.CheckConstraint(condition=Q(pue_ppm__gte=1_000_000), name="pue_at_least_one"),
        ]

    def __str__(self) -> str:
        return f"PUE {self.pue_ppm / 1e6:.3f}"


class SitePrice(DatedFact):
    """Electricity prices of a site in millionths of ``currency`` (ISO 4217) per kWh.

    A flat price and a tariff are valid from an hour on. Hourly prices are valid in their hours only
    and precede both; several can begin in one hour. ``content``: of a tariff its time zone, its
    text and the 168 prices of its week; of hourly prices their file.
    """

    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="prices")
    kind = models.CharField(max_length=8, choices=PriceKind, default=PriceKind.FLAT)
    ucurrency_per_kwh = models.BigIntegerField(null=True, blank=True)  # of a flat price only
    currency = models.CharField(max_length=3)
    content = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["site", "from_hour"],
                condition=ACTIVE & ~Q(kind="hourly"),
                name="price_once_per_hour",
            ),
            models.CheckConstraint(condition=_IN_TIME, name="price_not_before_time"),
            models.CheckConstraint(
                condition=Q(ucurrency_per_kwh__gte=0), name="price_not_negative"
            ),
            models.CheckConstraint(
                condition=Q(kind="flat", ucurrency_per_kwh__isnull=False)
                | ~Q(kind="flat") & Q(ucurrency_per_kwh__isnull=True),
                name="price_fits_its_kind",
            ),
            models.CheckConstraint(condition=~Q(currency=""), name="price_has_a_currency"),
        ]

    def __str__(self) -> str:
        return f"{self.amount_text} {self.currency}/kWh"

    @property
    def amount_text(self) -> str:
        """Return the price, or the lowest and highest of its hours: '0.22 to 0.34'."""
        return range_text(*(self.content.get("range") or [self.ucurrency_per_kwh] * 2))


class SitePriceHour(models.Model):
    """The price of one UTC hour of hourly prices. Never edited. It can be below zero."""

    price = models.ForeignKey(
        SitePrice, on_delete=models.CASCADE, db_index=False, related_name="hours"
    )
    hour = models.BigIntegerField()
    ucurrency_per_kwh = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["price", "hour"], name="site_price_hour_once")
        ]

    def __str__(self) -> str:
        return f"{self.hour}: {self.ucurrency_per_kwh}"


class Node(models.Model):
    """A machine with a collector. ``static_power_mw``: power outside the device meters, null if
    unknown.

    ``hostname``: as the collector reports it. ``display_name``: given by a person, '' for none.
    ``retired_us``: since when the node is not used any more; its history stays.
    ``start_problem``: why its collector does not measure, '' after an upload; ``start_problem_us``:
    when that was first reported.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="nodes")
    uuid = models.UUIDField(unique=True)
    hostname = models.CharField(max_length=255)
    display_name = models.CharField(max_length=100, blank=True, default="")
    static_power_mw = models.BigIntegerField(null=True, blank=True)
    virtual = models.BooleanField(default=False)
    facts = models.JSONField(default=dict, blank=True)
    enrolled_us = models.BigIntegerField()
    retired_us = models.BigIntegerField(null=True, blank=True)
    last_push_us = models.BigIntegerField(null=True, blank=True)
    skew_us = models.BigIntegerField(null=True, blank=True)
    health = models.JSONField(default=dict, blank=True)
    start_problem = models.CharField(max_length=300, blank=True, default="")
    start_problem_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(static_power_mw__isnull=True) | Q(static_power_mw__gte=0),
                name="static_power_not_negative",
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """Return the name for pages and messages."""
        return self.display_name or self.hostname


class Placement(DatedFact):
    """A node at a site from an hour until its next placement. The first placement covers all
    earlier time.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="placements")
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="placements")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node", "from_hour"], condition=ACTIVE, name="placement_once_per_hour"
            ),
            models.CheckConstraint(condition=_IN_TIME, name="placement_not_before_time"),
        ]

    def __str__(self) -> str:
        return f"{self.node} at {self.site}"


class EnrolmentPlace(models.Model):
    """The site of the node of an enrolment code. Without one: the first site of the lab."""

    code = models.OneToOneField(
        OneTimeCode, on_delete=models.CASCADE, primary_key=True, related_name="place"
    )
    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="+")

    def __str__(self) -> str:
        return f"{self.code} for {self.site}"


class Device(models.Model):
    """A device with a meter. ``node``: the last node that reported it. Each window has its own
    node.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="devices")
    key = models.CharField(max_length=255)
    kind = models.CharField(max_length=16, choices=DeviceKind)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="devices")
    name = models.CharField(max_length=200, blank=True, default="")
    facts = models.JSONField(default=dict, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["lab", "key"], name="device_key_once_per_lab")
        ]

    def __str__(self) -> str:
        return self.name or self.key


class FleetToken(models.Model):
    """A token that enrols new nodes at a site, a limited number of times. It can do nothing else.

    Stored as a keyed digest. ``project``: the nodes of the token get a rule for it.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="fleet_tokens")
    public_id = models.CharField(max_length=8, unique=True)
    digest = models.CharField(max_length=64)
    pepper = models.PositiveSmallIntegerField()
    site = models.ForeignKey(Site, on_delete=models.CASCADE, related_name="+")
    project = models.ForeignKey(
        Project, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    needs_approval = models.BooleanField(default=False)
    max_uses = models.PositiveIntegerField()
    uses_left = models.PositiveIntegerField()
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    created_us = models.BigIntegerField()
    expires_us = models.BigIntegerField()
    revoked_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(uses_left__lte=F("max_uses")), name="fleet_token_uses_bounded"
            ),
            models.CheckConstraint(
                condition=Q(expires_us__gt=F("created_us")),
                name="fleet_token_ends_after_it_begins",
            ),
        ]

    def __str__(self) -> str:
        return f"fleet token {self.public_id}"


class FleetEnrolment(models.Model):
    """A node that a fleet token enrolled, or that waits for approval, one row per UUID.

    ``node_token``: the token that the node received. It has no permission until the approval.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    fleet_token = models.ForeignKey(FleetToken, on_delete=models.CASCADE, related_name="enrolments")
    node_uuid = models.UUIDField()
    hostname = models.CharField(max_length=255)
    facts = models.JSONField(default=dict, blank=True)
    state = models.CharField(max_length=16, choices=EnrolmentState)
    created_us = models.BigIntegerField()
    node_token = models.ForeignKey(Token, on_delete=models.SET_NULL, null=True, related_name="+")
    decided_us = models.BigIntegerField(null=True, blank=True)
    decided_by = models.ForeignKey(
        User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["lab", "node_uuid"], name="fleet_enrolment_once_per_node"
            )
        ]

    def __str__(self) -> str:
        return f"{self.hostname}: {self.state}"


class RefusedEnrolment(models.Model):
    """A known UUID that was presented with a fleet token, until a manager decides, one row per
    UUID. ``allowed_until_us``: it may be enrolled again once until then.
    """

    lab = models.ForeignKey(Lab, on_delete=models.CASCADE, related_name="+")
    fleet_token = models.ForeignKey(FleetToken, on_delete=models.CASCADE, related_name="+")
    node_uuid = models.UUIDField()
    hostname = models.CharField(max_length=255)
    attempts = models.PositiveIntegerField(default=1)
    created_us = models.BigIntegerField()
    last_us = models.BigIntegerField()
    allowed_until_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["lab", "node_uuid"], name="refused_enrolment_once_per_node"
            )
        ]

    def __str__(self) -> str:
        return f"{self.hostname}: refused"
