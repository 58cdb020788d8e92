"""From the ledger to who bears a card: device-hours reserved, else used; idle, off and unknown
stay apart.
"""

import random
from itertools import pairwise
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from apps.accounts.models import Project
from apps.accounts.services.labs import create_project
from apps.assets.jobs import charge_job, use_all_job, use_job
from apps.assets.models import DeviceDay, EmbodiedCharge
from apps.assets.services import Draft, Embodied, Entry, Facts, record, register_many, set_meter
from apps.attribution.precedence import ConsumerSpan
from apps.attribution.services.rules import claim, undo_claim
from apps.core.clock import now_us
from apps.core.intervals import day_edges
from apps.core.jobs import run_until_idle
from apps.core.models import Job
from apps.core.units import US_PER_HOUR
from apps.energy.services.idle import set_idle_policy, withdraw_idle_policy
from apps.energy.services.ledger import rebuild_ledger
from apps.fleet.models import Device
from apps.ingest.models import Consumer
from apps.ingest.window_rules import job_run
from apps.runs.models import Run
from apps.runs.services.runs import RunFacts, put_run
from tests.assets.support import KG, borne, bought
from tests.builders import T0, SmallLab, W, push

pytestmark = pytest.mark.django_db
HOUR = US_PER_HOUR
D0 = T0 - 9 * HOUR  # a day of the lab (Europe/Berlin): 2026-11-01T23:00Z
NOW = T0 + 365 * 24 * HOUR
GPU = "gpu:GPU-1"


def day(lab: SmallLab, hours: dict[int, tuple[tuple[str, int], ...]], gpu: str = GPU) -> None:
    """Push whole hours of the day D0: what was used by whom, mJ."""
    windows = [
        W(
            gpu,
            sum(part for _, part in shares),
            D0 + hour * HOUR,
            D0 + (hour + 1) * HOUR,
            seq,
            shares,
            None,
            "nvml_power",
        )
        for seq, (hour, shares) in enumerate(sorted(hours.items()))
    ]
    push(lab.node, windows)


def card(lab: SmallLab, **more: object) -> tuple[object, Project]:
    asset = bought(
        lab, kg=365 * 24, years=1, at_us=D0, device=Device.objects.get(key=GPU), **more
    )  # 1 kg an hour
    return asset, create_project(lab=lab.lab, slug="vision", name="Vision", now=T0)


def summed(lab: SmallLab) -> None:
    use_all_job(str(lab.lab.pk))


def claimed(lab: SmallLab, key: str, project: Project) -> UUID:
    row = Consumer.objects.get(lab=lab.lab, key=key)
    return claim(
        lab=lab.lab,
        spans=[ConsumerSpan(row.pk, None, 0, 3_000_000)],
        project=project,
        by=None,
        now=NOW,
    )


def test_used_idle_and_not_measured_hours_are_borne_apart(lab: SmallLab) -> None:
    day(
        lab,
        {
            **dict.fromkeys(range(6), (("proc:ada/x", 1000),)),
            **dict.fromkeys(range(6, 18), (("idle", 10),)),
        },
    )
    asset, vision = card(lab)
    summed(lab)
    first = D0 // HOUR
    assert borne(asset, first, first + 24) == {
        (None, "used"): 6 * KG,
        (None, "idle"): 12 * KG,
        (None, "unmeasured"): 6 * KG,
    }
    act = claimed(lab, "proc:ada/x", vision)
    summed(lab)
    assert borne(asset, first, first + 24)["vision", "used"] == 6 * KG
    undo_claim(lab=lab.lab, act=act, by=None, now=NOW)
    summed(lab)
    assert borne(asset, first, first + 24)[None, "used"] == 6 * KG
    assert sum(borne(asset).values()) == 365 * 24 * KG


def test_an_hour_of_two_is_shared_by_energy(lab: SmallLab) -> None:
    day(lab, dict.fromkeys(range(24), (("proc:ada/x", 750), ("proc:ben/x", 250))))
    asset, vision = card(lab)
    claimed(lab, "proc:ada/x", vision)
    summed(lab)
    first = D0 // HOUR
    assert borne(asset, first, first + 24) == {("vision", "used"): 18 * KG, (None, "used"): 6 * KG}


