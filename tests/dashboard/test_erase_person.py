"""/people/<id>/erase/ and /people/<id>/export/."""

import csv
import io
import json
from uuid import uuid4

import pytest
from django.test import Client

from apps.accounts.choices import Role
from apps.accounts.models import Lab, Membership, User
from apps.attribution.services.rules import Criteria, drafted_rule, make_rule
from apps.runs.models import Run
from apps.runs.services.runs import RunFacts, put_run
from tests.api.conftest import add_person
from tests.builders import T0, SmallLab, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import text_of


@pytest.fixture
def person(lab: SmallLab) -> User:
    user = add_person(lab, Role.MEMBER)
    rule = drafted_rule(
        lab=lab.lab, criteria=Criteria(os_user="zbeeb"), project=None, person=user, from_us=T0
    )
    make_rule(rule=rule, by=lab.owner, now=T0)
    return user


def test_the_page_names_what_goes_and_erases_after_confirmation(
    lab: SmallLab, owner: Client, person: User
) -> None:
    address = f"/people/{person.pk}/erase/"
    assert address in text_of(owner.get("/people/"))
    page = text_of(owner.get(address))
    assert 'data-erased="names"' in page
    assert "zbeeb" in page, "the OS user of their rule is suggested"
    name = person.username
    listed = owner.post(address, {"action": "list", "names": "zbeeb"})
    assert listed.status_code == 200
    assert 'data-name="zbeeb"' in text_of(listed)
    content = {"action": "erase", "names": "zbeeb", "in_texts": ["zbeeb", name]}
    wrong = owner.post(address, {**content, "confirm": "someone"})
    assert (wrong.status_code, User.objects.get(pk=person.pk).is_active) == (400, True)
    assert 'data-name="zbeeb"' in text_of(wrong)
    unlisted = owner.post(address, {**content, "in_texts": ["other"], "confirm": name})
    assert (unlisted.status_code, User.objects.get(pk=person.pk).is_active) == (400, True)
    assert owner.post(address, {**content, "confirm": name}).status_code == 302
    assert not User.objects.get(pk=person.pk).is_active
    for page in map(text_of, map(owner.get, ("/people/", "/audit/", "/audit.csv", "/rules/"))):
        assert name not in page
        assert "zbeeb" not in page
    assert owner.get(address).status_code == 404


def test_an_admin_decides_about_a_name_that_is_a_word(
    lab: SmallLab, owner: Client, person: User
) -> None:
    put_run(
        lab=lab.lab, uuid=uuid4(), by=person, bound_node=None, now=T0,
        facts=RunFacts(name="this will mark <all>", started_us=T0, os_user="will"),
    )  # fmt: skip
    address = f"/people/{person.pk}/erase/"
    page = text_of(owner.post(address, {"action": "list", "names": "will\nzbeeb"}))
    assert 'value="will"' in page
    assert "this will mark &lt;all&gt;" in page
    boxes = {part.split('"')[0]: "checked" in part.split(">")[0]
             for part in page.split('value="')[1:] if "in-texts" in page}  # fmt: skip
    assert boxes["will"] is False
    assert boxes["zbeeb"] is True
    for bad in ("admin", "x", "42"):
        assert owner.post(address, {"action": "list", "names": bad}).status_code == 400
    content = {"action": "erase", "names": "will\nzbeeb", "confirm": person.username}
    assert owner.post(address, {**content, "in_texts": ["zbeeb"]}).status_code == 302
    run = Run.objects.get(lab=lab.lab, name="this will mark <all>")
    assert run.os_user.startswith("erased-person-")


def test_who_may_erase(lab: SmallLab, owner: Client, person: User) -> None:
    address = f"/people/{person.pk}/erase/"
    for role in (Role.VIEWER, Role.MEMBER, Role.PI):
        client = client_of(add_person(lab, role))
        assert client.get(address).status_code == 403
        assert client.post(address, {"confirm": person.username}).status_code == 403
        assert address not in text_of(client.get("/people/"))
    own = f"/people/{lab.owner.pk}/erase/"
    content = {"action": "erase", "confirm": lab.owner.username}
    assert owner.post(own, content).status_code == 409
    other = small_lab(name="Other Lab")
    Membership.objects.create(lab=other.lab, user=person, role=Role.VIEWER)
    content["confirm"] = person.username
    assert owner.post(address, content).status_code == 409
    assert User.objects.get(pk=person.pk).is_active


def test_the_export_contains_rows_about_the_person_only(
    lab: SmallLab, owner: Client, person: User
) -> None:
    other = add_person(lab, Role.MEMBER)
    for client in (owner, client_of(person)):
        content = json.loads(text_of(client.get(f"/people/{person.pk}/export/?format=json")))
        rows = {(row["table"], row["column"]) for row in content["rows"]}
        assert ("accounts_user", "username") in rows
        assert ("attribution_attributionrule", "person_id") in rows
        assert ("attribution_attributionrule", "os_user") in rows
        assert ("accounts_auditentry", "entry") in rows
        assert other.username not in json.dumps(content)
        assert "pbkdf2" not in json.dumps(content)
    answer = owner.get(f"/people/{person.pk}/export/?format=csv")
    assert answer["Content-Type"].startswith("text/csv")
    assert len(list(csv.reader(io.StringIO(text_of(answer))))) == len(content["rows"]) + 1
    assert owner.get(f"/people/{person.pk}/export/?format=xml").status_code == 400


def test_who_may_export(lab: SmallLab, owner: Client, person: User) -> None:
    address = f"/people/{person.pk}/export/"
    assert client_of(add_person(lab, Role.PI)).get(address).status_code == 200
    for role in (Role.VIEWER, Role.MEMBER):
        assert client_of(add_person(lab, role)).get(address).status_code == 403
    Lab.objects.filter(pk=lab.lab.pk).update(person_view="own")
    assert owner.get(address).status_code == 403
    assert client_of(person).get(address).status_code == 200
