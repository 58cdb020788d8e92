"""Erase a person: no name remains, figures and the audit log stay valid, uploads do not bring it
back.
"""

from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from pytest_django import DjangoCaptureOnCommitCallbacks
from rest_framework.test import APIClient

from apps.accounts import audit
from apps.accounts.common_words import is_ordinary
from apps.accounts.models import AuditEntry, Lab, Membership, User
from apps.accounts.services.erasure import erase_again, erase_person
from apps.accounts.services.erasure_preview import preview
from apps.accounts.services.lab_texts import WITHOUT_NAMES, path_to_lab, text_fields
from apps.accounts.services.labs import create_project, issue_node_token
from apps.artifacts.models import CleanupItem, CleanupPlan, Copy
from apps.artifacts.services.copies import location_key
from apps.attribution.models import Attribution
from apps.attribution.services.rules import Criteria, drafted_rule, make_rule
from apps.carbon.figures.energy import figures_by
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.clock import now_us
from apps.core.erasure.list_file import list_path, read_list
from apps.core.erasure.names import ErasedNames, erased_names, name_digest, words_of
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import run_until_idle
from apps.core.models import ErasedName
from apps.core.units import hour_of
from apps.ingest.models import Consumer
from apps.runs.models import Run
from apps.runs.services.runs import RunFacts, put_run
from tests.artifacts.support import register_artifact
from tests.builders import T0, SmallLab, W, batch_body, push, small_lab

NAMES = ("zaphod", "Zaphod Beeblebrox", "zaphod.b@heart.example", "zbeeb")


def scan(*words: str) -> list[str]:
    """Return each column of the database with a value that contains one of the words."""
    tables = connection.introspection.table_names()
    places = []
    for table in tables:
        with connection.cursor() as cursor:
            cursor.execute(f'SELECT * FROM "{table}"')
            columns = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                for column, value in zip(columns, row, strict=True):
                    text = bytes(value).decode("utf-8", "replace") if isinstance(
                        value, bytes | memoryview) else str(value)  # fmt: skip
                    if any(word.casefold() in text.casefold() for word in words):
                        places.append(f"{table}.{column}: {text[:100]}")
    return places


@pytest.fixture
def person(lab: SmallLab) -> User:
    """A person with energy, runs, a rule, entries, files and notes in the lab."""
    user = User.objects.create_user("zaphod", email=NAMES[2], first_name="Zaphod",
                                    last_name="Beeblebrox")  # fmt: skip
    Membership.objects.create(lab=lab.lab, user=user, role="member")
    demo = lab.lab.projects.get(slug="demo")
    criteria = Criteria(os_user="zbeeb")
    rule = drafted_rule(lab=lab.lab, criteria=criteria, project=demo, person=user, from_us=T0)
    make_rule(rule=rule, by=lab.owner, now=T0)
    put_run(
        lab=lab.lab, uuid=uuid4(), by=user, bound_node=None, now=T0,
        facts=RunFacts(name="Zaphod's model", started_us=T0, os_user="zbeeb",
                       command=["python", "/home/zbeeb/train.py"], params={"out": "/home/zbeeb"}),
    )  # fmt: skip
    push(lab.node, [W("gpu:GPU-0000-0001", 60_000,
                      shares=(("proc:zbeeb/python", 40_000), ("idle", 20_000)))])  # fmt: skip
    run_until_idle(worker="test")
    audit.record(lab=lab.lab, by=user, action="test.act", subject="disk of zaphod",
                 details={"reason": "Zaphod Beeblebrox asked"}, now=T0)  # fmt: skip
    assert len(scan(*NAMES)) > 8
    return user


def _energy(lab: SmallLab) -> dict[Any, int]:
    query = FigureQuery("energy", hour_of(T0) - 1, hour_of(T0) + 2)
    figures = figures_by(lab.lab, query, ["person", "charge"])
    return {key: part.energy_mj for key, part in figures.items()}


def _erase(lab: SmallLab, person: User) -> Any:
    return erase_person(person=person, names=["zbeeb"], labs=[lab.lab], by=lab.owner, now=T0 + 9)


