"""/trackers/mlflow/: servers that are polled, added, tried, changed, switched and removed."""

import re
from collections.abc import Iterator

import pytest
from django.test import Client

from apps.accounts.choices import Role
from apps.accounts.models import AuditEntry, Membership, Project, User
from apps.core.models import Job
from apps.runs.models import Run
from apps.trackers.mlflow.models import MlflowRun, MlflowSource
from tests.builders import T0, SmallLab
from tests.dashboard.support import (
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    queries,
    text_of,
    without_secrets,
)
from tests.fakes.mlflow_server import FakeMlflow, fake_mlflow
from tests.trackers.mlflow_support import poll, source_at, training, watts

PAGE = "/trackers/mlflow/"


@pytest.fixture
def fake() -> Iterator[FakeMlflow]:
    with fake_mlflow() as server:
        yield server


def _form(lab: SmallLab, at: str, **more: str) -> dict[str, str]:
    told = {
        "name": "Our MLflow",
        "address": at,
        "sign_in": "none",
        "user": "",
        "secret": "",
        "patterns": "",
        "project": "demo",
        "node": "",
        "site": str(lab.site.pk),
        "writes_verdicts": "on",
        **more,
    }
    return {name: value for name, value in told.items() if value is not None}


def test_a_server_is_added_and_tried_at_once(
    lab: SmallLab, owner: Client, fake: FakeMlflow
) -> None:
    fake.experiments = {str(i): f"e{i}" for i in range(12)}
    page = text_of(owner.post(PAGE, _form(lab, fake.address), follow=True))
    assert "Reached, MLflow 3.4.0, 12 experiments." in page
    assert "data-no-response" in page
    assert "export MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING=true" in page
    assert f"export MLFLOW_TRACKING_URI={fake.address}" in page
    assert "pip install ./collector" in page
    assert Job.objects.filter(kind="trackers.mlflow").exists()
    assert "Our MLflow" in text_of(owner.get(PAGE))
    assert AuditEntry.objects.filter(action="tracker.added").exists()


def test_what_it_says_of_a_server_that_is_wrong(lab: SmallLab, owner: Client) -> None:
    page = text_of(owner.post(PAGE, _form(lab, "http://127.0.0.1:1"), follow=True))
    assert "127.0.0.1:1 refused the connection: is the server running?" in page


def test_a_password_is_sealed_and_never_shown(
    lab: SmallLab, owner: Client, fake: FakeMlflow
) -> None:
    told = _form(lab, fake.address, sign_in="password", user="ada", secret="hunter2-hunter2")
    page = text_of(owner.post(PAGE, told, follow=True))
    source = MlflowSource.objects.get()
    for text in (
        page,
        text_of(owner.get(PAGE)),
        source.secret,
        str(list(AuditEntry.objects.values())),
    ):
        assert "hunter2" not in text
    assert fake.received_headers[-1]["Authorization"].startswith("Basic ")
    # an error shows what was typed, but not the password
    wrong = text_of(owner.post(PAGE, {**told, "name": ""}))
    assert "hunter2" not in wrong
    assert "ada" in wrong
    # left empty, it stays
    owner.post(f"{PAGE}{source.pk}/", {**told, "action": "save", "secret": "", "name": "Renamed"})
    after = MlflowSource.objects.get()
    assert (after.name, after.secret) == ("Renamed", source.secret)


