"""Writes of saved views of the list of runs. Those of a lab belong to its managers."""

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import Lab, User
from apps.core.errors import Conflict, InvalidInput
from apps.runs.choices import Act
from apps.runs.models import SavedView

MOST_VIEWS = 50  # of a person, and of a lab
_MAX_QUERY = 2000


@transaction.atomic
def save_view(
    *, lab: Lab, owner: User | None, by: User, name: str, query: str, is_default: bool, now: int
) -> SavedView:
    """Save a view, or replace the one of this name. ``owner`` None: of the lab. Raises InvalidInput
    and Conflict.
    """
    audit.hold(lab)
    if len(query) > _MAX_QUERY:
        raise InvalidInput("This view has too many filters.", field="name", hint="Remove some.")
    views = SavedView.objects.filter(lab=lab, owner=owner)
    if not views.filter(name=name).exists() and views.count() >= MOST_VIEWS:
        raise Conflict(
            f"There are {MOST_VIEWS} views already.", field="name", hint="Delete one first."
        )
    if is_default:
        views.update(is_default=False)
    view, _ = SavedView.objects.update_or_create(
        lab=lab,
        owner=owner,
        name=name,
        defaults={"query": query, "is_default": is_default, "created_us": now},
    )
    if owner is None:
        details = {"query": query, "default": is_default}
        audit.record(lab=lab, by=by, action=Act.VIEW_SAVED, subject=name, details=details, now=now)
    return view


@transaction.atomic
def delete_view(*, view: SavedView, by: User, now: int) -> None:
    """Delete a view."""
    if view.owner_id is None:
        details = {"query": view.query}
        audit.record(
            lab=view.lab,
            by=by,
            action=Act.VIEW_DELETED,
            subject=view.name,
            details=details,
            now=now,
        )
    view.delete()
