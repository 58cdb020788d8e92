"""Visibility of personal figures: one's own always, those of others by the lab's policy."""

from dataclasses import dataclass

from django.urls import reverse

from apps.accounts.models import Lab, User
from apps.accounts.selectors import may_see_person, role_in
from apps.attribution.models import AttributionRule
from apps.attribution.precedence import user_and_program
from apps.carbon.figures.figure_query import HIDDEN, FigureQuery
from apps.core.errors import Forbidden
from apps.runs.models import Run

ANONYMISED = "someone in your lab"


@dataclass(frozen=True)
class Visibility:
    """Personal figures that one visitor may see."""

    everybody: bool
    person_id: int | None
    os_users: frozenset[str]

    def of_os_user(self, os_user: str) -> bool:
        """Return whether figures of an OS user are visible. An empty name is always visible."""
        return self.everybody or not os_user or os_user in self.os_users

    def of_person(self, person_id: int | None) -> bool:
        """Return whether figures of a person are visible."""
        return self.everybody or person_id is None or person_id == self.person_id

    def user_of(self, run: Run) -> str:
        """Return the OS user of a run, ANONYMISED if it is not visible."""
        own = run.user_id is not None and run.user_id == self.person_id
        return run.os_user if own or self.of_os_user(run.os_user) else ANONYMISED

    def consumer(self, key: str) -> str:
        """Return a consumer's key. User and program are anonymised if the user is not visible."""
        return (
            key
            if self.of_os_user(user_and_program(key)[0])
            else f"{key.partition(':')[0]}:{ANONYMISED}"
        )

    def check(self, query: FigureQuery) -> None:
        """Raise Forbidden if a query names a person or OS user that is not visible."""
        seen = query.subject_kind != "person" or self.of_person(int(query.subject_key))
        seen = seen and self.of_os_user(user_and_program(query.use)[0])
        if not seen or (query.os_user != HIDDEN and not self.of_os_user(query.os_user)):
            raise Forbidden(
                "What single persons used is shown to themselves, and to others as the lab has "
                "settled "
                f"(see {reverse('people')}).",
                hint="Ask for your own figures, or for a project's.",
            )


def visibility_for(lab: Lab, user: User | None) -> Visibility:
    """Return the visibility for a user in a lab. Without a user (token), no person is visible.

    Two queries.
    """
    if user is None:
        return Visibility(False, None, frozenset())
    if may_see_person(role_in(lab, user), lab.person_view, own=False):
        return Visibility(True, user.pk, frozenset())
    rules = AttributionRule.objects.filter(lab=lab, person=user, withdrawn_us__isnull=True)
    return Visibility(
        False, user.pk, frozenset(rules.exclude(os_user="").values_list("os_user", flat=True))
    )
