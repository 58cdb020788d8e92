"""Reads of accounts."""

from apps.accounts.choices import SCOPES_OF_ROLE
from apps.accounts.models import Lab, Membership, Project, User
from apps.core.errors import Forbidden


def lab_of_user(user: User) -> tuple[Lab, frozenset[str]]:
    """Return the lab a person works in and what they may do there."""
    membership = Membership.objects.select_related("lab").filter(user=user).order_by("id").first()
    if membership is None:
        raise Forbidden("You are not a member of a lab.", hint="Ask an admin of your lab to add you.")
    return membership.lab, frozenset(SCOPES_OF_ROLE[membership.role])


def project_by_slug(lab: Lab, slug: str) -> Project | None:
    """Return the lab's project ``slug``, or None."""
    return Project.objects.filter(lab=lab, slug=slug).first()


def set_up() -> bool:
    """Return whether the first-run wizard is done."""
    return Lab.objects.exists()