def test_experiments_by_name(lab: SmallLab, owner: Client, fake: FakeMlflow) -> None:
    Project.objects.create(lab=lab.lab, slug="nlp", name="NLP", created_us=T0)
    page = text_of(
        owner.post(
            PAGE,
            _form(lab, fake.address, patterns="vision-* = demo\n\n a=b = nlp\n", project=""),
            follow=True,
        )
    )
    assert "vision-* = demo\na=b = nlp" in page
    source = MlflowSource.objects.get()
    assert [(row.pattern, row.project.slug) for row in source.patterns.order_by("position")] == [
        ("vision-*", "demo"),
        ("a=b", "nlp"),
    ]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"address": "mlflow.example.org"}, "address"),
        ({"address": "https://ada:pw@mlflow.example.org"}, "address"),
        ({"sign_in": "magic"}, "sign_in"),
        ({"sign_in": "password", "user": ""}, "user"),
        ({"sign_in": "token"}, "secret"),
        ({"sign_in": "token", "secret": "a\nb"}, "secret"),
        ({"sign_in": "token", "secret": "tökén"}, "secret"),
        ({"project": ""}, "project"),
        ({"project": "nope"}, "project"),
        ({"patterns": "vision"}, "patterns"),
        ({"patterns": "vision = nope"}, "patterns"),
        ({"patterns": "\n".join(f"e{i} = demo" for i in range(60))}, "patterns"),
        ({"node": "nope"}, "node"),
        ({"site": ""}, "site"),
        ({"site": "99999"}, "site"),
        ({"name": "a\x00b"}, "name"),
    ],
)
def test_a_wrong_value_is_shown_at_its_field_and_adds_nothing(
    lab: SmallLab, owner: Client, change: dict[str, str], field: str
) -> None:
    response = owner.post(PAGE, _form(lab, "http://127.0.0.1:1", **change))
    assert response.status_code == 400
    assert re.findall(r'data-field-error="(\w+)"', text_of(response)) == [field]
    assert MlflowSource.objects.count() == 0


def test_each_wrong_line_of_the_experiments_is_named(lab: SmallLab, owner: Client) -> None:
    page = text_of(
        owner.post(PAGE, _form(lab, "http://127.0.0.1:1", patterns="vision\na = demo\nb = nope"))
    )
    assert "Line 1" in page
    assert "Line 2" not in page
    assert "Line 3" in page


def test_the_same_server_twice_is_a_mistake(lab: SmallLab, owner: Client, fake: FakeMlflow) -> None:
    source_at(fake, lab)
    response = owner.post(PAGE, _form(lab, fake.address + "/"))
    assert (response.status_code, "already exists" in text_of(response)) == (400, True)


def test_what_was_read_and_what_was_not(lab: SmallLab, owner: Client, fake: FakeMlflow) -> None:
    source = source_at(fake, lab)
    training(fake, "a1")
    fake.add("a2", start_ms=0)
    poll(source)
    page = text_of(owner.get(f"{PAGE}{source.pk}/"))
    assert 'data-imported-runs="1"' in page
    assert 'data-experiments="1/1"' in page
    assert page.count("data-import-problem") == 1
    fake.faults["*"] = (401, {}, b"")
    poll(source)
    page = text_of(owner.get(f"{PAGE}{source.pk}/"))
    assert "wants a user and password or a token" in page
    assert "data-problem" in page
    assert 'data-state="failed"' in text_of(owner.get(PAGE))


def test_its_clock_is_told(lab: SmallLab, owner: Client, fake: FakeMlflow) -> None:
    source = source_at(fake, lab)
    MlflowSource.objects.update(skew_us=7 * 60_000_000)
    assert "7 minutes behind" in text_of(owner.get(f"{PAGE}{source.pk}/"))
    MlflowSource.objects.update(skew_us=-7 * 60_000_000)
    assert "7 minutes ahead of" in text_of(owner.get(f"{PAGE}{source.pk}/"))


def test_test_read_switch_and_remove(lab: SmallLab, owner: Client, fake: FakeMlflow) -> None:
    source = source_at(fake, lab)
    here = f"{PAGE}{source.pk}/"
    assert "Reached, MLflow" in text_of(owner.post(here, {"action": "test"}, follow=True))
    Job.objects.all().delete()
    assert "polled now" in text_of(owner.post(here, {"action": "read"}, follow=True))
    assert Job.objects.get().kind == "trackers.mlflow"
    assert "was disabled" in text_of(owner.post(here, {"action": "off"}, follow=True))
    assert 'data-state="running"' not in text_of(owner.get(here))
    assert "was enabled" in text_of(owner.post(here, {"action": "on"}, follow=True))
    assert 'value="remove"' in text_of(owner.get(f"{here}?remove=1"))
    assert 'value="remove"' not in text_of(owner.get(here))
    assert "was removed" in text_of(owner.post(here, {"action": "remove"}, follow=True))
    assert owner.get(here).status_code == 404
    response = owner.post(PAGE, {"action": "x"})
    assert response.status_code == 400


