"""Spreading idle energy moves every integer whole: sums stay, undoing gives back, derived again
gives the same.
"""

from __future__ import annotations

import uuid
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.services.labs import create_project
from apps.attribution.precedence import ConsumerSpan
from apps.attribution.services.rules import claim
from apps.carbon.figures.energy import Figure, entries, figure, figures_by
from apps.carbon.figures.figure_query import FigureQuery
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR, hour_of
from apps.dashboard.figures import total
from apps.energy.ledger_entries import SHARES, cumulative, idle_spans, month_edges
from apps.energy.models import IdleShare
from apps.energy.services.idle import set_idle_policy, spread_idle, withdraw_idle_policy
from apps.ingest.models import Consumer
from apps.runs.models import Run
from tests.builders import MINUTE, T0, W, push, small_lab
from tests.examples import examples

H0 = hour_of(T0)


@given(
    st.dictionaries(st.integers(1, 20), st.integers(0, 10**12), max_size=8), st.integers(0, 10**15)
)
def test_cumulative_parts_fill_the_whole_and_split_any_integer_without_loss(
    weights: dict[int, int], value: int
) -> None:
    parts = cumulative(weights)
    if not any(weights.values()):
        assert parts == []
        return
    assert parts[0][1] == 0
    assert parts[-1][2] == SHARES
    assert all(a[2] == b[1] for a, b in zip(parts, parts[1:], strict=False))  # noqa: RUF007
    assert sum(value * high // SHARES - value * low // SHARES for _, low, high in parts) == value
    largest = sum(weights.values())
    for key, low, high in parts:
        assert abs((high - low) * largest - weights[key] * SHARES) <= largest


def test_months_are_of_the_labs_zone_and_cut_where_the_policy_changes() -> None:
    months = month_edges(H0, H0 + 24 * 40, ZoneInfo("Europe/Berlin"))
    assert months[0][0] == hour_of(1_793_487_600_000_000)  # 2026-11-01 00:00 in Berlin is 23:00 UTC
    assert [b - a for a, b in months] == [30 * 24, 31 * 24]
    found = idle_spans(
        policies=[(H0 + 5, "by_energy"), (H0 + 9, "visible")], months=months, visible="visible"
    )
    assert [(span.from_hour, span.to_hour) for span in found] == [(H0 + 5, H0 + 9)]
    assert idle_spans(policies=[], months=months, visible="visible") == []


uses = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.sampled_from(["vision", "nlp", None]),
        st.integers(1, 10**7),
        st.integers(0, 10**7),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda use: use[0],
)


@pytest.mark.django_db(transaction=True)
@given(
    found=uses, policy=st.sampled_from(["by_energy", "by_reservation"]), start=st.integers(0, 20)
)
@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_sum_stays_and_withdrawing_gives_back(
    found: list[tuple[int, str | None, int, int]], policy: str, start: int
) -> None:
    small = small_lab(name=f"Lab {uuid.uuid4().hex[:8]}")
    lab = small.lab
    for slug in ("vision", "nlp"):
        create_project(lab=lab, slug=slug, name=slug, now=T0)
    for number, (offset, slug, used, idle) in enumerate(found):
        run = uuid.uuid4()
        project = lab.projects.get(slug=slug) if slug else None
        Run.objects.create(lab=lab, uuid=run, name="r", started_us=T0, project=project)
        begin = T0 + offset * US_PER_HOUR
        shares = ((f"run:{run}", used), ("idle", idle))
        sent = T0 + 40 * US_PER_HOUR
        push(
            small.node,
            [
                W(
                    "gpu:GPU-1",
                    used + idle,
                    begin,
                    begin + MINUTE,
                    number,
                    shares,
                    None,
                    "nvml_power",
                )
            ],
            sent_at=sent,
            received_us=sent,
        )
    query = FigureQuery(metric="energy_mj", from_hour=H0, to_hour=H0 + 48)
    before, by_hour = figure(lab, query), figures_by(lab, query, ["charge", "hour"])
    set_idle_policy(lab=lab, policy=policy, from_us=(H0 + start) * US_PER_HOUR, by=None, now=T0)
    after = figures_by(lab, query, ["charge", "hour"])
    assert _sum(after) == _sum(by_hour) == _metrics(before)
    for hour in {key[1] for key in by_hour}:
        assert _sum({k: v for k, v in after.items() if k[1] == hour}) == _sum(
            {k: v for k, v in by_hour.items() if k[1] == hour}
        )
        if hour < H0 + start:
            assert {k: v for k, v in after.items() if k[1] == hour} == {
                k: v for k, v in by_hour.items() if k[1] == hour
            }
    spent = any(slug for offset, slug, _, _ in found if offset >= start)
    idle_left = sum(
        part.energy_mj
        for (charge, hour), part in after.items()
        if charge == "~idle" and hour >= H0 + start
    )
    if spent:
        assert idle_left == 0
    listed = list(entries(lab, query))
    assert sum(row["energy_mj"] for row in listed) == before.energy_mj
    assert sum(row["emission_ug"] for row in listed) == before.emission_ug
    rows = sorted(
        IdleShare.objects.filter(lab=lab).values_list("from_hour", "project_id", "low", "high")
    )
    spread_idle(lab=lab)
    assert (
        sorted(
            IdleShare.objects.filter(lab=lab).values_list("from_hour", "project_id", "low", "high")
        )
        == rows
    )
    withdraw_idle_policy(lab=lab, from_hour=H0 + start, by=None, now=T0)
    assert figures_by(lab, query, ["charge", "hour"]) == by_hour
    run_until_idle(worker="test")


