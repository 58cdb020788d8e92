"""Authenticator app and recovery codes: set up, asked for, each good once, throttled, unreadable
in the database.
"""

import re
import threading
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from apps.accounts.audit import with_names
from apps.accounts.choices import Role
from apps.accounts.mfa import SecondFactor, spend
from apps.accounts.models import AuditEntry, Membership, User
from tests.builders import small_lab
from tests.dashboard.support import folded
from tests.signin.totp import code_at, code_now

PASSWORD = "correct horse battery"
NOON = 1_793_534_400.0 + 10  # ten seconds into a step
TOO_MANY = "Too many failed login attempts"


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create_user("ada", password=PASSWORD)


def _password(client: Client) -> Any:
    return client.post("/accounts/login/", {"login": "ada", "password": PASSWORD})


def _text(response: Any) -> str:
    return folded(response.content.decode())


def _set_up(client: Client) -> str:
    """Sign in and switch the app on; return its secret."""
    _password(client)
    assert client.get("/accounts/security/app/")["Location"].startswith("/accounts/reauthenticate/")
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    page = _text(client.get("/accounts/security/app/"))
    found = re.search(r'<pre id="secret">([A-Z2-7]+)</pre>', page)
    assert found
    assert 'src="data:image/svg+xml;base64,' in page
    reply = client.post("/accounts/security/app/", {"code": code_now(found[1])})
    assert reply["Location"] == "/accounts/security/recovery-codes/", _text(reply)
    return found[1]


def _recovery_codes(client: Client) -> list[str]:
    return re.findall(
        r"^\d{8}$",
        re.search(
            r"<pre[^>]*>(.*?)</pre>",
            _text(client.get("/accounts/security/recovery-codes/")),
            re.DOTALL,
        )[1],
        re.MULTILINE,
    )  # type: ignore[index]


def _signed_in(client: Client) -> bool:
    return client.get("/accounts/security/").status_code == 200


def _code(client: Client, code: str) -> Any:
    return client.post("/accounts/security/code/", {"code": code})


@pytest.fixture
def clock() -> Any:
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


def test_it_is_asked_for_at_sign_in(ada: User, clock: Any) -> None:
    secret = _set_up(Client())
    client = Client()
    assert _password(client)["Location"] == "/accounts/security/code/"
    assert not _signed_in(client)
    clock.shift(30)
    assert "This code is wrong" in _text(_code(client, "000000"))
    assert not _signed_in(client)
    assert _code(client, code_now(secret))["Location"] == "/"
    assert _signed_in(client)


def test_sign_ins_and_wrong_codes_are_in_the_audit_log(ada: User, clock: Any) -> None:
    lab = small_lab(name="Ours").lab
    Membership.objects.create(lab=lab, user=ada, role=Role.VIEWER)
    secret = _set_up(Client())
    client = Client()
    _password(client)
    clock.shift(30)
    _code(client, "000000")
    _code(client, code_now(secret))
    rows = AuditEntry.objects.filter(lab=lab, action__startswith="signin.").order_by("sequence")
    assert [(row.action, with_names(row).subject, row.details["method"]) for row in rows] == [
        ("signin.made", "ada", "password"),
        ("signin.failed", "ada", "second factor"),
        ("signin.made", "ada", "second factor"),
    ]


def test_without_the_password_no_code_helps(ada: User, clock: Any) -> None:
    secret = _set_up(Client())
    client = Client()
    clock.shift(30)
    assert _code(client, code_now(secret))["Location"] == "/accounts/login/"
    assert not _signed_in(client)


@pytest.mark.parametrize("steps", [-2, -1, 0, 1, 2])
def test_half_a_minute_early_or_late_is_forgiven(ada: User, clock: Any, steps: int) -> None:
    secret = _set_up(Client())
    clock.shift(600)
    client = Client()
    _password(client)
    _code(client, code_now(secret, steps))
    assert _signed_in(client) == (abs(steps) <= 1)


def test_a_code_opens_one_door(ada: User, clock: Any) -> None:
    from django.core.cache import cache

    secret = _set_up(Client())
    first, second = Client(), Client()
    _password(second)
    _password(first)
    assert "already used" in _text(_code(first, code_now(secret))), (
        "the code that switched the app on is spent"
    )
    clock.shift(30)
    _code(first, code_now(secret))
    assert _signed_in(first)
    cache.clear()
    for seconds in (0, 29, 30):  # as long as it is accepted at all
        clock.move_to(NOON + 30 + seconds)
        assert "already used" in _text(_code(second, code_at(secret, NOON + 30)))
    clock.move_to(NOON + 90)
    assert "This code is wrong" in _text(_code(second, code_at(secret, NOON + 30)))
    assert not _signed_in(second)