def test_no_name_remains_and_the_log_is_valid(lab: SmallLab, person: User) -> None:
    entries = AuditEntry.objects.filter(lab=lab.lab).order_by("sequence")
    digests = list(entries.values_list("digest", flat=True))
    result = _erase(lab, person)
    assert scan(*NAMES) == []
    assert list(entries.values_list("digest", flat=True))[: len(digests)] == digests
    assert audit.verify(lab.lab) is None
    assert entries.last().action == "person.erased"  # type: ignore[union-attr]
    person.refresh_from_db()
    assert (person.username, person.is_active) == (result.label, False)
    assert not Membership.objects.filter(user=person).exists()


def test_energy_and_attribution_stay(lab: SmallLab, person: User) -> None:
    energy = _energy(lab)
    before = list(Attribution.objects.order_by("pk").values_list("pk", "project", "person"))
    consumers = dict(Consumer.objects.values_list("pk", "kind"))
    assert any(project for _, project, _ in before)
    _erase(lab, person)
    run_until_idle(worker="test")
    assert _energy(lab) == energy
    assert sum(energy.values()) == 60_000
    assert list(Attribution.objects.order_by("pk").values_list("pk", "project", "person")) == before
    assert dict(Consumer.objects.values_list("pk", "kind")) == consumers
    assert Consumer.objects.filter(key="proc:erased-person-1-4/python").count() == 1


def test_a_name_that_no_entry_refers_to_is_chained_out(lab: SmallLab, person: User) -> None:
    audit.record(lab=lab.lab, by=None, action="test.act", subject="trillian", now=T0)
    assert scan("trillian")
    erase_person(person=person, names=["trillian"], labs=[lab.lab], by=None, now=T0)
    assert scan("trillian") == []
    assert audit.verify(lab.lab) is None
    assert AuditEntry.objects.filter(action="audit.rechained").count() == 1


def test_uploads_with_the_name_are_stored_without_it(lab: SmallLab, person: User) -> None:
    _erase(lab, person)
    token = issue_node_token(lab=lab.lab, node_uuid=lab.node.uuid, now=now_us())
    client = APIClient(headers={"authorization": f"Bearer {token}"})
    window = W("gpu:GPU-0000-0001", 500, start_us=T0 + 120_000_000, end_us=T0 + 180_000_000,
               seq=1, shares=(("proc:zbeeb/python", 300), ("proc:zbeeb/sh", 200)))  # fmt: skip
    body = batch_body(lab.node, [window], health={"note": "home of zbeeb"})
    for _repeated in range(2):
        sent = client.post("/api/v1/ingest/", body, format="json")
        assert sent.status_code == 200, sent.content
    assert [result[0] for result in sent.json()["results"]] == ["duplicate"]
    run = {"name": "Zaphod Beeblebrox", "started_at": "2026-11-02T00:00:00Z", "user": "zbeeb",
           "command": ["/home/ZBEEB/x"], "tags": {"zaphod": "1"}}  # fmt: skip
    sent = client.put(f"/api/v1/runs/{uuid4()}/", run, format="json")
    assert sent.status_code in {200, 201}, sent.content
    run_until_idle(worker="test")
    assert scan(*NAMES) == []
    assert Consumer.objects.filter(key="proc:erased-person-1-4/python").count() == 1
    assert Run.objects.filter(os_user="erased-person-1-4").count() == 2


def test_another_lab_keeps_its_names(lab: SmallLab, person: User) -> None:
    other = small_lab(name="Other Lab")
    put_run(lab=other.lab, uuid=uuid4(), by=None, bound_node=None, now=T0,
            facts=RunFacts(name="x", started_us=T0, os_user="zbeeb"))  # fmt: skip
    _erase(lab, person)
    assert Run.objects.get(lab=other.lab).os_user == "zbeeb"
    assert not Lab.objects.get(pk=other.lab.pk).has_erased_names


def test_who_cannot_be_erased(lab: SmallLab, person: User) -> None:
    with pytest.raises(Conflict), transaction.atomic():
        erase_person(person=lab.owner, names=[], labs=[lab.lab], by=None, now=T0)
    for names in (["admin"], ["x"], ["42"], ["…"], ["n" * 201]):
        with pytest.raises(InvalidInput), transaction.atomic():
            erase_person(person=person, names=names, labs=[lab.lab], by=None, now=T0)
    assert not ErasedName.objects.exists()


