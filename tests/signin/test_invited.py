"""Who gets in by invitation, and that nothing is left behind of whoever does not."""

from dataclasses import replace
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.core.context import request_context
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.models import SocialAccount, SocialLogin
from django.contrib.messages.storage.fallback import FallbackStorage
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import CommandError, call_command
from django.db import IntegrityError
from django.http import HttpRequest
from django.test import RequestFactory

from apps.accounts.audit import with_names
from apps.accounts.choices import Role
from apps.accounts.models import AuditEntry, Invitation, Membership, User
from apps.accounts.oidc.adapter import Identities, verify_email_address
from apps.accounts.oidc.provider import StrictProvider, configured_app
from apps.accounts.services.invitations import invite as make_invitation
from apps.accounts.services.invitations import revoke_invitation
from apps.core.clock import now_us
from labcarbon.env import Oidc
from tests.builders import SmallLab, small_lab

ISSUER = "https://id.example.org/realms/lab"


def invite(lab: SmallLab, mail: str) -> None:
    """Have the lab's owner invite whoever has this address, as a member."""
    make_invitation(lab=lab.lab, role=Role.MEMBER, by=lab.owner, now=now_us(), email=mail)


@pytest.fixture
def lab(db: None, settings: Any) -> SmallLab:
    oidc = Oidc(issuer=ISSUER, client_id="labcarbon", client_secret="s", name="Example University")
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, oidc=oidc)
    return small_lab()


def _request() -> HttpRequest:
    request = RequestFactory().get("/accounts/oidc/callback/")
    request.session = SessionStore()
    request._messages = FallbackStorage(request)  # type: ignore[attr-defined]
    return request


def _come(**facts: Any) -> User:
    """Come back from the provider with verified facts; return who one is here."""
    request = _request()
    with request_context(request):
        provider = StrictProvider(request, app=configured_app())
        usual = {
            "sub": "u-1",
            "email": "New@Lab.Example",
            "email_verified": True,
            "preferred_username": "new",
        }
        login = provider.sociallogin_from_response(request, {**usual, **facts})
        login.state = {"process": "login"}
        login.lookup()
        Identities(request).pre_social_login(request, login)
        assert isinstance(login.user, User)
        return login.user


def _refusal(**facts: Any) -> str:
    with pytest.raises(ImmediateHttpResponse) as caught:
        _come(**facts)
    assert caught.value.response.status_code == 403
    return str(caught.value.response.content.decode())


def _left_behind() -> tuple[int, ...]:
    return tuple(kind.objects.count() for kind in (User, SocialAccount, EmailAddress, Membership))


def test_whoever_is_invited_gets_an_account_a_link_and_a_place(lab: SmallLab) -> None:
    invite(lab, "new@lab.example")
    user = _come(name="Nia <script>", preferred_username="Nia Okafor")
    assert Membership.objects.get(user=user).role == Role.MEMBER
    assert not user.has_usable_password()
    assert user.email == "new@lab.example"
    assert user.username.startswith("nia")
    assert SocialAccount.objects.get(user=user).uid == "u-1"
    assert _come() == user, "the second time it is the same person"


def test_it_is_in_the_log_of_the_lab_and_works_once(lab: SmallLab) -> None:
    invite(lab, "new@lab.example")
    user = _come()
    entry = AuditEntry.objects.get(action="invitation.accepted")
    assert (entry.user_id, with_names(entry).actor) == (user.pk, user.username)
    assert "ask an admin to invite second@lab.example" in _refusal(
        sub="u-2", email="second@lab.example"
    )


def test_a_revoked_invitation_lets_nobody_in(lab: SmallLab) -> None:
    invite(lab, "new@lab.example")
    revoke_invitation(lab=lab.lab, pk=Invitation.objects.get().pk, by=lab.owner, now=now_us())
    before = _left_behind()
    assert "ask an admin to invite" in _refusal()
    assert _left_behind() == before


def test_a_user_name_that_is_taken_takes_nobody_elses_account(lab: SmallLab) -> None:
    invite(lab, "new@lab.example")
    user = _come(preferred_username=lab.owner.username)
    assert user != lab.owner
    assert user.username != lab.owner.username


