"""The page Share a GPU: plans of jobs entered by hand and of measured runs, refusals, CSV."""

import re
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.accounts.models import User
from apps.catalog.matching import match_key
from apps.core.units import US_PER_HOUR
from apps.planner.gpu_sharing.jobs import Range, SharedCard, SharedJob, Use
from apps.planner.gpu_sharing.plans import SharingMode, plan_sharing
from apps.runs.models import Run
from tests.builders import SmallLab
from tests.dashboard.measured_runs import A100, START, idle_hours, measured_run
from tests.dashboard.support import HOSTILE, text_of
from tests.dashboard.test_planner import add_gpu, add_model
from tests.planner.gpu_sharing.examples import mig_card

pytestmark = pytest.mark.django_db
PAGE, CSV = "/planner/sharing/", "/planner/sharing/plans.csv"
A100_VALUE = "any.a10080gb"
WH, GIB = 3_600_000, 2**30


def entered(*rows: tuple[object, ...], **fields: object) -> dict[str, object]:
    """Return the fields of jobs entered by hand: memory, utilization, hours, and power."""
    query: dict[str, object] = {"card": A100_VALUE, "idle": 50, **fields}
    for number, row in enumerate(rows, start=1):
        names = ("memory", "use", "hours", "power")
        query |= {f"{name}_{number}": value for name, value in zip(names, row, strict=False)}
        query[f"name_{number}"] = f"job {number}"
    return query


def plan_of(page: str, mode: str) -> str:
    """Return the part of the page with a plan."""
    start = page.index(f'data-plan="{mode}"')
    return page[start : page.index("</article>", start)]


def cells(part: str) -> dict[str, tuple[int, int, int]]:
    ends = "".join(rf'\s+data-{end}="(-?\d+)"' for end in ("low", "likely", "high"))
    found = re.findall(rf'data-cell="(\w+)"{ends}', part)
    return {name: (int(low), int(likely), int(high)) for name, low, likely, high in found}


def places(part: str) -> dict[str, tuple[str, tuple[int, int, int], int]]:
    """Return profile, slowdown and likely time by job."""
    found = re.findall(
        r'data-place="([^"]+)"\s+data-profile="([^"]*)"\s+data-low="(\d+)"\s+data-likely="(\d+)"\s+'
        r'data-high="(\d+)"\s+data-time="(\d+)"',
        part,
    )
    return {
        key: (profile, (int(low), int(likely), int(high)), int(time_us))
        for key, profile, low, likely, high, time_us in found
    }


def reasons(part: str) -> dict[str, str]:
    return dict(re.findall(r'data-left-out="([^"]+)"\s+data-reason="(\w+)"', part))


def verdict(part: str) -> str:
    found = re.search(r'data-verdict="(\w+)"', part)
    assert found
    return found[1]