def test_the_list_contains_hashes_only(
    lab: SmallLab, person: User, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    list_path().unlink(missing_ok=True)
    with django_capture_on_commit_callbacks(execute=True):
        _erase(lab, person)
    text = list_path().read_text()
    assert not any(name.casefold() in text.casefold() for name in NAMES)
    assert list_path().stat().st_mode & 0o777 == 0o600
    rows = read_list(list_path())
    assert {(row.lab_id, row.digest) for row in rows} == set(
        ErasedName.objects.values_list("lab_id", "digest")
    )
    list_path().unlink()


def test_an_earlier_state_is_erased_again(lab: SmallLab, person: User) -> None:
    with transaction.atomic():
        _erase(lab, person)
        rows = list(ErasedName.objects.all())
        transaction.set_rollback(True)
    assert scan(*NAMES)
    for row in rows:
        row.pk = None
    erase_again(None, rows, T0 + 10)
    assert scan(*NAMES) == []
    assert audit.verify(lab.lab) is None
    assert not User.objects.get(pk=person.pk).is_active


def test_a_rotated_key_still_recognises_names(settings: Any, lab: SmallLab, person: User) -> None:
    _erase(lab, person)
    settings.TOKEN_PEPPERS = {**settings.TOKEN_PEPPERS, 99: b"x" * 32}
    assert erased_names(lab.lab.pk).text("by ZBEEB.") == "by erased-person-1-4."


def test_words_uuids_and_parts_of_words(db: None) -> None:
    pepper = max(settings.TOKEN_PEPPERS)
    rows = [
        ErasedName(lab_id=1, number=2, position=i, words=words_of(name), in_texts=True,
                   pepper=pepper, digest=name_digest(1, name, pepper), erased_us=0)
        for i, name in enumerate(("abba", "Zoë Quill", "z.q@x.example"), 1)
    ]  # fmt: skip
    names = ErasedNames(1, rows)
    for text, expected in (
        (
            "ABBA, abba_1 and /home/abba/x",
            "erased-person-2, erased-person-2_1 and /home/erased-person-2/x",
        ),
        ("abbas grabba", "abbas grabba"),
        ("00000000-abba-0000-0000-000000000000", "00000000-abba-0000-0000-000000000000"),
        ("zoe\u0308 quill", "erased-person-2-2"),
        ("<z.q@x.example>", "<erased-person-2-3>"),
        ("", ""),
    ):
        assert names.text(text) == expected
    assert names.replace({"abba": "abba", "proc:abba/x": 1}) == {
        "abba": "erased-person-2", "proc:erased-person-2/x": 1,
    }  # fmt: skip


def test_each_table_with_texts_leads_to_its_lab_or_is_listed() -> None:
    for model in apps.get_models():
        if text_fields(model) and model._meta.label not in WITHOUT_NAMES:
            assert path_to_lab(model), model._meta.label


def test_the_command_lists_first_and_erases_with_confirm(lab: SmallLab, person: User) -> None:
    out = StringIO()
    call_command("erase_person", "zaphod", "--name", "zbeeb", stdout=out)
    assert scan(*NAMES)
    call_command("erase_person", "zaphod", "--name", "zbeeb", "--confirm", stdout=out)
    assert scan(*NAMES) == []
    with pytest.raises(CommandError):
        call_command("erase_person", "zaphod")


def test_the_key_of_a_path_follows(lab: SmallLab, person: User) -> None:
    artifact = register_artifact(lab, "m")
    copy = Copy.objects.create(
        lab=lab.lab, artifact=artifact, node=lab.node, path="/home/zbeeb/m.pt", medium="unknown",
        location_key=location_key(lab.node, "/home/zbeeb/m.pt"), first_observed_us=T0,
        last_observed_us=T0, hashed_us=T0,
    )  # fmt: skip
    _erase(lab, person)
    copy.refresh_from_db()
    assert copy.location_key == location_key(lab.node, copy.path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("will", True), ("may", True), ("Mark", True), ("adam", True), ("ada", True), ("li", True),
        ("admin", True), ("wood", True), ("mark may", True), ("jo.x", False), ("zaphod", False),
        ("Mark Zworykin", False), ("will@x.example", False), ("mjones2", False), ("a-b", True),
    ],
)  # fmt: skip
def test_names_that_are_ordinary_words(name: str, expected: bool) -> None:
    assert is_ordinary(name) is expected


def _copy(lab: SmallLab, name: str, path: str) -> Copy:
    return Copy.objects.create(
        lab=lab.lab, artifact=register_artifact(lab, name), node=lab.node, path=path,
        medium="unknown", location_key=location_key(lab.node, path), first_observed_us=T0,
        last_observed_us=T0, hashed_us=T0,
    )  # fmt: skip


