"""Receivers of artifacts."""

from typing import Any

from django.dispatch import receiver

from apps.accounts.models import Lab
from apps.accounts.signals import names_replaced
from apps.artifacts.models import Copy
from apps.artifacts.services.copies import location_key


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
