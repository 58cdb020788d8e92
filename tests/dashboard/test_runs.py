"""/runs/ and /runs/<uuid>/ ."""

import csv
import json
import re
from datetime import UTC, date, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.test import Client

from apps.accounts.models import Lab
from apps.carbon.figures.figure_query import iso_hour
from apps.core.units import US_PER_HOUR
from apps.runs.choices import RunState
from apps.runs.models import Metric, Run
from apps.runs.services.fingerprints import fingerprint_from_params, put_fingerprint
from apps.runs.services.runs import RunFacts, change_run, put_run
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.dashboard.conftest import client_of
from tests.dashboard.support import (
    HOSTILE,
    assert_each_figure_explains_itself,
    assert_needs_sign_in,
    assert_only,
    figures_on,
    gpu,
    many_projects,
    queries,
    text_of,
    use,
)


def _end(
    lab: SmallLab, uuid: object, minutes: int = 1, state: RunState = RunState.FINISHED
) -> None:
    change_run(
        lab=lab.lab,
        uuid=uuid,
        state=state,
        ended_us=T0 + minutes * MINUTE,
        exit_code=0,
        reported_energy_mj=None,
        bound_node=None,
    )  # type: ignore[arg-type]


def test_list_works(lab: SmallLab, owner: Client) -> None:
    for uuid in use(lab, runs=2):
        _end(lab, uuid, minutes=5)
    page = text_of(owner.get("/runs/"))
    assert page.count('href="/runs/') >= 2
    assert assert_each_figure_explains_itself(owner, page) == 6  # two runs and their sum


def test_filters_and_sort_live_in_the_address(lab: SmallLab, owner: Client) -> None:
    use(lab, name="alpha")
    use(lab, name="beta", project=None, first=1)
    page = text_of(owner.get("/runs/?text=alp&project=demo&state=running&sort=name"))
    assert "alpha" in page
    assert "beta" not in page
    assert 'aria-sort="ascending"' in page
    assert "sort=-name" in page
    assert "beta" in text_of(owner.get("/runs/?project=~unattributed"))
    assert 'data-empty="runs"' in text_of(owner.get("/runs/?text=gamma"))
    names = re.findall(r">(alpha|beta)</a>", text_of(owner.get("/runs/?sort=name")))
    assert names == ["alpha", "beta"]


def test_more_filters(lab: SmallLab, owner: Client) -> None:
    one, other = use(lab, runs=2)
    Run.objects.filter(uuid=one).update(intent="sweep", sweep="lr", host="gpu-7", name="alpha")
    Run.objects.filter(uuid=other).update(
        name="beta", started_us=T0 + 3 * 24 * 60 * MINUTE, user=None, charged_person=None
    )
    told = fingerprint_from_params({"lr": 0.1, "seed": 3})
    put_fingerprint(run=Run.objects.get(uuid=one), payload=told)
    for query in (
        "intent=sweep",
        "sweep=lr",
        "host=gpu-7",
        "params=lr%3D0.10",
        "params=lr%3D1e-1%2C+seed%3D3",
        "mine=1",
        "to=2026-11-02",
        "from=2026-11-01T00:00Z&to=2026-11-03T00:00Z",
        "from=2026-11-01&to=2026-11-03",
    ):
        page = text_of(owner.get(f"/runs/?{query}"))
        assert ("alpha</a>" in page, "beta</a>" in page) == (True, False), query
    assert 'data-empty="runs"' in text_of(owner.get("/runs/?params=lr%3D0.2"))


def test_chosen_columns_show_parameters_and_metrics(lab: SmallLab, owner: Client) -> None:
    uuid = use(lab)[0]
    run = Run.objects.get(uuid=uuid)
    put_fingerprint(run=run, payload=fingerprint_from_params({"lr": 0.1}))
    Metric.objects.create(run=run, name="val_acc", count=1, last_value=0.9123456)
    page = text_of(owner.get("/runs/?columns=lr,+val_acc,+depth"))
    for words in (
        ">lr</th>",
        ">0.1</td>",
        ">0.912346</td>",
        '<td class="num"><span class="u">–</span></td>',
    ):
        assert words in page
    lines = text_of(owner.get("/runs.csv?columns=lr,val_acc,depth")).splitlines()
    assert lines[0].endswith("period_to_utc,energy_state,lr,val_acc,depth")
    assert lines[1].endswith(",0.1,0.912346,")


def test_pages_of_fifty(lab: SmallLab, owner: Client) -> None:
    use(lab, runs=51)
    assert "page=2" in text_of(owner.get("/runs/"))
    second = text_of(owner.get("/runs/?page=2"))
    assert second.count("train.py</a>") == 1
    assert "Newer" in second


def test_empty_says_the_command(owner: Client) -> None:
    assert "labcarbon-collect run --project demo -- python3 -c" in text_of(owner.get("/runs/"))


