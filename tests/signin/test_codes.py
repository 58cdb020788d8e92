"""Login codes and one-time links: worth one token for one person, and nothing to anybody who
reads the database.
"""

import re
import threading
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test import Client

from apps.accounts.choices import CodePurpose
from apps.accounts.models import OneTimeCode, Token, User
from apps.accounts.services.labs import issue_code
from apps.core.clock import now_us
from tests.builders import SmallLab, small_lab

MINUTE_S = 60


def _code(lab: SmallLab, purpose: CodePurpose = CodePurpose.LOGIN) -> str:
    return issue_code(purpose=purpose, now=now_us(), lab=lab.lab, user=lab.owner)


def _trade(code: str) -> Any:
    return Client().post("/api/v1/login/", {"code": code}, content_type="application/json")


# on SQLite: test_at_once.py, since a database in memory has other locks than a file
@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_twenty_at_once_get_one_token() -> None:
    lab = small_lab()
    code, statuses = _code(lab), []

    def use() -> None:
        statuses.append(_trade(code).status_code)
        connection.close()

    threads = [threading.Thread(target=use) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [201] + [400] * 19
    assert Token.objects.filter(user=lab.owner).count() == 1


def test_it_ends_after_ten_minutes(db: None) -> None:
    lab = small_lab()
    with time_machine.travel(1_793_534_400, tick=False) as clock:
        codes = [_code(lab), _code(lab)]
        clock.shift(10 * MINUTE_S - 1)
        assert _trade(codes[0]).status_code == 201
        clock.shift(1)
        assert _trade(codes[1]).status_code == 400


@pytest.mark.parametrize(
    "purpose", [purpose for purpose in CodePurpose if purpose != CodePurpose.LOGIN]
)
def test_a_code_of_another_kind_is_no_login_code(db: None, purpose: CodePurpose) -> None:
    assert _trade(_code(small_lab(), purpose)).status_code == 400


def test_a_login_code_opens_no_session(db: None) -> None:
    client = Client()
    assert client.post("/signin/", {"code": _code(small_lab())}).status_code == 400
    assert client.get("/").status_code == 302


def test_unknown_spent_and_expired_codes_get_one_answer(db: None) -> None:
    lab = small_lab()
    with time_machine.travel(1_793_534_400, tick=False) as clock:
        late, spent = _code(lab), None
        clock.shift(11 * MINUTE_S)
        _trade(spent := _code(lab))
        answers = {_trade(code).content for code in (late, spent, "AAAAA-AAAAA-AAAAA-AAAAA")}
    assert len(answers) == 1


def test_it_stands_nowhere_in_clear(db: None) -> None:
    lab = small_lab()
    code = _code(lab)
    row = OneTimeCode.objects.filter(purpose=CodePurpose.LOGIN).values().get()
    assert code not in str(row)
    assert re.sub("-", "", code) not in str(row)
    assert re.fullmatch(r"[0-9A-Z]{5}(-[0-9A-Z]{5}){3}", code)


def test_guessing_is_throttled_per_address(db: None) -> None:
    statuses = [_trade("AAAAA-AAAAA-AAAAA-AAAAA").status_code for _ in range(31)]
    assert statuses == [400] * 30 + [429]


def test_the_token_of_a_closed_account_is_worth_nothing(db: None) -> None:
    lab = small_lab()
    code = _code(lab)
    User.objects.filter(pk=lab.owner.pk).update(is_active=False)
    reply = _trade(code)
    token = reply.json().get("token", "")
    assert (
        Client(headers={"Authorization": f"Bearer {token}"}).get("/api/v1/runs/").status_code == 401
    )


def test_the_page_with_the_code_is_kept_by_no_cache(db: None) -> None:
    lab = small_lab()
    client = Client()
    client.force_login(lab.owner)
    page = client.post("/login-code/")
    assert "no-store" in page["Cache-Control"]
    assert "no-store" in client.get("/signin/?code=x")["Cache-Control"]


def test_nobody_else_makes_a_code_for_a_person(db: None) -> None:
    lab = small_lab()
    client = Client(enforce_csrf_checks=True)
    client.force_login(lab.owner)
    assert client.post("/login-code/").status_code == 403
    assert not OneTimeCode.objects.filter(purpose=CodePurpose.LOGIN).exists()
