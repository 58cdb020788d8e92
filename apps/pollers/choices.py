"""Choices of asset sources."""

from django.db.models import TextChoices


class System(TextChoices):
    """Programs whose hardware lists can be polled."""

    NETBOX = "netbox", "NetBox"
    SNIPE_IT = "snipe_it", "Snipe-IT"
    GLPI = "glpi", "GLPI"


class Policy(TextChoices):
    """What a poll does with new and changed rows. Vanished rows are only listed."""

    PROPOSE = "propose", "Propose: a person reviews new and changed rows"
    APPLY = "apply", "Apply: register new rows and update details"


class Act(TextChoices):
    """Audit actions on asset sources."""

    ADDED = "asset_source.added", "Asset source added"
    CHANGED = "asset_source.changed", "Asset source changed"
    REMOVED = "asset_source.removed", "Asset source removed"
    HALTED = "asset_source.halted", "Poll of asset source stopped"
    LOSS_ACCEPTED = "asset_source.loss_accepted", "Loss of rows accepted"
