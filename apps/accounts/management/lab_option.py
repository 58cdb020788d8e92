"""The option ``--lab`` of commands."""

from django.core.management.base import CommandError
from django.urls import reverse

from apps.accounts.models import Lab


def selected_lab(slug: str | None) -> Lab:
    """Return the lab named by its slug, or the only one. Raises CommandError, which lists the
    labs.
    """
    labs = list((Lab.objects.filter(slug=slug) if slug else Lab.objects.all())[:2])
    if len(labs) == 1:
        return labs[0]
    known = ", ".join(Lab.objects.values_list("slug", flat=True)[:20])
    raise CommandError(
        f"Name the lab with --lab. Known: {known}."
        if known
        else f"There is no lab. Run `make setup LAB=… ZONE=DE`, or open {reverse('setup')}."
    )
