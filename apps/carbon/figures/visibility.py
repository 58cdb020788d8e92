"""Whose energy a visitor may see: their own always, other people's by the lab's policy."""

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
    """What of single persons one visitor may see."""

    everybody: bool
    person_id: int | None
    os_users: frozenset[str]

    def of_os_user(self, os_user: str) -> bool:
        """Return whether what an OS user used may be seen; nobody's name is nobody's secret."""
        return self.everybody or not os_user or os_user in self.os_users

    def of_person(self, person_id: int | None) -> bool:
        """Return whether what a person used may be seen."""
        return self.everybody or person_id is None or person_id == self.person_id

    def user_of(self, run: Run) -> str:
        """Return the OS user of a run as the visitor may know it: SOMEBODY where it is not theirs to know."""
        own = run.user_id is not None and run.user_id == self.person_id
        return run.os_user if own or self.of_os_user(run.os_user) else ANONYMISED

    def consumer(self, key: str) -> str:
        """Return a consumer's key as the visitor may know it: the user and program of somebody else are left out."""
        return key if self.of_os_user(user_and_program(key)[0]) else f"{key.partition(':')[0]}:{ANONYMISED}"

    def check(self, query: FigureQuery) -> None:
        """Raise Forbidden for a figure of somebody whom the visitor may not see."""
        seen = query.subject_kind != "person" or self.of_person(int(query.subject_key))
        seen = seen and self.of_os_user(user_and_program(query.use)[0])
        if not seen or (query.os_user != HIDDEN and not self.of_os_user(query.os_user)):
            raise Forbidden(
                "What single persons used is shown to themselves, and to others as the lab has settled "
                f"(see {reverse('people')}).",
                hint="Ask for your own figures, or for a project's.",
            )


def visibility_for(lab: Lab, user: User | None) -> Visibility:
    """Return what a person may see of single persons in a lab; a token without a person sees nobody. Two queries."""
    if user is None:
        return Visibility(False, None, frozenset())
    if may_see_person(role_in(lab, user), lab.person_view, own=False):
        return Visibility(True, user.pk, frozenset())
    rules = AttributionRule.objects.filter(lab=lab, person=user, withdrawn_us__isnull=True)
    return Visibility(False, user.pk, frozenset(rules.exclude(os_user="").values_list("os_user", flat=True)))
