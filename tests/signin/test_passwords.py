"""Guessing passwords is slow, by address and by account, and says nothing about who has an
account.
"""

import re
from typing import Any

import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.core.cache import cache, caches
from django.core.cache.backends.db import DatabaseCache
from django.test import Client

from apps.accounts.backends import find_user
from apps.accounts.models import User

PASSWORD = "correct horse battery"


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create_user("ada", email="ada@lab.example", password=PASSWORD)


def _try(login: str, password: str = "wrong", client: Client | None = None, **more: Any) -> Any:
    return (client or Client()).post(
        "/accounts/login/", {"login": login, "password": password}, **more
    )


def _said(response: Any) -> str:
    found = re.search(r'role="alert">(.*?)</div>', response.content.decode(), re.DOTALL)
    return re.sub(r"<[^>]+>|\s+", " ", found[1]).strip() if found else ""


TOO_MANY = "Too many failed login attempts. Try again later."


def _from(i: int) -> str:
    return f"198.51.100.{i}"


def test_an_account_is_throttled_from_however_many_addresses(ada: User) -> None:
    answers = [_said(_try("ada", REMOTE_ADDR=_from(i))) for i in range(6)]
    assert TOO_MANY not in answers[:5]
    assert answers[5] == TOO_MANY
    assert _said(_try("ada", PASSWORD, REMOTE_ADDR=_from(7))) == TOO_MANY, (
        "the right password is not told from wrong ones"
    )


def test_another_name_of_the_account_is_no_way_around(ada: User) -> None:
    names = ["ada", "ADA", "ada@lab.example", " Ada@Lab.Example ", "aDa"]
    for i, name in enumerate(names):
        assert _said(_try(name, REMOTE_ADDR=_from(i))) != TOO_MANY
    for i, name in enumerate(names):
        assert _said(_try(name, REMOTE_ADDR=_from(100 + i))) == TOO_MANY


def test_an_address_is_throttled_over_however_many_accounts(db: None) -> None:
    answers = [_said(_try(f"person-{i}")) for i in range(11)]
    assert TOO_MANY not in answers[:10]
    assert answers[10] == TOO_MANY
    assert _said(_try("person-12", REMOTE_ADDR=_from(1))) != TOO_MANY


def test_good_sign_ins_neither_count_nor_clear_the_count(ada: User) -> None:
    for _ in range(8):
        assert _try("ada", PASSWORD).status_code == 302
    for _ in range(4):
        _try("ada")
    assert _try("ada", PASSWORD).status_code == 302
    _try("ada")
    assert _said(_try("ada", PASSWORD)) == TOO_MANY


@pytest.mark.parametrize("known", ["ada", "ada@lab.example"])
def test_known_and_unknown_names_get_one_answer(ada: User, known: str) -> None:
    unknown = known.replace("ada", "nobody")
    said = [
        [_said(_try(name, REMOTE_ADDR=_from(i))) for i in range(7)] for name in (known, unknown)
    ]
    cache.clear()
    assert said[0] == said[1]
    assert "not correct" in said[0][0]


@pytest.mark.parametrize(
    "name",
    [
        "ada",
        "ada@lab.example",
        "nobody",
        "nobody@lab.example",
        "closed",
        "twice@lab.example",
        "linked",
    ],
)
def test_every_wrong_answer_takes_one_hash(
    ada: User, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The hash is what takes time: a third of a second, against a millisecond for all the rest."""
    User.objects.create_user("closed", password=PASSWORD, is_active=False)
    User.objects.create_user("linked", email="linked@lab.example")  # has no password
    for one in ("a", "b"):
        User.objects.create_user(one, email="twice@lab.example", password=PASSWORD)
    hashed: list[str] = []
    plain = MD5PasswordHasher.encode
    monkeypatch.setattr(
        MD5PasswordHasher,
        "encode",
        lambda self, password, salt: hashed.append(salt) or plain(self, password, salt),
    )
    assert _try(name).status_code in {200, 400}
    assert len(hashed) == 1


def test_a_closed_account_is_answered_like_a_wrong_password(ada: User) -> None:
    User.objects.create_user("closed", password=PASSWORD, is_active=False)
    assert _said(_try("closed", PASSWORD)) == _said(_try("nobody", PASSWORD)) != ""


def test_whose_name_it_is(ada: User) -> None:
    assert find_user("Ada") == find_user(" ada@LAB.example ") == ada
    assert find_user("") is find_user("lab.example") is None
    impostor = User.objects.create_user("ada@lab.example")
    assert find_user("ada@lab.example") == impostor, "a user name goes before a mail address"
    User.objects.create_user("second", email="ada@lab.example")
    impostor.delete()
    assert find_user("ada@lab.example") is None, "of two people neither is meant"


def test_behind_a_proxy_the_proxys_word_counts_and_nobody_elses(ada: User, settings: Any) -> None:
    settings.ALLAUTH_TRUSTED_PROXY_COUNT = 1
    for i in range(10):  # what the client itself puts in front is not believed
        said = _said(
            _try(
                f"person-{i}",
                headers={"X-Forwarded-For": f"{_from(i)}, 203.0.113.9"},
                REMOTE_ADDR="127.0.0.1",
            )
        )
        assert said != TOO_MANY
    assert (
        _said(
            _try("x", headers={"X-Forwarded-For": "1.2.3.4, 203.0.113.9"}, REMOTE_ADDR="127.0.0.1")
        )
        == TOO_MANY
    )
    assert (
        _said(_try("x", headers={"X-Forwarded-For": "203.0.113.10"}, REMOTE_ADDR="127.0.0.1"))
        != TOO_MANY
    )


def test_without_a_proxy_the_header_is_not_believed(ada: User) -> None:
    for i in range(10):
        _try(f"person-{i}", headers={"X-Forwarded-For": _from(i)})
    assert _said(_try("x", headers={"X-Forwarded-For": _from(99)})) == TOO_MANY


def test_two_processes_count_together(ada: User, settings: Any) -> None:
    """With the cache of a served installation: each process has its own objects, the counts are
    the database's.
    """
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.db.DatabaseCache",
            "LOCATION": "labcarbon_cache",
            "OPTIONS": {"MAX_ENTRIES": 10_000},
        }
    }
    caches["default"].clear()
    for i in range(5):
        del caches["default"]  # the next attempt meets another process, which remembers nothing
        assert _said(_try("ada", REMOTE_ADDR=_from(i))) != TOO_MANY
    del caches["default"]
    assert isinstance(caches["default"], DatabaseCache)
    assert _said(_try("ada", REMOTE_ADDR=_from(6))) == TOO_MANY