def test_what_a_scheduler_reserved_counts_whether_it_was_used_or_not(lab: SmallLab) -> None:
    day(
        lab,
        {
            **dict.fromkeys(range(2), (("job:hpc/7", 1000),)),
            **dict.fromkeys(range(2, 24), (("idle", 10),)),
        },
    )
    asset, _ = card(lab)
    run, _ = put_run(
        lab=lab.lab,
        uuid=job_run("hpc/7"),
        facts=RunFacts(name="train", started_us=D0, project="vision"),
        by=None,
        bound_node=lab.node.uuid,
    )
    Run.objects.filter(pk=run.pk).update(
        ended_us=D0 + 8 * HOUR,
        job_facts={"reserved_gpus": 1, "gpus": {lab.node.hostname: ["GPU-1"]}},
    )
    summed(lab)
    first = D0 // HOUR
    assert borne(asset, first, first + 24) == {("vision", "used"): 8 * KG, (None, "idle"): 16 * KG}


def test_idle_time_follows_the_labs_policy_and_back(lab: SmallLab) -> None:
    day(
        lab,
        {
            **dict.fromkeys(range(6), (("proc:ada/x", 1000),)),
            **dict.fromkeys(range(6, 24), (("idle", 10),)),
        },
    )
    asset, vision = card(lab)
    claimed(lab, "proc:ada/x", vision)
    summed(lab)
    charge_job(str(lab.lab.pk))
    before = set(
        EmbodiedCharge.objects.values_list("from_hour", "to_hour", "project", "kind", "amount_ug")
    )
    set_idle_policy(lab=lab.lab, policy="by_energy", from_us=D0, by=None, now=NOW)
    charge_job(str(lab.lab.pk))
    first = D0 // HOUR
    assert borne(asset, first, first + 24) == {
        ("vision", "used"): 6 * KG,
        ("vision", "idle_share"): 18 * KG,
    }
    withdraw_idle_policy(lab=lab.lab, from_hour=D0 // HOUR, by=None, now=NOW)
    charge_job(str(lab.lab.pk))
    assert (
        set(
            EmbodiedCharge.objects.values_list(
                "from_hour", "to_hour", "project", "kind", "amount_ug"
            )
        )
        == before
    )


def test_a_projects_own_card_stays_idle_at_its_project(lab: SmallLab) -> None:
    day(lab, dict.fromkeys(range(24), (("idle", 10),)))
    mine = create_project(lab=lab.lab, slug="mine", name="Mine", now=T0)
    asset = bought(
        lab, kg=24, years=1, at_us=D0, device=Device.objects.get(key=GPU), opening={"project": mine}
    )
    summed(lab)
    assert {project for project, _ in borne(asset)} == {"mine"}


def test_a_machine_is_used_as_its_gpus_are(lab: SmallLab) -> None:
    day(lab, dict.fromkeys(range(24), (("proc:ada/x", 1000),)))
    day(lab, dict.fromkeys(range(24), (("idle", 10),)), gpu="gpu:GPU-2")
    day(lab, dict.fromkeys(range(24), (("idle", 10),)), gpu=f"cpu:{lab.node.uuid}/0")
    server = bought(lab, kg=24 * 365, years=1, at_us=D0, kind="server", name="ws-1")
    set_meter(asset=server, node=lab.node, from_us=D0, by=lab.owner, now=NOW)
    summed(lab)
    first = D0 // HOUR
    assert borne(server, first, first + 24) == {(None, "used"): 12 * KG, (None, "idle"): 12 * KG}


def test_a_rebuild_from_nothing_gives_the_same_integers(lab: SmallLab) -> None:
    day(lab, dict.fromkeys(range(3, 21), (("proc:ada/x", 700), ("idle", 300))))
    card(lab)
    summed(lab)
    kept = set(
        EmbodiedCharge.objects.values_list("from_hour", "to_hour", "project", "kind", "amount_ug")
    )
    rebuild_ledger(lab=lab.lab)
    DeviceDay.objects.all().delete()
    EmbodiedCharge.objects.all().delete()
    summed(lab)
    charge_job(str(lab.lab.pk))
    assert (
        set(
            EmbodiedCharge.objects.values_list(
                "from_hour", "to_hour", "project", "kind", "amount_ug"
            )
        )
        == kept
    )


@pytest.mark.parametrize("amortisation", ["linear", "sci"])
def test_day_by_day_in_any_order_is_as_from_nothing(lab: SmallLab, amortisation: str) -> None:
    day(lab, {0: (("proc:ada/x", 1000),)})
    meter = Device.objects.get(key=GPU)
    bought(
        lab,
        kg=1000,
        years=1,
        at_us=D0 - 3 * HOUR,
        device=meter,
        opening={"amortisation": amortisation},
    )
    gone = bought(lab, kg=1000, years=1, at_us=D0 - 900 * HOUR, device=meter)
    record(asset=gone, entry=Entry("dispose", D0 - 800 * HOUR), by=None, now=NOW)
    dice = random.Random(6)
    for number, offset in enumerate(dice.sample(range(9), 9)):
        start = D0 + offset * 24 * HOUR + dice.randrange(24) * HOUR
        shares = (
            ("proc:ada/x", dice.randrange(1, 9)),
            ("idle", 5),
            ("proc:ben/y", dice.randrange(1, 9)),
        )
        energy = sum(part for _, part in shares)
        push(
            lab.node,
            [W(GPU, energy, start, start + HOUR, 100 + number, shares, None, "nvml_power")],
        )
        Job.objects.filter(kind="assets.use").update(due_us=0)
        run_until_idle(worker="test")
    kept = set(
        EmbodiedCharge.objects.values_list("from_hour", "to_hour", "project", "kind", "amount_ug")
    )
    assert sum(row[4] for row in kept) == 2000 * KG
    charge_job(str(lab.lab.pk))
    assert (
        set(
            EmbodiedCharge.objects.values_list(
                "from_hour", "to_hour", "project", "kind", "amount_ug"
            )
        )
        == kept
    )


def test_a_day_that_goes_on_does_not_put_off_what_is_asked_for_now(lab: SmallLab) -> None:
    """The day is charged once more when it is over: that job waits, and an import is charged at
    once all the same.
    """
    day(lab, {0: (("proc:ada/x", 1000),)})
    card(lab)
    run_until_idle(worker="test")
    use_job(f"{lab.lab.pk}:{now_us() // HOUR // 24}")
    assert Job.objects.filter(kind__startswith="assets.", due_us__gt=now_us()).exists()
    opening = Entry("purchase", T0, embodied=Embodied(KG), life_hours=10)
    [found] = register_many(
        lab=lab.lab,
        drafts=[Draft(Facts("Switch", "network"), opening, deployed_us=T0)],
        by=None,
        now=now_us(),
    )
    run_until_idle(worker="test")
    assert borne(found) == {(None, "held"): KG}


def test_without_a_meter_nothing_is_asked_for_and_late_energy_is_charged(lab: SmallLab) -> None:
    day(lab, {0: (("proc:ada/x", 1000),)})
    assert not Job.objects.filter(kind__startswith="assets.").exists()
    asset, _ = card(lab)
    run_until_idle(worker="test")
    push(
        lab.node,
        [W(GPU, 5, D0 + 5 * HOUR, D0 + 6 * HOUR, 50, (("proc:ben/y", 5),), None, "nvml_power")],
    )
    Job.objects.filter(kind="assets.use", key=f"{lab.lab.pk}:{(D0 // HOUR + 5) // 24}").update(
        due_us=0
    )
    run_until_idle(worker="test")
    first = D0 // HOUR
    assert borne(asset, first, first + 24)[None, "used"] == 2 * KG


def test_claiming_charges_assets_anew_without_being_asked(lab: SmallLab) -> None:
    day(lab, dict.fromkeys(range(24), (("proc:ada/x", 1000),)))
    asset, vision = card(lab)
    run_until_idle(worker="test")
    claimed(lab, "proc:ada/x", vision)
    run_until_idle(worker="test")
    first = D0 // HOUR
    assert borne(asset, first, first + 24) == {("vision", "used"): 24 * KG}


def test_days_are_the_labs_also_where_clocks_change_or_are_off_the_hour() -> None:
    berlin = day_edges(493_224, 493_225, ZoneInfo("Europe/Berlin"))  # 2026-04-08
    assert len(berlin) == 2
    assert berlin[1] - berlin[0] == 24
    spring = day_edges(492_500, 493_300, ZoneInfo("Europe/Berlin"))
    assert {end - start for start, end in pairwise(spring)} == {23, 24}
    kathmandu = day_edges(493_224, 493_300, ZoneInfo("Asia/Kathmandu"))
    assert all(edge * 3600 % 3600 == 0 for edge in kathmandu)
    assert kathmandu[0] <= 493_224
