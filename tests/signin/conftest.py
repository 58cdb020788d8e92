"""A real installation, a real provider as a second Django process, and a forging proxy."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.faults.installation import ROOT, Installation, plain_environ
from tests.services.process import answers, end_process, end_with_parent, free_port, wait_until
from tests.signin.browser import Browser
from tests.signin.go_between import GoBetween
from tests.signin.provider.people import CLIENT_ID, CLIENT_SECRET

_OVER_HTTP = (
    "test_at_once.py",
    "test_oidc.py",
    "test_oidc_lies.py",
    "test_pages.py",
    "test_served.py",
)

_PEOPLE_HERE = """
from apps.accounts.models import Membership, User
from apps.accounts.services.labs import create_lab
from apps.accounts.oidc.adapter import verify_email_address
from apps.accounts.services.invitations import invite
from apps.core.clock import now_us
from allauth.mfa.totp.internal.auth import TOTP
lab = None
for name in ("ada", "bob", "cleo", "dan", "hal", "iris", "jon"):
    user = User.objects.create_user(name, email=f"{name}@lab.example", password=f"{name} of the lab")
    if lab is None:
        lab = create_lab(name="Lab", time_zone="UTC", owner=user, now=now_us())
    else:
        Membership.objects.create(lab=lab, user=user, role="member")
    if name in ("ada", "dan", "hal", "iris"):
        verify_email_address(user=user, mail=user.email)
    if name == "ada":
        invite(lab=lab, role="viewer", by=user, now=now_us(), email="kim@lab.example")
    if name in ("dan", "jon"):
        TOTP.activate(user, "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP")
"""  # noqa: E501


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all tests over HTTP on one worker, because they share one installation.

    A test with a group keeps it: pytest-xdist would combine two groups into a third.
    """
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name in _OVER_HTTP:
            item.add_marker(pytest.mark.sqlite)  # they use their own database: SQLite
            if item.get_closest_marker("xdist_group") is None:
                item.add_marker(pytest.mark.xdist_group("signin"))


@dataclass
class SignIn(Installation):
    """An installation with an identity provider."""

    oidc: dict[str, str] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, **self.oidc}

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query, read directly from the database."""
        with sqlite3.connect(self.data_dir / "labcarbon.sqlite3", timeout=20) as database:
            return database.execute(query, values).fetchall()

    def accounts(self) -> list[tuple[Any, ...]]:
        """Return (table, number of rows) of all tables that a sign-in writes."""
        tables = (
            "accounts_user",
            "socialaccount_socialaccount",
            "account_emailaddress",
            "accounts_membership",
        )
        return [(table, self.rows(f"SELECT count(*) FROM {table}")[0][0]) for table in tables]


def serve(
    module: str, port: int, environ: dict[str, str], log: Path, *more: str
) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "gunicorn",
        module,
        "--bind",
        f"127.0.0.1:{port}",
        "--threads",
        "4",
        "--no-control-socket",
    ]
    with log.open("wb") as said:
        return subprocess.Popen(
            end_with_parent([*command, *more]), cwd=ROOT, env=environ, stdout=said, stderr=said
        )


@pytest.fixture(scope="session")
def provider_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(scope="session")
def here(
    tmp_path_factory: pytest.TempPathFactory, provider_key: rsa.RSAPrivateKey
) -> Iterator[tuple[SignIn, GoBetween]]:
    """Return the installation with a running server, and the proxy of its provider."""
    provider_port = free_port()
    go_between = GoBetween(provider_port)
    oidc = {
        "LABCARBON_OIDC_ISSUER": go_between.issuer,
        "LABCARBON_OIDC_CLIENT_ID": CLIENT_ID,
        "LABCARBON_OIDC_CLIENT_SECRET": CLIENT_SECRET,
        "LABCARBON_OIDC_NAME": "Example University",
        "NO_PROXY": "127.0.0.1",
    }
    ours = SignIn(tmp_path_factory.mktemp("ours"), oidc=oidc)
    home = tmp_path_factory.mktemp("provider")
    pem = provider_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (home / "key.pem").write_bytes(pem)
    environ = {
        **plain_environ(),
        "PROVIDER_HOME": str(home),
        "PROVIDER_ISSUER": go_between.issuer,
        "DJANGO_SETTINGS_MODULE": "tests.signin.provider.settings",
        "PYTHONPATH": str(ROOT),
    }
    callback = f"{ours.url}/accounts/oidc/callback/"
    done = subprocess.run(
        [sys.executable, "-m", "tests.signin.provider", callback],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    ours.prepare()
    ours.shell(_PEOPLE_HERE)
    running = [
        serve("tests.signin.provider.wsgi", provider_port, environ, home / "provider.log"),
        serve(
            "tests.signin.patient_wsgi", ours.port, ours.environ, ours.data_dir / "logs" / "web.log"
        ),
    ]
    try:
        wait_until(
            lambda: answers(f"{ours.url}/readyz"), what="the web server's first answer", seconds=60
        )
        wait_until(
            lambda: answers(f"{go_between.issuer}/.well-known/openid-configuration"),
            what="the provider's first answer",
        )
        yield ours, go_between
    finally:
        for process in running:
            end_process(process)
        go_between.close()


@pytest.fixture
def ours(here: tuple[SignIn, GoBetween]) -> SignIn:
    return here[0]


@pytest.fixture
def between(here: tuple[SignIn, GoBetween]) -> GoBetween:
    here[1].asked.clear()
    return here[1]


@pytest.fixture
def browser(ours: SignIn) -> Iterator[Callable[[], Browser]]:
    opened: list[Browser] = []

    def make() -> Browser:
        opened.append(Browser(ours.url))
        return opened[-1]

    yield make
    for one in opened:
        one.web.close()