@pytest.mark.parametrize(
    "query",
    [
        "sort=mass",
        "state=found",
        "intent=fun",
        "from=monday",
        "to=9999-12-31",
        "params=lr",
        "params=out_dir%3Dx",
        "columns=a,b,c,d,e,f,g,h,i",
        "page=0",
        "page=x",
        "page=²",
        "text=%00",
    ],
)
def test_bad_input_is_told_in_words(owner: Client, query: str) -> None:
    response = owner.get(f"/runs/?{query}")
    assert response.status_code == 400
    assert 'data-error="400"' in text_of(response)


def test_csv(lab: SmallLab, owner: Client) -> None:
    use(lab, name="=cmd()|calc")
    lines = text_of(owner.get("/runs.csv")).splitlines()
    assert lines[0].split(",")[9:] == [
        "energy_mj",
        "energy_kwh",
        "emission_ug_co2e",
        "emission_kg_co2e",
        "currency",
        "cost_ucurrency",
        "without_price_mj",
        "other_costs_ucurrency",
        "energy_of",
        "period_from_utc",
        "period_to_utc",
        "energy_state",
    ]
    assert "'=cmd()|calc" in lines[1]
    assert ",6000001," in lines[1]


DAY_US = 24 * US_PER_HOUR
NEXT_DAY = T0 // DAY_US * DAY_US + DAY_US


def _run_across_midnight(lab: SmallLab) -> UUID:
    """Upload a run with 3 000 mJ before a midnight in UTC and 5 000 after it, and one with 7 000
    on the next day. Another run ended before, and one began later.
    """
    [uuid, other, before, later] = [uuid4() for _ in range(4)]
    days = [
        (uuid, NEXT_DAY - 2 * US_PER_HOUR, NEXT_DAY + 2 * US_PER_HOUR),
        (other, NEXT_DAY + 3 * US_PER_HOUR, NEXT_DAY + 4 * US_PER_HOUR),
        (before, NEXT_DAY - 9 * US_PER_HOUR, NEXT_DAY - 8 * US_PER_HOUR),
        (later, NEXT_DAY + 30 * US_PER_HOUR, NEXT_DAY + 31 * US_PER_HOUR),
    ]
    for run, start_us, end_us in days:
        facts = RunFacts(
            name="train.py", started_us=start_us, project="demo", node_uuid=lab.node.uuid
        )
        put_run(lab=lab.lab, uuid=run, facts=facts, by=lab.owner, bound_node=None)
        Run.objects.filter(uuid=run).update(state="finished", ended_us=end_us)
    windows = [
        (uuid, 3_000, NEXT_DAY - US_PER_HOUR),
        (uuid, 5_000, NEXT_DAY + US_PER_HOUR),
        (other, 7_000, NEXT_DAY + 3 * US_PER_HOUR),
        (before, 11_000, NEXT_DAY - 9 * US_PER_HOUR),
        (later, 13_000, NEXT_DAY + 30 * US_PER_HOUR),
    ]
    push(
        lab.node,
        [
            W(gpu(), mj, start_us=at, end_us=at + MINUTE, seq=i, shares=((f"run:{run}", mj),))
            for i, (run, mj, at) in enumerate(sorted(windows, key=lambda row: row[2]))
        ],
    )
    return uuid


def _energies(client: Client, query: str) -> dict[str, list[str]]:
    """Return {energy_mj: [energy_of, period_from_utc, period_to_utc]} of runs.csv."""
    lines = list(csv.DictReader(text_of(client.get(f"/runs.csv?{query}")).splitlines()))
    columns = ("energy_of", "period_from_utc", "period_to_utc")
    return {line["energy_mj"]: [line[column] for column in columns] for line in lines}


