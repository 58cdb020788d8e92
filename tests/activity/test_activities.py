"""Activities through the ledger: worked examples, scopes, repetition and withdrawal."""

from typing import Any

import pytest

from apps.accounts.models import AuditEntry
from apps.activity.models import Activity
from apps.activity.services import preview_activity, record_activity, withdraw_activity
from apps.carbon.figures.energy import figure
from apps.carbon.figures.figure_query import FigureQuery, hours_of_us
from apps.core.clock import now_us
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import run_until_idle
from apps.core.units import MJ_PER_KWH
from apps.energy.models import LedgerEntry
from apps.fleet.models import Site
from apps.ingest.models import ConsumerHour, EnergyWindow
from tests.activity.support import DAY_US, YEAR_2021, draft
from tests.builders import T0, SmallLab, W, push, small_lab

pytestmark = pytest.mark.django_db


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def record(lab: SmallLab, **changes: Any) -> Activity:
    activity, _ = record_activity(lab=lab.lab, draft=draft(**changes), by=lab.owner, now=now_us())
    run_until_idle(worker="test")
    return activity


def query(lab: SmallLab, **changes: Any) -> FigureQuery:
    from_hour, to_hour = hours_of_us(YEAR_2021[0], 1_900_800_000_000_000)
    whole = FigureQuery(
        metric="emission_ug", from_hour=from_hour, to_hour=to_hour, basis=lab.lab.basis
    )
    return whole.replace(**changes)


YEAR: dict[str, Any] = {"start_us": YEAR_2021[0], "end_us": YEAR_2021[1], "zone": ""}


@pytest.mark.parametrize(
    ("changes", "kwh", "facility_kwh", "tonnes"),
    [
        # Luccioni et al. 2022, BLOOM: 433 196 kWh, 24.69 t
        (
            {
                "kind": "external_cluster",
                "inputs": {"gpu_hours": 1082990, "watts_per_gpu": 400},
                "ug_per_kwh": 57_000_000,
                "pue_ppm": 1_000_000,
            },
            433_196,
            433_196,
            "24.692",
        ),
        # Touvron et al. 2023, LLaMA-65B: 449 MWh, 173 t
        (
            {
                "kind": "external_cluster",
                "inputs": {"gpu_hours": 1022362, "watts_per_gpu": 400},
                "ug_per_kwh": 385_000_000,
                "pue_ppm": 1_100_000,
            },
            408_944.8,
            449_839.28,
            "173.188",
        ),
    ],
    ids=["bloom", "llama"],
)
def test_published_trainings(
    lab: SmallLab, changes: dict[str, Any], kwh: float, facility_kwh: float, tonnes: str
) -> None:
    record(lab, **YEAR, **changes)
    found = figure(lab.lab, query(lab, subject_kind="project", subject_key="demo"))
    assert found.energy_mj == round(kwh * 10) * MJ_PER_KWH // 10
    assert abs(found.facility_energy_mj / MJ_PER_KWH - facility_kwh) < 0.01
    assert f"{found.emission_ug / 1e12:.3f}" == tonnes


def test_a_stored_terabyte(lab: SmallLab) -> None:
    """1 TB on hard disk for a year without PUE, at 500 g/kWh: 5.694 kWh, 2.847 kg."""
    inputs = {"provider": "other", "tb_months": 12, "medium": "hdd"}
    record(
        lab, **YEAR, kind="cloud_storage", inputs=inputs, ug_per_kwh=500_000_000, pue_ppm=1_000_000
    )
    found = figure(lab.lab, query(lab))
    assert found.energy_mj == 5_694 * MJ_PER_KWH // 1000
    assert abs(found.emission_ug - 2_847_000_000) <= 8760 / 2


def test_the_same_external_id_changes_nothing_or_is_refused(lab: SmallLab) -> None:
    first = record(lab, external_id="bill-7")
    before = figure(lab.lab, query(lab))
    again, created = record_activity(
        lab=lab.lab,
        draft=draft(external_id="bill-7", inputs={"kwh": "12.0"}),
        by=lab.owner,
        now=now_us(),
    )
    run_until_idle(worker="test")
    assert (again.pk, created) == (first.pk, False)
    assert figure(lab.lab, query(lab)) == before
    for changes in ({"inputs": {"kwh": 13}}, {"zone": "FR"}, {"name": "other"}, {"project": ""}):
        with pytest.raises(Conflict) as caught:
            record(lab, **{"external_id": "bill-7", **changes})
        assert caught.value.field == "external_id"
    assert Activity.objects.count() == 1
    assert figure(lab.lab, query(lab)) == before
    withdraw_activity(activity=first, reason="wrong", by=lab.owner, now=now_us())
    with pytest.raises(Conflict, match="withdrawn"):
        record(lab, external_id="bill-7")