@pytest.mark.parametrize(
    "facts", [{"preferred_username": "\x00"}, {"name": "a\x00b " * 200}, {"preferred_username": ""}]
)
def test_odd_names_break_nothing(lab: SmallLab, facts: dict[str, str]) -> None:
    invite(lab, "new@lab.example")
    assert _come(**facts).username


def test_nothing_stays_of_whoever_is_not_invited(lab: SmallLab) -> None:
    invite(lab, "somebody.else@lab.example")
    before = _left_behind()
    assert "ask an admin to invite new@lab.example" in _refusal()
    assert _left_behind() == before


def test_an_unverified_address_takes_up_no_invitation(lab: SmallLab) -> None:
    invite(lab, "new@lab.example")
    before = _left_behind()
    for verified in (False, None, "false", "no", 0, [], {}, "True "):
        assert "has not verified" in _refusal(email_verified=verified)
    assert "did not send your e-mail address" in _refusal(email=None)
    assert _left_behind() == before
    assert _come(email_verified="true")


def test_an_account_with_the_address_of_the_invitation_is_not_taken_over(lab: SmallLab) -> None:
    """The invitation makes a new account: nobody has said that the address in the old one is
    right.
    """
    old = User.objects.create_user("squatter", email="new@lab.example", password="mine")
    invite(lab, "new@lab.example")
    assert _come() != old
    assert not SocialAccount.objects.filter(user=old).exists()


def test_whoever_is_in_one_lab_joins_another_that_invites_them(lab: SmallLab) -> None:
    verify_email_address(user=lab.owner, mail="new@lab.example")
    other = small_lab(name="Other")
    invite(other, "new@lab.example")
    assert _come() == lab.owner
    assert Membership.objects.filter(user=lab.owner).count() == 2


def test_a_closed_account_takes_up_no_invitation(lab: SmallLab) -> None:
    user = User.objects.create_user("closed", is_active=False)
    verify_email_address(user=user, mail="new@lab.example")
    invite(lab, "new@lab.example")
    assert _come() == user
    assert not Membership.objects.filter(user=user).exists()


def test_whoever_is_linked_and_lost_their_place_may_be_invited_again(lab: SmallLab) -> None:
    user = User.objects.create_user("back")
    verify_email_address(user=user, mail="New@Lab.Example")
    assert _come() == user
    assert not Membership.objects.filter(user=user).exists()
    invite(lab, "new@lab.example")
    assert _come() == user
    assert Membership.objects.filter(user=user).exists()


def test_an_admin_stands_for_an_address(lab: SmallLab, capsys: pytest.CaptureFixture[str]) -> None:
    ada, bob = (User.objects.create_user(name) for name in ("ada", "bob"))
    call_command("verify_email", "ada", " New@Lab.Example ")
    assert "may sign in as ada" in capsys.readouterr().out
    call_command("verify_email", "ada", "ada@other.example")
    assert _come() == _come(sub="u-2", email="ada@other.example") == ada
    for name, mail, why in (
        ("bob", "new@lab.example", "the confirmed address of ada"),
        ("bob", "x", "not an e-mail"),
        ("cy", "c@d.e", "No user"),
    ):
        with pytest.raises(CommandError, match=why):
            call_command("verify_email", name, mail)
    assert not EmailAddress.objects.filter(user=bob).exists()


def test_the_same_person_in_two_windows_at_once(
    lab: SmallLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify_email_address(user=lab.owner, mail="new@lab.example")

    def beaten(*arguments: Any) -> None:
        raise IntegrityError

    monkeypatch.setattr(SocialLogin, "connect", beaten)
    with pytest.raises(ImmediateHttpResponse) as caught:
        _come()
    assert caught.value.response["Location"] == "/accounts/login/"


def test_the_same_subject_at_another_provider_is_another_person(
    lab: SmallLab, settings: Any
) -> None:
    user = User.objects.create_user("ada")
    verify_email_address(user=user, mail="ada@lab.example")
    assert _come(email="ada@lab.example") == user
    moved = replace(settings.ENVIRONMENT.oidc, issuer="https://other.example.org")
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, oidc=moved)
    assert "ask an admin to invite new@lab.example" in _refusal()