@pytest.fixture
def at_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the clock to five days after the runs."""
    monkeypatch.setattr("apps.dashboard.decorators.now_us", lambda: START + 120 * US_PER_HOUR)


def test_small_jobs_each_on_a_slice(owner: Client) -> None:
    """10 % of 108 SMs and 10 % more are below 14 SMs, 4 GiB × 1.1 below 10 GB. Saved: three idle
    hours at 50 W of 4 × 80 Wh.
    """
    response = owner.get(PAGE, entered(*[(4, 10, 1, 80)] * 4))
    page = text_of(response)
    assert response.status_code == 200
    hour = US_PER_HOUR
    assert cells(plan_of(page, "alone")) == {
        "time": (4 * hour,) * 3, "energy": (320 * WH,) * 3,
    }  # fmt: skip
    mig = plan_of(page, "mig")
    assert verdict(mig) == "gain"
    assert cells(mig) == {
        "time": (hour,) * 3, "energy": (170 * WH,) * 3, "saved": (150 * WH,) * 3,
    }  # fmt: skip
    assert places(mig) == {
        f"job-{number}": ("1g.10gb", (1_000_000,) * 3, hour) for number in range(1, 5)
    }
    assert "14 of 108 SMs" in mig
    assert 'data-model="Fixed share"' in mig
    assert re.findall(r'data-height="([\d.]+)"', mig) == ["12.96"] * 4
    assert 'data-idle="50000"' in page


def test_slowdown_of_each_mode_with_its_model(owner: Client) -> None:
    """60 % and 60 %. MPS and time slicing: ×1.2 (1.08 to 1.32) while both run. The first ends after
    1.2 h, the second had 1 h left. MIG: the longer job has 4g (56 SMs). The shorter one takes no
    longer on 2g (28 SMs), with fewer slices than 3g.
    """
    page = text_of(owner.get(PAGE, entered((4, 60, 1, 200), (4, 60, 2, 200))))
    hour = US_PER_HOUR
    for mode, model in (("mps", "Divided SMs"), ("time_slicing", "Divided time")):
        part = plan_of(page, mode)
        assert f'data-model="{model}"' in part
        assert places(part) == {
            "job-1": ("", (1_080_000, 1_200_000, 1_320_000), 12 * hour // 10),
            "job-2": ("", (1_040_000, 1_100_000, 1_160_000), 22 * hour // 10),
        }
        assert cells(part) == {
            "time": (208 * hour // 100, 220 * hour // 100, 232 * hour // 100),
            "energy": (554 * WH, 560 * WH, 566 * WH),
            "saved": (34 * WH, 40 * WH, 46 * WH),
        }
        assert re.findall(r'data-height="([\d.]+)"', part) == ["50.00", "50.00"]
    mig = places(plan_of(page, "mig"))
    assert (mig["job-2"][0], mig["job-2"][1][1]) == ("4g.40gb", 1_157_143)  # 0.6 × 108 ÷ 56
    assert (mig["job-1"][0], mig["job-1"][1][1]) == ("2g.20gb", 2_314_286)  # 0.6 × 108 ÷ 28


def test_the_page_has_the_figures_of_the_formulas(owner: Client) -> None:
    rows = [(12.5, 35, 2.25, 150), (3, 90, 0.5, 310), (30, 5, 7, 70)]
    page = text_of(owner.get(PAGE, entered(*rows, idle="43.7")))
    jobs = [
        SharedJob(
            key=f"job-{number}", user="me", memory_bytes=int(memory * GIB),
            duration_us=int(hours * US_PER_HOUR), gpu_mj=int(power * hours * 3_600_000),
            busy=Use(use * 10_000, use * 10_000),
        )
        for number, (memory, use, hours, power) in enumerate(rows, start=1)
    ]  # fmt: skip
    mig = mig_card()
    card = SharedCard(mig.memory_bytes, Range(43_700, 43_700, 43_700), mig)
    total_us, total_mj = sum(job.duration_us for job in jobs), sum(job.gpu_mj or 0 for job in jobs)
    for mode in SharingMode:
        plan = plan_sharing(mode, jobs, card)
        part = plan_of(page, mode.value)
        assert plan.saved_mj is not None
        assert plan.shared_us is not None
        found = cells(part)
        saved = plan.saved_mj
        assert found["saved"] == (saved.low, saved.likely, saved.high)
        assert found["energy"] == tuple(
            total_mj - value for value in (saved.high, saved.likely, saved.low)
        )
        later_us = total_us - plan.alone_us
        assert found["time"][1] == plan.shared_us.likely + later_us
        assert set(places(part)) == {place.key for place in plan.places}
        assert verdict(part) == plan.verdict.value


def test_jobs_that_fill_the_card_do_not_gain(owner: Client) -> None:
    page = text_of(owner.get(PAGE, entered((4, 100, 1, 400), (4, 100, 1, 400))))
    assert 'data-best=""' in page
    for mode in SharingMode:
        assert verdict(plan_of(page, mode.value)) == "no_gain"


def test_refused_because_of_memory_and_of_the_card(owner: Client) -> None:
    """36.5 GiB × 1.1 exceeds the slice of 40 GB, and twice the card."""
    page = text_of(owner.get(PAGE, entered((36.5, 10, 1, 80), (36.5, 10, 1, 80))))
    for mode in SharingMode:
        part = plan_of(page, mode.value)
        assert verdict(part) == "does_not_fit"
        assert set(reasons(part).values()) == {"no_partner"}
        assert not cells(part)
    page = text_of(owner.get(PAGE, entered((500, 10, 1, 80), (4, 10, 1, 80), (4, 10, 1, 80))))
    for mode in SharingMode:
        assert reasons(plan_of(page, mode.value)) == {"job-1": "memory"}
    assert reasons(plan_of(page, "alone")) == {"job-1": "memory"}
    assert cells(plan_of(page, "alone"))["time"][1] == 2 * US_PER_HOUR, "it cannot run on the card"


def test_a_card_of_the_lab_without_slices(owner: Client, lab: SmallLab) -> None:
    name = "NVIDIA Experimental Board 9"
    add_gpu(lab, name)
    value = f"{lab.node.uuid}.{match_key(name)}"
    response = owner.get(PAGE, entered((4, 10, 1, 80), (4, 10, 1, 80), card=value))
    assert response.status_code == 400, "its memory is unknown"
    assert 'data-field-error="card"' in text_of(response)
    add_model(name, 24)
    page = text_of(owner.get(PAGE, entered((4, 10, 1, 80), (4, 10, 1, 80), card=value)))
    assert verdict(plan_of(page, "mig")) == "no_slices"
    assert verdict(plan_of(page, "mps")) == "gain"


def test_unknown_power_and_unknown_idle_power_are_not_zero(owner: Client) -> None:
    page = text_of(owner.get(PAGE, entered((4, 10, 1, 80), (4, 10, 1))))
    mig = plan_of(page, "mig")
    assert cells(mig)["saved"] == (50 * WH,) * 3
    assert "energy" not in cells(mig)
    page = text_of(owner.get(PAGE, entered((4, 10, 1, 80), (4, 10, 1, 80), idle="")))
    mig = plan_of(page, "mig")
    assert "data-idle-unknown" in page
    assert verdict(mig) == "gain", "by time"
    assert set(cells(mig)) == {"time"}
    assert mig.count("data-unknown") == 2


@pytest.mark.usefixtures("at_the_runs")
def test_measured_runs_with_measured_idle_power(owner: Client, lab: SmallLab) -> None:
    """Two runs of 25 % and 4 GiB, an hour at 80 W. A slice of 2g has 28 of 108 SMs, 25.9 %, and a
    quarter of the memory. The bin of the 95th percentile ends at 30 %: at most 1.1 × 0.3 ÷ 0.25 =
    1.32 times as long, if kernels use all bandwidth. Saved: 0.68 h × 40 W to 1 h × 60 W.
    """
    runs = [measured_run(lab, minute=120 * number) for number in range(2)]
    idle_hours(lab, 40_000, 50_000, 60_000)
    page = text_of(owner.get(PAGE, {"card": A100_VALUE, "run": [str(run.uuid) for run in runs]}))
    assert page.count("data-candidate=") == 2
    assert 'data-idle="50000"' in page
    mig = plan_of(page, "mig")
    assert cells(plan_of(page, "alone"))["energy"] == (160 * WH,) * 3
    for run in runs:
        profile, slowdown, _ = places(mig)[str(run.uuid)]
        assert (profile, slowdown) == ("2g.20gb", (1_000_000, 1_000_000, 1_320_000))
    assert cells(mig)["saved"] == (272 * WH // 10, 50 * WH, 60 * WH)
    mps = plan_of(page, "mps")
    assert cells(mps)["saved"][1] == 50 * WH
    assert "data-other-cards" not in page
    other = text_of(owner.get(PAGE, {"card": "any.a30", "run": [str(run.uuid) for run in runs]}))
    assert "data-other-cards" in other


@pytest.mark.usefixtures("at_the_runs")
def test_refused_runs(owner: Client, lab: SmallLab) -> None:
    alone = measured_run(lab)
    runs = {
        "distributed": measured_run(lab, minute=120, gpus=2),
        "unknown_memory": measured_run(lab, minute=240, shared=True),
    }
    chosen = [str(run.uuid) for run in (alone, *runs.values())]
    page = text_of(owner.get(PAGE, {"card": A100_VALUE, "run": chosen, **entered((4, 10, 1, 80))}))
    for mode in ("mig", "time_slicing"):
        found = reasons(plan_of(page, mode))
        assert found == {str(run.uuid): reason for reason, run in runs.items()}
    assert reasons(plan_of(page, "mps"))[str(alone.uuid)] == "no_partner"
    assert reasons(plan_of(page, "alone")) == {str(runs["distributed"].uuid): "distributed"}


def test_an_own_run_and_a_job_entered_by_hand_share_mps(owner: Client, lab: SmallLab) -> None:
    run = measured_run(lab, user=lab.owner)
    query = {**entered((4, 10, 1, 80)), "run": str(run.uuid)}
    assert verdict(plan_of(text_of(owner.get(PAGE, query)), "mps")) == "gain"
    Run.objects.filter(pk=run.pk).update(user=User.objects.create_user(username="bob"))
    part = plan_of(text_of(owner.get(PAGE, query)), "mps")
    assert verdict(part) == "does_not_fit"


def test_an_empty_page(owner: Client) -> None:
    response = owner.get(PAGE)
    page = text_of(response)
    assert response.status_code == 200
    assert "data-no-candidates" in page
    assert "data-plan=" not in page
    assert f'href="{PAGE}"' in text_of(owner.get("/planner/"))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"card": "nope"}, "card"),
        ({"card": "\x00"}, "card"),
        ({"idle": "x"}, "idle"),
        ({"idle": "0"}, "idle"),
        ({"idle": "1e3"}, "idle"),
        ({"run": "x"}, "run"),
        ({"run": "\x00"}, "run"),
        ({"run": str(uuid4())}, "run"),
        ({"memory_2": "0"}, "memory_2"),
        ({"memory_2": ""}, "memory_2"),
        ({"use_2": "101"}, "use_2"),
        ({"use_2": ""}, "use_2"),
        ({"hours_2": "-1"}, "hours_2"),
        ({"hours_2": "1.0001"}, "hours_2"),
        ({"power_2": "\u0663"}, "power_2"),
        ({"name_2": "\x00"}, "name_2"),
        (dict.fromkeys(("name_2", "memory_2", "use_2", "hours_2", "power_2"), ""), "run"),
    ],
)
def test_errors_are_at_their_fields_and_keep_the_input(
    owner: Client, fields: dict[str, str], field: str
) -> None:
    query = {**entered((4.25, 10, 1, 80), (4, 10, 1, 80)), **fields}
    response = owner.get(PAGE, query)
    page = text_of(response)
    assert response.status_code == 400
    assert f'data-field-error="{field}"' in page
    assert "data-plan=" not in page
    assert 'value="4.25"' in page
    assert owner.get(CSV, query).status_code == 400


def test_more_than_eight_jobs(owner: Client, lab: SmallLab) -> None:
    runs = [str(measured_run(lab, minute=120 * number).uuid) for number in range(7)]
    rows = entered((4, 10, 1, 80), (4, 10, 1, 80))
    response = owner.get(PAGE, {**rows, "run": runs})
    assert response.status_code == 400
    assert 'data-field-error="run"' in text_of(response)
    assert owner.get(PAGE, {**rows, "run": runs[1:]}).status_code == 200


def test_csv_with_exact_integers(owner: Client) -> None:
    query = entered((4, 10, 1, 80), (4, 10, 1, 80), (500, 10, 1))
    query["name_1"] = "=cmd"
    response = owner.get(CSV, query)
    lines = b"".join(response.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    hour = US_PER_HOUR
    assert lines[0] == "plan,job,quantity,unit,low,likely,high,text"
    assert f"alone,'=cmd,energy,mj,{80 * WH},{80 * WH},{80 * WH}," in lines
    assert "alone,job 3,left_out,,,,,memory" in lines
    assert "mig,,verdict,,,,,gain" in lines
    assert f"mig,,saved,mj,{50 * WH},{50 * WH},{50 * WH}," in lines
    assert "mig,'=cmd,slice,sm,14,14,14,1g.10gb" in lines
    assert f"mps,job 2,time,us,{hour},{hour},{hour}," in lines
    assert "mig,job 3,left_out,,,,,memory" in lines
    assert owner.get(CSV).status_code == 400


def test_access(viewer: Client, outsider: Client, owner: Client, lab: SmallLab) -> None:
    """A viewer may. Another lab neither sees nor chooses a run or card. POST is not accepted."""
    runs = [str(measured_run(lab, minute=120 * number).uuid) for number in range(2)]
    query = {"card": A100_VALUE, "run": runs}
    for address in (PAGE, CSV):
        assert viewer.get(address, query).status_code == 200
        assert outsider.get(address, query).status_code == 400
        assert owner.post(address, query).status_code == 405
        assert Client().get(address, query).status_code == 302
    assert "data-candidate" not in text_of(outsider.get(PAGE))
    own_card = f"{lab.node.uuid}.{match_key(A100)}"
    assert own_card in text_of(owner.get(PAGE))
    refused = outsider.get(PAGE, entered((4, 10, 1), (4, 10, 1), card=own_card))
    assert refused.status_code == 400


def test_names_are_escaped(owner: Client, lab: SmallLab) -> None:
    run = measured_run(lab, name=HOSTILE[:200])
    query = {**entered((4, 10, 1, 80)), "run": str(run.uuid), "name_1": HOSTILE[:60]}
    response = owner.get(PAGE, query)
    assert response.status_code == 200
    assert "<script>alert" not in response.content.decode()


def test_the_number_of_queries_does_not_depend_on_runs(owner: Client, lab: SmallLab) -> None:
    rows = [measured_run(lab, minute=120 * number) for number in range(2)]
    query = {"card": A100_VALUE, "run": [str(run.uuid) for run in rows]}
    owner.get(PAGE, query)
    with CaptureQueriesContext(connection) as few:
        owner.get(PAGE, query)
    rows += [measured_run(lab, minute=120 * number, name=f"r{number}") for number in range(2, 8)]
    query["run"] = [str(run.uuid) for run in rows]
    with CaptureQueriesContext(connection) as many:
        owner.get(PAGE, query)
    assert len(few) == len(many) <= 26
