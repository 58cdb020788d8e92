"""A lab with one person of each role."""

import pytest

from apps.accounts.choices import Role
from apps.accounts.models import User
from tests.api.conftest import add_person
from tests.builders import SmallLab, small_lab


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()


@pytest.fixture
def people(lab: SmallLab) -> dict[str, User]:
    """One person of each role; the admin is the owner."""
    return {
        Role.ADMIN: lab.owner,
        **{role: add_person(lab, role) for role in (Role.PI, Role.MEMBER, Role.VIEWER)},
    }
