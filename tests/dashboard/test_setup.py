"""/setup/ and its command: the code is spent once, by finishing."""

import re
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from apps.accounts.choices import Act, CodePurpose, Role
from apps.accounts.models import AuditEntry, Lab, Membership, OneTimeCode, User
from apps.accounts.services.labs import issue_code
from apps.carbon.services import load_factors
from apps.core.clock import now_us
from apps.fleet.models import Site
from apps.fleet.selectors import zone_at
from tests.builders import T0, SmallLab
from tests.dashboard.support import HOUR, assert_only, text_of

GOOD = {
    "lab": "Cell Atlas Lab", "username": "ada", "password": "", "zone": "Germany (DE)",
    "basis": "lifecycle", "site_kind": "workstation", "time_zone": "Europe/Berlin",
}  # fmt: skip


@pytest.fixture
def code(db: None) -> str:
    load_factors(now=T0)
    return issue_code(purpose=CodePurpose.SETUP, now=now_us())


def _left() -> int:
    return OneTimeCode.objects.get().uses_left


def test_works(code: str) -> None:
    client = Client()
    page = text_of(client.get(f"/setup/?code={code}"))
    assert "Germany (DE)" in page
    assert code in page
    assert _left() == 1
    response = client.post("/setup/", {**GOOD, "code": code})
    assert response["Location"] == "/"
    assert _left() == 0
    lab = Lab.objects.get()
    assert (lab.name, lab.time_zone, lab.projects.get().slug) == (
        "Cell Atlas Lab",
        "Europe/Berlin",
        "demo",
    )
    assert zone_at(Site.objects.get(), HOUR) == "DE"
    assert Membership.objects.get().role == Role.ADMIN
    assert not User.objects.get().has_usable_password()
    overview = text_of(client.get("/"))
    assert "Cell Atlas Lab" in overview
    assert "/nodes/enrol/" in overview


def test_lifecycle_is_preselected(code: str) -> None:
    page = text_of(Client().get(f"/setup/?code={code}"))
    inputs = re.findall(r'<input type="radio" name="basis"[^>]*>', page)
    assert [re.findall(r'value="(\w+)"', each)[0] for each in inputs] == ["lifecycle", "direct"]
    assert ["checked" in each for each in inputs] == [True, False]


@pytest.mark.parametrize("basis", ["lifecycle", "direct"])
def test_the_basis_is_the_one_of_the_lab_and_in_its_audit_log(code: str, basis: str) -> None:
    Client().post("/setup/", {**GOOD, "code": code, "basis": basis})
    lab = Lab.objects.get()
    assert lab.basis == basis
    created = AuditEntry.objects.get(lab=lab, action=Act.LAB_CREATED)
    assert created.details["basis"] == basis


def test_another_error_keeps_the_basis(code: str) -> None:
    page = text_of(Client().post("/setup/", {**GOOD, "code": code, "basis": "direct", "lab": ""}))
    [direct] = re.findall(r'<input type="radio" name="basis" value="direct"[^>]*>', page)
    assert "checked" in direct


def test_another_error_asks_for_the_password_again(code: str) -> None:
    form = {**GOOD, "code": code, "zone": "Switz", "password": "correct horse battery"}
    response = Client().post("/setup/", form)
    page = text_of(response)
    assert response.status_code == 400
    assert 'data-field-error="zone"' in page
    assert 'data-field-error="password"' in page
    assert "correct horse" not in page
    assert _left() == 1
    without = text_of(Client().post("/setup/", {**form, "password": ""}))
    assert 'data-field-error="password"' not in without


def test_a_password_signs_in(code: str) -> None:
    Client().post("/setup/", {**GOOD, "code": code, "password": "correct horse battery"})
    client = Client()
    response = client.post(
        "/accounts/login/", {"login": "ada", "password": "correct horse battery"}
    )
    assert response["Location"] == "/"


