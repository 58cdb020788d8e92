"""Receivers of artifacts."""

from typing import Any

from django.dispatch import receiver

from apps.accounts.models import Lab
from apps.accounts.signals import erasure_checked, names_replaced
from apps.artifacts.choices import OPEN_PLANS, ItemOutcome
from apps.artifacts.models import CleanupItem, Copy
from apps.artifacts.services.copies import location_key
from apps.core.erasure.names import ErasedNames, Reading
from apps.core.errors import Conflict


@receiver(names_replaced, dispatch_uid="artifacts.location_keys")
def update_location_keys(sender: Any, lab: Lab, **kwargs: Any) -> None:
    """Compute the keys of paths again in which a name was replaced, so that the next scan of the
    same files, whose paths get the same replacement, finds these copies.
    """
    copies = Copy.objects.filter(lab=lab, path__contains="erased-person-").select_related("node")
    for copy in copies:
        key = location_key(copy.node, copy.path)
        if key != copy.location_key:
            Copy.objects.filter(pk=copy.pk).update(location_key=key)


@receiver(erasure_checked, dispatch_uid="artifacts.open_plans")
def refuse_open_plans(sender: Any, lab: Lab, names: ErasedNames, **kwargs: Any) -> None:
    """Refuse an erasure that changes a path of an open cleanup plan: its files would not be found
    on the node.
    """
    items = CleanupItem.objects.filter(plan__lab=lab, plan__state__in=OPEN_PLANS, selected=True)
    trashed = CleanupItem.objects.filter(plan__lab=lab, outcome=ItemOutcome.TRASHED)
    for rows in (items, trashed):
        for path, plan in rows.values_list("copy__path", "plan__uuid").iterator(chunk_size=1000):
            if names.text(path, Reading.PATH) != path:
                raise Conflict(
                    "A cleanup plan contains files in the home folder of this person.",
                    hint=f"Complete or withdraw it first, and empty its trash: plan {plan}.",
                )