def _metrics(part: Figure) -> tuple[int, int, int]:
    return part.energy_mj, part.facility_energy_mj, part.emission_ug


def _sum(parts: dict[tuple[object, ...], Figure]) -> tuple[int, int, int]:
    return _metrics(total(parts.values()))


@pytest.mark.django_db
def test_by_reservation_counts_what_slurm_reserved_and_else_what_was_used() -> None:
    small = small_lab()
    vision, nlp = (
        create_project(lab=small.lab, slug=slug, name=slug, now=T0) for slug in ("vision", "nlp")
    )
    job = uuid.uuid4()
    Run.objects.create(
        lab=small.lab,
        uuid=job,
        name="job",
        scheduler="slurm",
        project=vision,
        charged_project=vision,
        started_us=T0,
        ended_us=T0 + US_PER_HOUR,
        job_facts={"reserved_gpus": 3},
    )
    run = uuid.uuid4()
    Run.objects.create(
        lab=small.lab, uuid=run, name="r", project=nlp, charged_project=nlp, started_us=T0
    )
    push(
        small.node,
        [
            W("gpu:GPU-1", 1000, T0, T0 + MINUTE, 0, ((f"run:{job}", 900), ("idle", 100))),
            W("gpu:GPU-2", 1000, T0, T0 + MINUTE, 0, ((f"run:{run}", 1), ("idle", 999))),
        ],
    )
    set_idle_policy(lab=small.lab, policy="by_reservation", from_us=T0, by=None, now=T0)
    shares = {
        share.project_id: share.high - share.low
        for share in IdleShare.objects.filter(lab=small.lab)
    }
    assert shares == {vision.pk: 750_000, nlp.pk: 250_000}  # three reserved device-hours, one used


@pytest.mark.django_db
def test_a_claim_changes_what_is_borne_of_idle_energy() -> None:
    small = small_lab()
    vision, nlp = (
        create_project(lab=small.lab, slug=slug, name=slug, now=T0) for slug in ("vision", "nlp")
    )
    shares = (("proc:ada/x", 750), ("proc:ben/x", 250), ("idle", 1000))
    push(small.node, [W("gpu:GPU-1", 2000, T0, T0 + MINUTE, 0, shares)])
    set_idle_policy(lab=small.lab, policy="by_energy", from_us=T0, by=None, now=T0)
    for key, project in (("proc:ada/x", vision), ("proc:ben/x", nlp)):
        consumer = Consumer.objects.get(lab=small.lab, key=key)
        claim(
            lab=small.lab,
            spans=[ConsumerSpan(consumer.pk, None, H0, H0 + 1)],
            project=project,
            by=None,
            now=T0,
        )
    run_until_idle(worker="test")
    query = FigureQuery(metric="energy_mj", from_hour=H0, to_hour=H0 + 1)
    found = {
        charge: part.energy_mj
        for (charge,), part in figures_by(small.lab, query, ["charge"]).items()
    }
    assert found == {"vision": 1500, "nlp": 500}