def test_not_now_leaves_carbon_unknown(code: str) -> None:
    client = Client()
    client.post("/setup/", {**GOOD, "code": code, "no_zone": "1"})
    assert zone_at(Site.objects.get(), HOUR) == ""
    assert "No grid zone for Main site" in text_of(client.get("/"))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"lab": " "}, "Enter a name"),
        ({"lab": "x" * 201}, "200 characters"),
        ({"username": ""}, "user"),
        ({"username": "a b"}, "valid username"),
        ({"password": "123"}, "too short"),
        ({"zone": "Germny"}, "Did you mean Germany (DE)"),
        ({"basis": ""}, "Choose a basis"),
        ({"basis": "market"}, "is not a basis"),
        ({"site_kind": "moon"}, "type of site"),
        ({"site_kind": "declared"}, "type of site"),
        ({"time_zone": "Berlin"}, "Did you mean Europe/Berlin"),
        ({"code": "AAAAA-AAAAA-AAAAA-AAAAA"}, "make run"),
        ({"code": ""}, "make run"),
        ({"lab": "", "zone": "Germny", "time_zone": "Berlin"}, "Did you mean Germany (DE)"),
    ],
)
def test_a_mistake_is_shown_at_its_field_and_spends_nothing(
    code: str, wrong: dict[str, str], text: str
) -> None:
    response = Client().post("/setup/", {**GOOD, "code": code, **wrong})
    assert response.status_code == 400
    page = text_of(response)
    assert set(re.findall(r'data-field-error="(\w+)"', page)) == set(wrong)
    assert text.lower() in page.lower()
    assert _left() == 1
    assert not Lab.objects.exists()
    assert not User.objects.exists()
    if wrong.keys() & {"lab", "username"} == set():
        assert 'value="Cell Atlas Lab"' in page


def test_after_set_up_it_says_so_and_links_on(lab: SmallLab) -> None:
    late = issue_code(purpose=CodePurpose.SETUP, now=now_us())
    page = text_of(Client().get(f"/setup/?code={late}"))
    assert "<form" not in page
    assert 'href="/"' in page
    assert Client().post("/setup/", {**GOOD, "code": late}).status_code == 409
    assert Lab.objects.count() == 1


def test_another_purpose_is_refused(code: str) -> None:
    other = issue_code(purpose=CodePurpose.SIGN_IN, now=now_us())
    assert Client().post("/setup/", {**GOOD, "code": other}).status_code == 400
    assert not Lab.objects.exists()


def test_wrong_method_and_csrf(code: str) -> None:
    assert_only(Client(), "/setup/", "GET", "POST")
    assert (
        Client(enforce_csrf_checks=True).post("/setup/", {**GOOD, "code": code}).status_code == 403
    )
    assert not Lab.objects.exists()


def test_hostile_typing_is_text(code: str) -> None:
    page = text_of(
        Client().post(
            "/setup/", {**GOOD, "code": code, "lab": '"><script>x</script>', "zone": "<b>"}
        )
    )
    assert "<script>x" not in page
    assert "<b>" not in page


def test_sign_in_page_before_set_up_names_the_link(db: None) -> None:
    assert "setup link that <code>make run</code> printed" in text_of(
        Client().get("/accounts/login/")
    )


def _command(**options: str) -> str:
    out = StringIO()
    arguments = {
        "lab": "Cell Lab",
        "user": "ada",
        "zone": "DE",
        "site_kind": "workstation",
        "time_zone": "UTC",
        **options,
    }
    call_command("setup_lab", stdout=out, **arguments)
    return out.getvalue()


def test_the_command_does_the_same_and_again_changes_nothing(db: None) -> None:
    assert "Cell Lab is set up" in _command()
    assert zone_at(Site.objects.get(), HOUR) == "DE"
    assert "is set up already" in _command()
    assert Lab.objects.count() == User.objects.count() == 1
    with pytest.raises(CommandError, match="set up already, for 'Cell Lab'"):
        _command(lab="Other")


def test_the_command_without_a_zone_says_what_is_missing(db: None) -> None:
    told = _command(zone="")
    assert "energy will be shown without carbon" in told
    assert f"/sites/{Site.objects.get().pk}/" in told


def test_the_command_names_a_zone_without_a_factor_on_the_basis(db: None) -> None:
    text = _command(zone="IN", basis="direct")
    assert Lab.objects.get().basis == "direct"
    assert "IN has no direct factor" in text
    assert "/settings/basis/" in text


def test_the_command_is_silent_about_a_zone_with_a_factor(db: None) -> None:
    assert "factor" not in _command(zone="DE", basis="direct")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"zone": "Germny"}, "Did you mean Germany"),
        ({"time_zone": "Mars"}, "is not a time zone"),
        ({"user": "a b"}, "username"),
    ],
)
def test_the_command_tells_mistakes(db: None, options: dict[str, str], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        _command(**options)
    assert not Lab.objects.exists()
