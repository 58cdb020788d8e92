"""What is good once is good once however many ask at the same moment: a real server on SQLite,
over HTTP.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import requests

from tests.signin.browser import Browser
from tests.signin.conftest import SignIn
from tests.signin.totp import code_now

_CODE = """
from apps.accounts.choices import CodePurpose
from apps.accounts.models import Lab, User
from apps.accounts.services.labs import issue_code
from apps.core.clock import now_us
print(issue_code(purpose=CodePurpose.LOGIN, now=now_us(), lab=Lab.objects.get(), user=User.objects.get(username="ada")))
"""  # noqa: E501


def test_of_twenty_with_one_login_code_one_gets_the_token(ours: SignIn) -> None:
    code = ours.shell(_CODE)

    def trade(_: int) -> int:
        return requests.post(
            f"{ours.url}/api/v1/login/", json={"code": code}, timeout=60
        ).status_code

    with ThreadPoolExecutor(20) as pool:
        assert sorted(pool.map(trade, range(20))) == [201] + [400] * 19
    assert ours.rows("SELECT count(*) FROM accounts_token WHERE kind = 'user'") == [(1,)]


def test_of_four_with_one_code_of_the_app_one_comes_in(ours: SignIn) -> None:
    browsers = [Browser(ours.url) for _ in range(4)]
    pages = [browser.password("jon", "jon of the lab") for browser in browsers]
    code = code_now("JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP")

    def use(i: int) -> bool:
        browsers[i].send(pages[i], "/accounts/security/code/", code=code)
        return browsers[i].signed_in

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(use, range(4))) == 1