def test_an_unknown_act_is_told(lab: SmallLab, owner: Client, fake: FakeMlflow) -> None:
    response = owner.post(f"{PAGE}{source_at(fake, lab).pk}/", {"action": "explode"})
    assert (response.status_code, "Unknown action" in text_of(response)) == (400, True)


def test_viewers_and_members_look_and_change_nothing(
    lab: SmallLab, viewer: Client, fake: FakeMlflow
) -> None:
    source = source_at(fake, lab)
    member = Client()
    user = User.objects.create_user(username="member")
    Membership.objects.create(lab=lab.lab, user=user, role=Role.MEMBER)
    member.force_login(user)
    for client in (viewer, member):
        for address in (PAGE, f"{PAGE}{source.pk}/"):
            page = without_secrets(text_of(client.get(address)))
            assert 'name="action"' not in page
            assert "data-form" not in page
            assert (
                client.post(
                    address, {**_form(lab, "http://127.0.0.1:1"), "action": "remove"}
                ).status_code
                == 403
            )
    assert MlflowSource.objects.filter(removed_us=None).count() == 1


def test_another_labs_server_is_not_there(
    lab: SmallLab, outsider: Client, fake: FakeMlflow
) -> None:
    source = source_at(fake, lab, name="our secret server")
    assert "our secret server" not in text_of(outsider.get(PAGE))
    assert outsider.get(f"{PAGE}{source.pk}/").status_code == 404
    assert outsider.post(f"{PAGE}{source.pk}/", {"action": "remove"}).status_code == 404
    for choice in ({"node": str(lab.node.uuid)}, {"site": str(lab.site.pk)}):
        told = {
            **_form(lab, "http://127.0.0.1:1"),
            "project": "",
            "patterns": "x = default",
            "site": "",
            **choice,
        }
        assert outsider.post(PAGE, told).status_code == 400


def test_it_needs_a_session_and_answers_get_and_post(
    lab: SmallLab, owner: Client, fake: FakeMlflow
) -> None:
    here = f"{PAGE}{source_at(fake, lab).pk}/"
    for address in (PAGE, here):
        assert_needs_sign_in(address)
        assert_only(owner, address, "GET", "POST")
    assert owner.get(f"{PAGE}{2**70}/").status_code == 404


def test_the_queries_do_not_grow(lab: SmallLab, owner: Client, fake: FakeMlflow) -> None:
    source = source_at(fake, lab)
    fake.add("a0", start_ms=0)
    poll(source)
    few, one = queries(owner, PAGE), queries(owner, f"{PAGE}{source.pk}/")
    for i in range(4):
        source_at(fake, lab, address=f"{fake.address}/{i}")
        fake.add(f"b{i}", start_ms=0)
    poll(source)
    assert MlflowRun.objects.count() == 5
    assert (queries(owner, PAGE), queries(owner, f"{PAGE}{source.pk}/")) == (few, one)


def test_a_runs_page_says_what_mlflow_told(lab: SmallLab, owner: Client, fake: FakeMlflow) -> None:
    watts(training(fake, "a1"), 100.0)
    poll(source_at(fake, lab))
    page = text_of(owner.get(f"/runs/{Run.objects.get().uuid}/"))
    assert assert_each_figure_explains_itself(owner, page) > 0
    for words in ('data-tracker="mlflow"', 'data-warning="node-unknown"', "only source", "1 GPU"):
        assert words in page
    assert "6,000,000" in page or "1.67" in page


def test_a_server_that_stays_away_stands_on_the_overview(
    lab: SmallLab, owner: Client, fake: FakeMlflow
) -> None:
    source = source_at(fake, lab)
    fake.faults["*"] = (500, {}, b"")
    for failures in (1, 2, 3):
        poll(source)
        assert ("MLflow does not respond" in text_of(owner.get("/"))) == (failures == 3)
    fake.faults.clear()
    poll(source)
    assert "MLflow does not respond" not in text_of(owner.get("/"))
