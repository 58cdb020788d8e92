"""Who may see a person's energy: the whole table."""

import pytest

from apps.accounts.choices import PersonView, Role
from apps.accounts.selectors import may_see_person

OTHERS = {
    #              viewer member pi     admin
    PersonView.OWN: (False, False, False, False),
    PersonView.PI: (False, False, True, True),
    PersonView.LAB: (True, True, True, True),
}


@pytest.mark.parametrize("policy", PersonView.values)
@pytest.mark.parametrize("role", Role.values)
def test_others_by_policy_and_role(policy: str, role: str) -> None:
    assert (
        may_see_person(role, policy, own=False)
        is OTHERS[PersonView(policy)][Role.values.index(role)]
    )


@pytest.mark.parametrize("policy", PersonView.values)
@pytest.mark.parametrize("role", Role.values)
def test_everyone_sees_their_own(policy: str, role: str) -> None:
    assert may_see_person(role, policy, own=True)


@pytest.mark.parametrize(
    ("role", "policy"), [("", "lab"), ("owner", "lab"), ("admin", ""), ("admin", "all"), ("", "pi")]
)
def test_what_is_not_known_is_not_shown(role: str, policy: str) -> None:
    assert not may_see_person(role, policy, own=False)
