"""/people/<id>/erase/ and /people/<id>/export/."""

import csv
import io
import json

import pytest
from django.test import Client

from apps.accounts.choices import Role
from apps.accounts.models import Lab, Membership, User
from apps.attribution.services.rules import Criteria, drafted_rule, make_rule
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
    wrong = owner.post(address, {"names": "zbeeb", "confirm": "someone"})
    assert (wrong.status_code, User.objects.get(pk=person.pk).is_active) == (400, True)
    name = person.username
    assert owner.post(address, {"names": "zbeeb", "confirm": name}).status_code == 302
    assert not User.objects.get(pk=person.pk).is_active
    for page in map(text_of, map(owner.get, ("/people/", "/audit/", "/audit.csv", "/rules/"))):
        assert name not in page
        assert "zbeeb" not in page
    assert owner.get(address).status_code == 404


def test_who_may_erase(lab: SmallLab, owner: Client, person: User) -> None:
    address = f"/people/{person.pk}/erase/"
    for role in (Role.VIEWER, Role.MEMBER, Role.PI):
        client = client_of(add_person(lab, role))
        assert client.get(address).status_code == 403
        assert client.post(address, {"confirm": person.username}).status_code == 403
        assert address not in text_of(client.get("/people/"))
    own = f"/people/{lab.owner.pk}/erase/"
    assert owner.post(own, {"confirm": lab.owner.username}).status_code == 409
    other = small_lab(name="Other Lab")
    Membership.objects.create(lab=other.lab, user=person, role=Role.VIEWER)
    assert owner.post(address, {"confirm": person.username}).status_code == 409
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