def test_withdrawal_restores_every_figure(lab: SmallLab) -> None:
    """Energy of others, and of another activity in the same hours, stays to the integer."""
    push(lab.node, [W("gpu:GPU-0000-0001", 123_457)])
    record(lab, name="other", inputs={"kwh": "1.000000001"})
    scopes = [
        {"profile": profile, "scope": scope}
        for profile in ("ghg_protocol", "lesson")
        for scope in ("", "2", "3")
    ]
    before = [figure(lab.lab, query(lab, **scope)) for scope in scopes]
    entries = set(LedgerEntry.objects.values_list("device", "hour", "energy_mj"))
    windows = EnergyWindow.objects.count()
    activity = record(lab, kind="network_transfer", inputs={"gigabytes": "333.333"})
    added = figure(lab.lab, query(lab))
    assert added.energy_mj == before[0].energy_mj + activity.energy_mj
    withdraw_activity(activity=activity, reason="double", by=lab.owner, now=now_us())
    run_until_idle(worker="test")
    assert [figure(lab.lab, query(lab, **scope)) for scope in scopes] == before
    assert set(LedgerEntry.objects.values_list("device", "hour", "energy_mj")) == entries
    assert EnergyWindow.objects.count() == windows
    assert not ConsumerHour.objects.filter(device=activity.device).exists()
    activity.refresh_from_db()
    assert (activity.withdrawn_reason, activity.withdrawn_by) == ("double", lab.owner)
    with pytest.raises(Conflict):
        withdraw_activity(activity=activity, reason="again", by=lab.owner, now=now_us())
    actions = list(AuditEntry.objects.order_by("sequence").values_list("action", flat=True))
    assert actions[-1] == "activity.withdrawn"
    assert actions.count("activity.recorded") == 2


CLOUD = {"provider": "aws", "tb_months": 1, "medium": "hdd"}


@pytest.mark.parametrize(
    ("kind", "inputs", "scope"),
    [
        ("cloud_storage", CLOUD, "3.1"),
        ("cloud_backup", CLOUD, "3.1"),
        ("external_cluster", {"kwh": 5}, "3.1"),
        ("external_cluster", {"kwh": 5, "boundary": "inside"}, "2"),
        ("network_transfer", {"gigabytes": 100}, "3.1"),
        ("file_server", {"kwh": 5}, "2"),
        ("other_device", {"device": "laptop", "kwh": 5}, "2"),
    ],
)
def test_scopes(lab: SmallLab, kind: str, inputs: dict[str, Any], scope: str) -> None:
    """Cloud and external electricity is Scope 3 category 1, and Scope 2 of the course scheme. The
    grand total is equal.
    """
    record(lab, kind=kind, inputs=inputs)
    whole = figure(lab.lab, query(lab))
    assert whole.emission_ug > 0
    assert figure(lab.lab, query(lab, scope=scope)) == whole
    lesson = query(lab, profile="lesson")
    assert figure(lab.lab, lesson) == whole
    assert figure(lab.lab, lesson.replace(scope="2")) == whole


def test_activities_with_other_control_have_other_sites(lab: SmallLab) -> None:
    record(lab, pue_ppm=1_135_000)
    record(lab, kind="cloud_storage", inputs=CLOUD)
    controls = Site.objects.filter(kind="declared").values_list("control", flat=True)
    assert sorted(controls) == ["cloud", "own"]


def test_gpus_of_the_catalogue(lab: SmallLab) -> None:
    inputs = {
        "provider": "aws",
        "hours": 100,
        "utilization": 50,
        "gpu": "NVIDIA A100-SXM4-80GB",
        "gpus": 8,
    }
    week: dict[str, Any] = {"kind": "cloud_compute", "end_us": T0 + 7 * DAY_US}
    activity = record(lab, **week, inputs=inputs)
    assert activity.energy_mj == 100 * 8 * 200 * MJ_PER_KWH // 1000
    assert activity.embodied_ug is not None
    assert activity.embodied_source
    with pytest.raises(InvalidInput) as caught:
        record(lab, **week, inputs={**inputs, "gpu": "no such"})
    assert caught.value.field == "gpu"


def test_hours_of_several_units_can_be_summed_by_a_bill(lab: SmallLab) -> None:
    """A bill states instance-hours. A person enters hours of one instance and their number."""
    inputs = {"provider": "aws", "hours": 48, "utilization": 50, "vcpus": 1}
    summed = draft(kind="cloud_compute", inputs=inputs)
    counted = draft(kind="cloud_compute", inputs={**inputs, "hours": 24, "instances": 2})
    found = [
        preview_activity(lab=lab.lab, draft=each, now=now_us()).estimate.energy_mj
        for each in (summed, counted)
    ]
    assert found[0] == found[1] > 0
    with pytest.raises(InvalidInput) as caught:
        record(lab, kind="cloud_compute", inputs=inputs)
    assert caught.value.field == "hours"
    assert record(lab, kind="cloud_compute", inputs=counted.inputs).energy_mj == found[1]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": " "}, "name"),
        ({"kind": "nope"}, "kind"),
        ({"project": "nope"}, "project"),
        ({"zone": "Atlantis"}, "zone"),
        ({"zone": ""}, "zone"),
        ({"ug_per_kwh": 5}, "zone"),
        ({"zone": "", "ug_per_kwh": 0}, "g_per_kwh"),
        ({"end_us": 0}, "to"),
        ({"start_us": -1}, "from"),
        ({"end_us": 2**52}, "to"),
        ({"pue_ppm": 999_999}, "pue"),
        ({"inputs": {"kwh": 10**11}}, "inputs"),
        ({"name": "a\x00b"}, "name"),
        ({"external_id": "x" * 201}, "external_id"),
    ],
)
def test_invalid_drafts_store_nothing(lab: SmallLab, changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        record(lab, **changes)
    assert caught.value.field == field
    assert not Activity.objects.exists()
    assert not EnergyWindow.objects.exists()
