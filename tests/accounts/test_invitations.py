"""Invitations: used once, by link or by verified address, and only as long as their maker could
still make them.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from apps.accounts.audit import verify, with_names
from apps.accounts.choices import Role
from apps.accounts.models import AuditEntry, Invitation, Membership, User
from apps.accounts.services.invitations import (
    LIFE_US,
    accept_by_email,
    accept_invitation,
    invitations_for_email,
    invite,
    revoke_invitation,
)
from apps.accounts.services.members import change_role, remove_member
from apps.core.errors import Conflict, Forbidden, InvalidInput, NotFound
from tests.accounts.concurrent_calls import race
from tests.builders import T0, SmallLab, small_lab
from tests.environment import installation_environment
from tests.services.data_directories import prepare_data_dir

People = dict[str, User]


def _acts(lab: SmallLab, action: str) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(lab=lab.lab, action=action))


def test_it_works_once_and_the_log_says_so(lab: SmallLab) -> None:
    made, code = invite(
        lab=lab.lab, role=Role.MEMBER, by=lab.owner, now=T0, email=" Ada@Example.org ", note="Ada"
    )
    assert (made.email, made.expires_us) == ("ada@example.org", T0 + LIFE_US)
    ada = User.objects.create_user("ada")
    joined = accept_invitation(code=code.lower(), user=ada, now=T0 + 5)
    assert (joined.lab, joined.role, joined.joined_us) == (lab.lab, Role.MEMBER, T0 + 5)
    made.refresh_from_db()
    assert (made.accepted_us, made.accepted_by) == (T0 + 5, ada)
    [row] = _acts(lab, "invitation.accepted")
    named = with_names(row)
    assert (named.actor, named.details) == (
        "ada",
        {"role": "member", "invited_by": lab.owner.username},
    )
    assert len(_acts(lab, "invitation.made")) == 1
    with pytest.raises(InvalidInput):
        accept_invitation(code=code, user=User.objects.create_user("bob"), now=T0 + 6)


def test_no_live_code_is_stored(lab: SmallLab) -> None:
    made, code = invite(lab=lab.lab, role=Role.MEMBER, by=lab.owner, now=T0)
    stored = str(list(Invitation.objects.values())) + str(list(AuditEntry.objects.values()))
    assert code not in stored
    assert code.replace("-", "") not in stored
    assert made.digest in stored


def test_wrong_used_expired_revoked_and_orphaned_get_one_answer(
    lab: SmallLab, people: People
) -> None:
    def made(role: str = Role.VIEWER, by: User = lab.owner) -> tuple[Invitation, str]:
        return invite(lab=lab.lab, role=role, by=by, now=T0)

    used, revoked, expired, orphan = made()[1], made(), made()[1], made(by=people["pi"])[1]
    accept_invitation(code=used, user=User.objects.create_user("first"), now=T0)
    revoke_invitation(lab=lab.lab, pk=revoked[0].pk, by=lab.owner, now=T0)
    Membership.objects.filter(user=people["pi"]).delete()
    answers = []
    for code, now in (
        ("WRONG", T0),
        ("", T0),
        (used, T0),
        (revoked[1], T0),
        (orphan, T0),
        (expired, T0 + LIFE_US),
    ):
        with pytest.raises(InvalidInput) as told:
            accept_invitation(
                code=code, user=User.objects.create_user(f"p-{len(answers)}"), now=now
            )
        answers.append(told.value.body())
    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["error"]["hint"]


MAY = {
    Role.ADMIN: {"viewer", "member", "pi", "admin"}, Role.PI: {"viewer", "member"},
    Role.MEMBER: set(), Role.VIEWER: set(),
}  # fmt: skip


@pytest.mark.parametrize("own", Role.values)
@pytest.mark.parametrize("offered", Role.values)
def test_nobody_invites_above_their_role(
    lab: SmallLab, people: People, own: str, offered: str
) -> None:
    if offered in MAY[Role(own)]:
        made, _ = invite(lab=lab.lab, role=offered, by=people[own], now=T0)
        assert made.role == offered
    else:
        with pytest.raises(Forbidden):
            invite(lab=lab.lab, role=offered, by=people[own], now=T0)
        assert not Invitation.objects.exists()


@pytest.mark.parametrize(
    ("role", "email"),
    [("owner", ""), ("", ""), ("viewer", "ada"), ("viewer", "a@b@c"), ("viewer", "@")],
)
def test_bad_input(lab: SmallLab, role: str, email: str) -> None:
    with pytest.raises(InvalidInput) as told:
        invite(lab=lab.lab, role=role, by=lab.owner, now=T0, email=email)
    assert told.value.hint
    assert not Invitation.objects.exists()


def test_somebody_of_another_lab_invites_nobody_here(lab: SmallLab) -> None:
    other = small_lab(name="Other Lab")
    with pytest.raises(Forbidden):
        invite(lab=lab.lab, role=Role.VIEWER, by=other.owner, now=T0)
    made, _ = invite(lab=lab.lab, role=Role.VIEWER, by=lab.owner, now=T0)
    with pytest.raises(NotFound):
        revoke_invitation(lab=other.lab, pk=made.pk, by=other.owner, now=T0)


def test_an_admin_does_not_come_back_by_an_invitation_of_their_own(
    lab: SmallLab, people: People
) -> None:
    change_role(lab=lab.lab, person=people["pi"], role=Role.ADMIN, by=lab.owner, now=T0)
    _, back_door = invite(lab=lab.lab, role=Role.ADMIN, by=people["pi"], now=T0)
    remove_member(lab=lab.lab, person=people["pi"], by=lab.owner, now=T0)
    with pytest.raises(InvalidInput):
        accept_invitation(code=back_door, user=people["pi"], now=T0)
    assert Invitation.objects.get().revoked_us == T0
    assert _acts(lab, "member.removed")[0].details["invitations_ended"] == 1


def test_a_demoted_admins_offers_shrink_to_what_they_may_offer(
    lab: SmallLab, people: People
) -> None:
    change_role(lab=lab.lab, person=people["viewer"], role=Role.ADMIN, by=lab.owner, now=T0)
    codes = {
        role: invite(lab=lab.lab, role=role, by=people["viewer"], now=T0)[1] for role in Role.values
    }
    change_role(lab=lab.lab, person=people["viewer"], role=Role.PI, by=lab.owner, now=T0)
    assert set(Invitation.objects.filter(revoked_us=None).values_list("role", flat=True)) == {
        "viewer",
        "member",
    }
    accept_invitation(code=codes["member"], user=User.objects.create_user("ada"), now=T0)


def test_a_member_does_not_use_up_an_invitation(lab: SmallLab, people: People) -> None:
    _, code = invite(lab=lab.lab, role=Role.ADMIN, by=lab.owner, now=T0)
    with pytest.raises(Conflict, match="already a member of Cell Lab"):
        accept_invitation(code=code, user=people["viewer"], now=T0)
    assert Membership.objects.get(user=people["viewer"]).role == Role.VIEWER
    assert (
        accept_invitation(code=code, user=User.objects.create_user("ada"), now=T0).role
        == Role.ADMIN
    )


def test_revoking(lab: SmallLab, people: People) -> None:
    made, _ = invite(lab=lab.lab, role=Role.PI, by=lab.owner, now=T0)
    for role in ("viewer", "member", "pi"):
        with pytest.raises(Forbidden):
            revoke_invitation(lab=lab.lab, pk=made.pk, by=people[role], now=T0)
    revoke_invitation(lab=lab.lab, pk=made.pk, by=lab.owner, now=T0 + 1)
    with pytest.raises(Conflict):
        revoke_invitation(lab=lab.lab, pk=made.pk, by=lab.owner, now=T0 + 2)
    assert len(_acts(lab, "invitation.revoked")) == 1


def test_a_verified_address_joins_every_lab_that_invited_it(lab: SmallLab) -> None:
    other, third = small_lab(name="Other Lab"), small_lab(name="Third Lab")
    for small, email in (
        (lab, "Ada@Example.org"),
        (other, "ada@example.ORG"),
        (third, "bob@example.org"),
    ):
        invite(lab=small.lab, role=Role.MEMBER, by=small.owner, now=T0, email=email)
    invite(lab=lab.lab, role=Role.PI, by=lab.owner, now=T0, email="ada@example.org")
    invite(lab=third.lab, role=Role.ADMIN, by=third.owner, now=T0)  # bound to nobody
    assert {found.lab for found in invitations_for_email("ADA@example.org", now=T0)} == {
        lab.lab,
        other.lab,
    }
    ada = User.objects.create_user("ada")
    joined = accept_by_email(user=ada, verified_email=" ADA@EXAMPLE.ORG", now=T0)
    assert [(one.lab, one.role) for one in joined] == [
        (lab.lab, Role.MEMBER),
        (other.lab, Role.MEMBER),
    ]
    assert accept_by_email(user=ada, verified_email="ada@example.org", now=T0) == []
    assert Invitation.objects.filter(accepted_us=None).count() == 3


@pytest.mark.parametrize(
    "email", ["", " ", "ada", "ada@example.org.evil", "ada@example.org\x00", "%"]
)
def test_no_other_address_joins(lab: SmallLab, email: str) -> None:
    invite(lab=lab.lab, role=Role.MEMBER, by=lab.owner, now=T0, email="ada@example.org")
    invite(lab=lab.lab, role=Role.ADMIN, by=lab.owner, now=T0)
    assert accept_by_email(user=User.objects.create_user("eve"), verified_email=email, now=T0) == []


def test_expired_and_revoked_addresses_do_not_join(lab: SmallLab) -> None:
    invite(lab=lab.lab, role=Role.MEMBER, by=lab.owner, now=T0, email="ada@example.org")
    ada = User.objects.create_user("ada")
    assert accept_by_email(user=ada, verified_email="ada@example.org", now=T0 + LIFE_US) == []
    Invitation.objects.update(revoked_us=T0)
    assert accept_by_email(user=ada, verified_email="ada@example.org", now=T0) == []


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_twenty_at_once_exactly_one_joins() -> None:
    lab = small_lab()
    outcomes = race(lab)
    assert sorted(outcomes) == ["bad_invitation"] * 19 + ["joined"]
    assert lab.lab.memberships.count() == 2
    assert verify(lab.lab) is None


def test_twenty_at_once_on_a_file(tmp_path: Path) -> None:
    """The same on SQLite as it is run: a file, WAL, a connection for each thread."""
    import os

    prepare_data_dir(tmp_path)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LABCARBON_")}
    environment = {
        **kept,
        **installation_environment(str(tmp_path)),
        "DJANGO_SETTINGS_MODULE": "labcarbon.settings",
    }
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.accounts.concurrent_calls"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        "19",
        "bad_invitation",
        "1",
        "joined",
        "2",
        "members",
        "chain",
        "fits",
    ]