def test_a_name_that_is_a_word_is_replaced_only_where_it_is_a_name(lab: SmallLab) -> None:
    person = User.objects.create_user("will", first_name="Mark")
    Membership.objects.create(lab=lab.lab, user=person, role="member")
    texts = {"name": "this will mark all", "command": ["mark", "/home/will/x", "--will"],
             "params": {"user": "will", "note": "you will see", "project": "will"}}  # fmt: skip
    run, _ = _put(lab, os_user="will", **texts)
    push(lab.node, [W("gpu:GPU-0000-0001", 60_000,
                      shares=(("proc:will/will", 40_000), ("idle", 20_000)))])  # fmt: skip
    erase_person(person=person, names=[], labs=[lab.lab], by=None, now=T0)
    lab.lab.refresh_from_db()
    later, _ = _put(lab, os_user="will", **texts)
    push(lab.node, [W("gpu:GPU-0000-0001", 10, start_us=T0 + 120_000_000, end_us=T0 + 180_000_000,
                      seq=1, shares=(("proc:will/python", 10),))])  # fmt: skip
    for row in Run.objects.filter(pk__in=(run.pk, later.pk)):
        assert row.os_user == "erased-person-1"
        assert row.name == "this will mark all"
        assert row.command == ["mark", "/home/erased-person-1/x", "--will"]
        assert row.params == {"user": "erased-person-1", "note": "you will see", "project": "will"}
    assert Consumer.objects.filter(key="proc:erased-person-1/will").exists()
    assert not Consumer.objects.filter(key__startswith="proc:will").exists()


def test_slugs_and_paths_of_others_stay(lab: SmallLab, person: User) -> None:
    slug = create_project(lab=lab.lab, slug="zaphod-thesis", name="By zaphod", by=lab.owner, now=T0)
    paths = ("/data/zaphod/m", "/home/other/zaphod.pt", "/home/zaphod.old/m", "/home/zaphodx/m")
    kept = [_copy(lab, f"k{i}", path) for i, path in enumerate(paths)]
    _erase(lab, person)
    slug.refresh_from_db()
    assert (slug.slug, slug.name) == ("zaphod-thesis", "By erased-person-1")
    for copy, path in zip(kept, paths, strict=True):
        copy.refresh_from_db()
        assert (copy.path, copy.location_key) == (path, location_key(lab.node, path))
    lab.lab.refresh_from_db()
    run, _ = _put(lab, name="x", project="zaphod-thesis")
    assert run.project == slug


def test_the_texts_with_a_name_are_listed_before(lab: SmallLab, person: User) -> None:
    _copy(lab, "a", "/data/zaphod/m")
    _put(lab, name="this will work", os_user="will")
    rows = {row.name: row for row in preview(lab.lab, ["zaphod", "will", "trillian"])}
    assert [(row.is_ordinary, row.is_selected) for row in rows.values()] == [
        (False, True), (True, False), (False, True),
    ]  # fmt: skip
    assert ("artifacts.Copy.path", "/data/zaphod/m") in rows["zaphod"].kept
    assert ("runs.Run.name", "Zaphod's model") in rows["zaphod"].texts
    assert rows["will"].texts == [("runs.Run.name", "this will work")]
    assert (rows["trillian"].text_count, rows["trillian"].kept_count) == (0, 0)


def test_an_open_cleanup_plan_with_files_of_the_person_is_completed_first(
    lab: SmallLab, person: User
) -> None:
    copy = _copy(lab, "a", "/home/zbeeb/m")
    plan = CleanupPlan.objects.create(lab=lab.lab, node=lab.node, created_us=T0)
    CleanupItem.objects.create(
        plan=plan, copy=copy, artifact=copy.artifact, retention_class="checkpoint", due_us=T0,
        is_last_copy=False, selected=True,
    )  # fmt: skip
    with pytest.raises(Conflict), transaction.atomic():
        _erase(lab, person)
    CleanupPlan.objects.update(state="withdrawn")
    _erase(lab, person)
    copy.refresh_from_db()
    assert copy.path == "/home/erased-person-1-4/m"


def _put(lab: SmallLab, project: str = "", **facts: Any) -> Any:
    return put_run(lab=lab.lab, uuid=uuid4(), by=None, bound_node=None, now=T0,
                   facts=RunFacts(started_us=T0, project=project or None, **facts))  # fmt: skip