def test_energy_is_of_the_whole_run_or_of_the_period_and_says_which(db: None) -> None:
    lab = small_lab(zone="DE")
    Lab.objects.filter(pk=lab.lab.pk).update(time_zone="UTC")
    client = client_of(lab.owner)
    _run_across_midnight(lab)
    day = f"{datetime.fromtimestamp(NEXT_DAY / 1e6, UTC):%Y-%m-%d}"
    period = f"from={day}&to={day}"
    whole = ["run", "", ""]
    assert _energies(client, period) == {"7000": whole}  # began in the period
    assert set(_energies(client, "")) == {"8000", "7000", "11000", "13000"}
    start, end = iso_hour(NEXT_DAY // US_PER_HOUR), iso_hour(NEXT_DAY // US_PER_HOUR + 24)
    clipped = ["period", start, end]
    assert _energies(client, f"{period}&clip=1") == {"5000": clipped, "7000": clipped}
    assert _energies(client, f"to={_day_before(day)}&clip=1") == {
        "3000": ["period", "", start],
        "11000": ["period", "", start],
    }
    assert 'data-energy-of="run"' in text_of(client.get(f"/runs/?{period}"))
    page = text_of(client.get(f"/runs/?{period}&clip=1"))
    assert 'data-energy-of="period"' in page
    assert sorted(value for query, value in figures_on(page) if "energy_mj" in query) == [
        5000,
        7000,
        12_000,  # their sum
    ]
    assert assert_each_figure_explains_itself(client, page) >= 4
    project = text_of(client.get(f"/projects/demo/?from={start}&to={end}"))
    assert 'data-energy-of="period"' in project
    assert {5000, 7000} <= {value for query, value in figures_on(project) if "subject=run" in query}


def _day_before(day: str) -> str:
    return str(date.fromisoformat(day) - timedelta(days=1))


def test_a_clip_needs_a_period(owner: Client) -> None:
    assert owner.get("/runs/?clip=1").status_code == 400
    assert owner.get("/runs.csv?clip=1").status_code == 400


def test_one_run(lab: SmallLab, owner: Client) -> None:
    uuid = use(lab)[0]
    Run.objects.filter(uuid=uuid).update(
        command=["python", "train.py", "--lr", "0.1"], params={"lr": 0.1}
    )
    _end(lab, uuid)
    page = text_of(owner.get(f"/runs/{uuid}/"))
    for words in (
        "Demo",
        "ada",
        "ws-1",
        "python train.py --lr 0.1",
        "Finished",
        "counter",
        "was idle",
    ):
        assert words in page
    assert assert_each_figure_explains_itself(owner, page) >= 5


def test_power_is_energy_over_time_and_a_gap_stays_one(lab: SmallLab, owner: Client) -> None:
    uuid = use(lab)[0]
    push(
        lab.node,
        [
            W(
                gpu(),
                60_000,
                start_us=T0 + 30 * MINUTE,
                end_us=T0 + 31 * MINUTE,
                seq=30,
                shares=((f"run:{uuid}", 60_000),),
            )
        ],
    )
    page = text_of(owner.get(f"/runs/{uuid}/"))
    found = re.search(
        r'<script id="run-timeline" type="application/json">(.*?)</script>', page, re.DOTALL
    )
    assert found
    trace = json.loads(found[1])["data"][0]
    assert trace["y"] == [100.0, 100.0, None, 1.0, 1.0]


def test_a_run_over_many_hours_has_no_more_points_than_a_screen(
    lab: SmallLab, owner: Client
) -> None:
    uuid = use(lab)[0]
    windows = [
        W(
            gpu(),
            60_000,
            start_us=T0 + i * MINUTE,
            end_us=T0 + (i + 1) * MINUTE,
            seq=i,
            shares=((f"run:{uuid}", 60_000),),
        )
        for i in range(1, 900)
    ]
    push(lab.node, windows)
    found = re.search(
        r'id="run-timeline" type="application/json">(.*?)</script>',
        text_of(owner.get(f"/runs/{uuid}/")),
        re.DOTALL,
    )
    assert found
    assert len(json.loads(found[1])["data"][0]["x"]) <= 1000


def test_a_run_without_readings_is_unknown_and_not_zero(lab: SmallLab, owner: Client) -> None:
    run = Run.objects.create(
        lab=lab.lab, uuid=uuid4(), name="quiet", started_us=T0, ended_us=T0 + 1, state="finished"
    )
    page = text_of(owner.get(f"/runs/{run.uuid}/"))
    assert "data-unmeasured" in page
    assert "data-figure" not in page
    assert "not measured" in text_of(owner.get("/runs/"))


def test_anonymous_wrong_method_and_outsider(
    lab: SmallLab, owner: Client, outsider: Client
) -> None:
    uuid = use(lab)[0]
    for address in ("/runs/", "/runs.csv", f"/runs/{uuid}/"):
        assert_needs_sign_in(address)
        assert_only(owner, address, "GET", *(["POST"] if address.endswith("/") else []))
    assert outsider.get(f"/runs/{uuid}/").status_code == 404
    assert "train.py" not in text_of(outsider.get("/runs/")).replace("-- python train.py", "")
    assert owner.get("/runs/not-a-uuid/").status_code == 404


def test_queries_do_not_grow_with_rows(lab: SmallLab, owner: Client) -> None:
    many_projects(lab, 1)
    one = queries(owner, "/runs/")
    many_projects(lab, 49, first=2)
    assert queries(owner, "/runs/") == one
    uuid = Run.objects.order_by("id").values_list("uuid", flat=True)[0]
    single = queries(owner, f"/runs/{uuid}/")
    push(
        lab.node,
        [
            W(
                gpu(3),
                50,
                start_us=T0 + i * MINUTE,
                end_us=T0 + (i + 1) * MINUTE,
                seq=i,
                shares=((f"run:{uuid}", 50),),
            )
            for i in range(50)
        ],
    )
    assert queries(owner, f"/runs/{uuid}/") == single


def test_hostile_names_are_text(lab: SmallLab, owner: Client) -> None:
    uuid = use(lab, name=HOSTILE)[0]
    Run.objects.filter(uuid=uuid).update(
        os_user=HOSTILE[:100], host=HOSTILE, command=[HOSTILE], params={HOSTILE: HOSTILE}
    )
    for address in ("/runs/", f"/runs/{uuid}/"):
        page = text_of(owner.get(address))
        assert "<script>alert" not in page
        assert "<img src=x" not in page
