"""What tests of pages share: a lab, and clients of its owner, a viewer and an outsider."""

import pytest
from django.test import Client

from apps.accounts.choices import Role
from apps.accounts.models import Membership, User
from apps.accounts.services.labs import create_lab
from tests.builders import T0, SmallLab, small_lab


@pytest.fixture
def lab(db: None) -> SmallLab:
    return small_lab()


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def owner(lab: SmallLab) -> Client:
    return client_of(lab.owner)


@pytest.fixture
def viewer(lab: SmallLab) -> Client:
    user = User.objects.create_user(username="viewer")
    Membership.objects.create(lab=lab.lab, user=user, role=Role.VIEWER)
    return client_of(user)


@pytest.fixture
def member(lab: SmallLab) -> Client:
    user = User.objects.create_user(username="member")
    Membership.objects.create(lab=lab.lab, user=user, role=Role.MEMBER)
    return client_of(user)


@pytest.fixture
def outsider(lab: SmallLab) -> Client:
    """The owner of another lab on the same server."""
    user = User.objects.create_user(username="charlie")
    create_lab(name="Other Lab", time_zone="UTC", owner=user, now=T0)
    return client_of(user)