def test_an_older_code_than_the_last_one_used_is_spent_too(ada: User, clock: Any) -> None:
    secret = _set_up(Client())
    clock.shift(300)
    first, second = Client(), Client()
    _password(first)
    _code(first, code_now(secret))
    _password(second)
    assert "already used" in _text(_code(second, code_now(secret, -1)))


def test_wrong_codes_are_throttled_and_a_used_one_does_not_clear_the_count(
    ada: User, clock: Any
) -> None:
    secret = _set_up(Client())
    clock.shift(30)
    first, client = Client(), Client()
    _password(first)
    _code(first, used := code_now(secret))
    _password(client)
    for i in range(4):
        assert "This code is wrong" in _text(_code(client, f"00000{i}"))
    assert "already used" in _text(_code(client, used))
    assert TOO_MANY in _text(_code(client, "000009"))
    clock.shift(60)
    assert TOO_MANY in _text(_code(client, code_now(secret)))
    clock.shift(300)
    _code(client, code_now(secret))
    assert _signed_in(client)


def test_recovery_codes_are_shown_once_and_work_once(ada: User, clock: Any) -> None:
    owner = Client()
    _set_up(owner)
    codes = _recovery_codes(owner)
    assert len(set(codes)) == 10
    again = _text(owner.get("/accounts/security/recovery-codes/"))
    assert not any(code in again for code in codes)
    assert "shown only when they are created" in again
    for expected in (True, False):
        client = Client()
        _password(client)
        _code(client, codes[3])
        assert _signed_in(client) is expected
    assert "9 of 10 unused" in _text(owner.get("/accounts/security/"))


def test_new_recovery_codes_end_the_old_ones(ada: User, clock: Any) -> None:
    owner = Client()
    _set_up(owner)
    old = _recovery_codes(owner)
    owner.post("/accounts/security/recovery-codes/new/")
    new = _recovery_codes(owner)
    assert len(new) == 10
    assert not set(old) & set(new)
    client = Client()
    _password(client)
    _code(client, old[0])
    assert not _signed_in(client)


def test_removing_it_asks_who_it_is(ada: User, clock: Any) -> None:
    secret = _set_up(Client())
    client = Client()
    _password(client)
    clock.shift(60)
    _code(client, code_now(secret))
    assert client.post("/accounts/security/app/remove/")["Location"].startswith(
        "/accounts/reauthenticate/"
    )
    assert Authenticator.objects.count() == 2
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    client.post("/accounts/security/app/remove/")
    assert not Authenticator.objects.exists()
    third = Client()
    assert _password(third)["Location"] == "/"


def test_a_person_without_a_password_sets_it_up_in_one_go(db: None, clock: Any) -> None:
    user = User.objects.create_user("linked")
    client = Client()
    client.force_login(user)
    secret = re.search(
        r'<pre id="secret">([A-Z2-7]+)</pre>', _text(client.get("/accounts/security/app/"))
    )[1]  # type: ignore[index]
    client.post("/accounts/security/app/", {"code": code_now(secret)})
    assert len(_recovery_codes(client)) == 10


def test_no_secret_stands_in_the_database(ada: User, clock: Any) -> None:
    owner = Client()
    secret = _set_up(owner)
    codes = _recovery_codes(owner)
    with connection.cursor() as cursor:
        cursor.execute("SELECT data FROM mfa_authenticator")
        kept = str(cursor.fetchall())
    assert secret not in kept
    assert not any(code in kept for code in codes)


def test_peppers_may_be_added_and_a_lost_one_is_told(ada: User, clock: Any, settings: Any) -> None:
    secret = _set_up(Client())
    settings.TOKEN_PEPPERS = {**settings.TOKEN_PEPPERS, 7: b"s" * 32}
    assert SecondFactor().encrypt("x").startswith("7:")
    clock.shift(30)
    client = Client()
    _password(client)
    settings.TOKEN_PEPPERS = {7: b"s" * 32}
    told = _code(client, code_now(secret))
    assert told.status_code == 200
    assert "reset_mfa" in _text(told)
    assert not _signed_in(client)


# on SQLite: test_at_once.py, since a database in memory has other locks than a file
@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_one_code_in_many_hands_at_once_opens_one_door(clock: Any) -> None:
    from allauth.mfa.totp.internal.auth import TOTP

    user = User.objects.create_user("ada")
    TOTP.activate(user, "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP")
    code, won = code_now("JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"), []

    def use() -> None:
        won.append(spend(user, code))
        connection.close()

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False] * 7 + [True]


def test_the_way_back_for_a_lost_phone(
    ada: User, clock: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    _set_up(Client())
    with pytest.raises(CommandError, match="nobody"):
        call_command("reset_mfa", "nobody")
    call_command("reset_mfa", "ada")
    assert "now sign in without a code" in capsys.readouterr().out
    assert _password(Client())["Location"] == "/"
    call_command("reset_mfa", "ada")
    assert "Nothing was changed" in capsys.readouterr().out
