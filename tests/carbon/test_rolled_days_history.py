"""Rolled days never change a figure: whatever happens between two summings, pages read the
integers of the ledgers.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db.models import Value
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from apps.accounts.models import Lab
from apps.accounts.services.labs import change_lab, create_project
from apps.assets.choices import EventKind
from apps.assets.services import Entry, record
from apps.attribution.precedence import ConsumerSpan
from apps.attribution.services.rules import Criteria, claim, drafted_rule, make_rule, undo_claim
from apps.carbon.coverage import device_times
from apps.carbon.figures.embodied import embodied_in
from apps.carbon.figures.energy import (
    Figure,
    figure,
    figures_by,
    figures_of_meters,
    figures_of_runs,
)
from apps.carbon.figures.figure_query import ANY_WASTE, WASTES, FigureQuery, iso_hour
from apps.carbon.figures.run_table import run_table
from apps.carbon.figures.run_table_query import TableQuery
from apps.carbon.hourly_factors import record_hours
from apps.carbon.models import RolledDay, StaleSpan
from apps.carbon.rollups import writer
from apps.core.intervals import day_edges
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR, hour_of
from apps.energy.services.idle import set_idle_policy, withdraw_idle_policy
from apps.energy.services.ledger import rebuild_ledger
from apps.fleet.choices import PriceKind
from apps.fleet.models import ACTIVE, Device, SitePrice
from apps.fleet.selectors import hourly_prices_at
from apps.fleet.services import (
    record_hourly_prices,
    set_price,
    set_pue,
    set_static_power,
    set_tariff,
    withdraw_hourly_prices,
    withdraw_site_fact,
)
from apps.ingest.models import Consumer
from apps.runs.choices import RunState
from apps.runs.services.runs import RunFacts, put_run
from tests.assets.support import bought
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab
from tests.examples import examples

pytestmark = pytest.mark.django_db(transaction=True)
H0 = hour_of(T0) - 9  # a day of the lab (Europe/Berlin): 2026-11-01T23:00Z
HOURS = 4 * 24
NOW = (H0 + HOURS + 5) * US_PER_HOUR
RUN = uuid.UUID("00000000-0000-4000-8000-000000000001")
CONSUMERS = ("proc:alice/python3", "proc:bob/python3", f"run:{RUN}", "job:hpc/7", "idle", "unknown")
PROJECTS = ("vision", "nlp")
GROUPED = (
    [], ["charge"], ["node"], ["quality", "charge", "factor", "pue"], ["person"],
    ["run", "consumer"], ["os_user", "program"], ["project"], ["waste"],
    ["price", "pue"],
)  # fmt: skip

WASTE_GROUPED = (["waste"], ["waste", "charge", "person"], ["charge"], ["node"], ["run"])

offsets = st.integers(0, HOURS + 3)  # up to the current hour
steps = st.one_of(
    st.tuples(
        st.just("push"),
        offsets,
        st.sampled_from(CONSUMERS),
        st.integers(1, 10**6),
        st.integers(0, 10**6),
    ),
    st.tuples(st.just("run"), st.sampled_from([None, *PROJECTS]), st.sampled_from(["", "alice"])),
    st.tuples(
        st.just("rule"), st.sampled_from(["alice", "bob"]), st.sampled_from(PROJECTS), offsets
    ),
    st.tuples(st.just("claim"), st.sampled_from(CONSUMERS), offsets, st.sampled_from(PROJECTS)),
    st.tuples(st.just("undo"), st.integers(0, 3)),
    st.tuples(
        st.just("idle"), st.sampled_from(["visible", "by_energy", "by_reservation"]), offsets
    ),
    st.tuples(st.just("unidle"), offsets),
    st.tuples(st.just("pue"), st.integers(1_000_000, 2_000_000), offsets),
    st.tuples(
        st.just("price"), st.integers(0, 10**6), st.sampled_from(["EUR", "EUR", "CHF"]), offsets
    ),
    st.tuples(st.just("unprice")),
    st.tuples(st.just("tariff"), st.integers(0, 23), st.integers(0, 10**6), offsets),
    st.tuples(st.just("hourly_prices"), offsets, st.integers(1, 30), st.integers(-(10**6), 10**6)),
    st.tuples(st.just("withdraw_hourly_prices")),
    st.tuples(st.just("hourly"), offsets, st.integers(1, 30), st.integers(1, 10**9), st.booleans()),
    st.tuples(st.just("power"), st.sampled_from([None, 60_000])),
    st.tuples(
        st.just("zone"), st.sampled_from(["Europe/Berlin", "Asia/Kolkata", "America/New_York"])
    ),
    st.tuples(st.just("rebuild")),
    st.tuples(st.just("fail"), st.booleans()),
    st.tuples(st.just("lend"), offsets),
    st.tuples(st.just("roll"), st.booleans()),
    st.tuples(st.just("roll"), st.booleans()),
)


def run_sums(lab: Lab, hours: tuple[int, int] | None) -> Figure | None:
    """Return the figure of the only run in the table of runs, None for none."""
    query = TableQuery(sort="energy", duration=Value(0), hours=hours)
    table = run_table(lab, lab.runs.all(), query)
    return table.rows[0].figure if table.rows else None


@contextmanager
def from_the_ledgers(lab: Lab) -> Iterator[None]:
    """Read as if nothing had ever been summed."""
    RolledDay.objects.filter(lab=lab).update(basis="nothing")
    yield
    RolledDay.objects.filter(lab=lab).update(basis=lab.basis)


class History:
    """A lab to which things happen, days of which are summed now and then."""

    def __init__(self) -> None:
        self.small: SmallLab = small_lab(name=f"Lab {uuid.uuid4().hex[:8]}")
        self.lab = self.small.lab
        self.projects = {
            slug: create_project(lab=self.lab, slug=slug, name=slug, now=T0) for slug in PROJECTS
        }
        self.sequence = 0
        self.acts: list[uuid.UUID] = []
        self.asset = bought(self.small, kg=97, years=1, at_us=H0 * US_PER_HOUR, now=NOW)

    def do(self, step: tuple[Any, ...]) -> None:
        getattr(self, step[0])(*step[1:])
        run_until_idle(worker="test")

    def push(self, offset: int, consumer: str, energy_mj: int, idle_mj: int) -> None:
        start = (H0 + offset) * US_PER_HOUR + self.sequence * MINUTE // 10
        shares = (
            ((consumer, energy_mj),)
            if consumer == "idle"
            else ((consumer, energy_mj), ("idle", idle_mj))
        )
        window = W(
            "gpu:GPU-1",
            sum(part for _, part in shares),
            start,
            start + MINUTE // 10,
            self.sequence,
            shares,
            None,
            "nvml_power",
        )
        push(self.small.node, [window], received_us=NOW, sent_at=NOW)
        self.sequence += 1

    def run(self, project: str | None, os_user: str) -> None:
        facts = RunFacts(
            name="r",
            started_us=T0,
            project=project,
            os_user=os_user,
            node_uuid=self.small.node.uuid,
        )
        put_run(lab=self.lab, uuid=RUN, facts=facts, by=None, bound_node=None)

    def fail(self, failed: bool) -> None:
        self.lab.runs.update(state=RunState.FAILED if failed else RunState.FINISHED)

    def rule(self, os_user: str, project: str, offset: int) -> None:
        criteria = Criteria(os_user=os_user)
        rule = drafted_rule(
            lab=self.lab,
            criteria=criteria,
            project=self.projects[project],
            person=self.small.owner,
            from_us=(H0 + offset) * US_PER_HOUR,
        )
        if not self.lab.rules.filter(
            os_user=os_user, project=rule.project, from_hour=rule.from_hour
        ).exists():
            make_rule(rule=rule, by=self.small.owner, now=T0)

    def claim(self, consumer: str, offset: int, project: str) -> None:
        rows = list(Consumer.objects.filter(lab=self.lab, key=consumer))
        if rows:
            spans = [ConsumerSpan(row.pk, None, H0 + offset, H0 + offset + 30) for row in rows]
            self.acts.append(
                claim(lab=self.lab, spans=spans, project=self.projects[project], by=None, now=T0)
            )

    def undo(self, number: int) -> None:
        if self.acts:
            undo_claim(lab=self.lab, act=self.acts[number % len(self.acts)], by=None, now=T0)

    def idle(self, policy: str, offset: int) -> None:
        set_idle_policy(
            lab=self.lab, policy=policy, from_us=(H0 + offset) * US_PER_HOUR, by=None, now=T0
        )

    def unidle(self, offset: int) -> None:
        found = self.lab.idle_policies.order_by("from_hour").values_list("from_hour", flat=True)
        if found:
            withdraw_idle_policy(
                lab=self.lab, from_hour=found[offset % len(found)], by=None, now=T0
            )

    def pue(self, pue_ppm: int, offset: int) -> None:
        hour = H0 + offset
        if not self.small.site.pues.filter(from_hour=hour).exists():
            set_pue(
                site=self.small.site, pue_ppm=pue_ppm, from_us=hour * US_PER_HOUR, by=None, now=T0
            )

    def price(self, ucurrency_per_kwh: int, currency: str, offset: int) -> None:
        hour = H0 + offset
        rows = SitePrice.objects.filter(ACTIVE, site=self.small.site, from_hour=hour)
        if not rows.exclude(kind=PriceKind.HOURLY).exists():
            set_price(
                site=self.small.site,
                ucurrency_per_kwh=ucurrency_per_kwh,
                currency=currency,
                from_us=hour * US_PER_HOUR,
                by=None,
                now=NOW,
            )
        self.lab.refresh_from_db(fields=["currency"])

    def tariff(self, first: int, ucurrency_per_kwh: int, offset: int) -> None:
        hour = H0 + offset
        rows = SitePrice.objects.filter(ACTIVE, site=self.small.site, from_hour=hour)
        if not rows.exclude(kind=PriceKind.HOURLY).exists():
            set_tariff(
                site=self.small.site,
                periods=f"Mon-Sun {first}-24 0.{ucurrency_per_kwh % 10**6:06}\nother 0.1",
                time_zone="Europe/Berlin",
                currency="EUR",
                from_us=hour * US_PER_HOUR,
                by=None,
                now=NOW,
            )
        self.lab.refresh_from_db(fields=["currency"])

    def hourly_prices(self, offset: int, number: int, ucurrency_per_kwh: int) -> None:
        rows = [
            f"{iso_hour(H0 + offset + i)},{Decimal(ucurrency_per_kwh + i) / 10**6:f}"
            for i in range(number)
        ]
        record_hourly_prices(
            site=self.small.site,
            text="\n".join(["hour,price_per_kwh", *rows]),
            file_name="market.csv",
            currency="EUR",
            by=None,
            now=NOW,
        )
        self.lab.refresh_from_db(fields=["currency"])

    def withdraw_hourly_prices(self) -> None:
        last = hourly_prices_at(self.small.site).filter(ACTIVE).first()
        if last is not None:
            withdraw_hourly_prices(price=last, by=None, now=NOW)
        self.lab.refresh_from_db(fields=["currency"])

    def hourly(self, offset: int, number: int, ug_per_kwh: int, is_actual: bool) -> None:
        record_hours(
            lab=self.lab,
            zone="DE",
            basis=self.lab.basis,
            is_actual=is_actual,
            source="a meter of the grid",
            licence="CC0",
            hours={H0 + offset + i: ug_per_kwh + i for i in range(number)},
            now=NOW,
        )

    def unprice(self) -> None:
        rows = SitePrice.objects.filter(ACTIVE, site=self.small.site).order_by("-from_hour")
        last = rows.exclude(kind=PriceKind.HOURLY).first()
        if last is not None:
            withdraw_site_fact(fact=last, by=None, now=NOW)
        self.lab.refresh_from_db(fields=["currency"])

    def power(self, static_power_mw: int | None) -> None:
        set_static_power(node=self.small.node, static_power_mw=static_power_mw)

    def zone(self, name: str) -> None:
        change_lab(
            lab=self.lab,
            by=self.small.owner,
            name=self.lab.name,
            time_zone=name,
            person_view=self.lab.person_view,
            now=T0,
        )
        self.lab.refresh_from_db()

    def rebuild(self) -> None:
        rebuild_ledger(lab=self.lab)

    def lend(self, offset: int) -> None:
        entry = Entry(
            EventKind.TRANSFER, (H0 + offset) * US_PER_HOUR, project=self.projects["vision"]
        )
        record(asset=self.asset, entry=entry, by=self.small.owner, now=NOW)

    def roll(self, month_over: bool = True) -> None:
        assert writer.roll_up(lab=self.lab, now=NOW + 31 * 24 * US_PER_HOUR if month_over else NOW)
        assert not StaleSpan.objects.filter(lab=self.lab).exists()

    def periods(self) -> list[tuple[int, int]]:
        return [(H0, H0 + HOURS), (H0 + 30, H0 + 71), (H0 - 30, H0 + HOURS + 24)]

    def told(self) -> dict[Any, Any]:
        """Return what pages show of the lab's use and hardware, in several ways and periods."""
        found: dict[Any, Any] = {}
        for start, end in self.periods():
            query = FigureQuery(metric="energy_mj", from_hour=start, to_hour=end)
            for groups in GROUPED:
                found[start, *groups] = figures_by(self.lab, query, groups)
            asked = [
                query.replace(subject_kind="project", subject_key="vision"),
                query.replace(subject_kind="node", subject_key=self.node),
                query.replace(subject_kind="person", subject_key=str(self.small.owner.pk)),
                query.replace(quality="SAMPLED"),
                query.replace(consumer="idle"),
                query.replace(consumer="idle_share"),
                query.replace(consumer="unattributed"),
                query.replace(project="-"),
                query.replace(project="nlp"),
                query.replace(os_user="alice"),
                query.replace(use="idle"),
                *(query.replace(waste=waste) for waste in WASTES),
                query.replace(subject_kind="project", subject_key="vision", waste=ANY_WASTE),
                query.replace(subject_kind="node", subject_key=self.node, waste=ANY_WASTE),
            ]
            for groups in WASTE_GROUPED:
                wasted = query.replace(waste=ANY_WASTE)
                found[start, "wasted", *groups] = figures_by(self.lab, wasted, groups)
            for one in asked:
                found[one.to_query_string()] = figure(self.lab, one)
            for column, pk in (("device_id", self.device), ("node_id", self.small.node.pk)):
                spans = [(pk, start, end), (pk, start + 5, end - 7), (pk, H0 + 24, H0 + 48)]
                found[start, column] = figures_of_meters(self.lab, column, spans)
            found[start, "devices"] = device_times(self.lab, start, end, NOW)
            edges = [start, *(edge for edge in self.edges() if start < edge < end), end]
            cells = embodied_in(self.lab, query.replace(metric="embodied_ug"), edges, NOW)
            found[start, "hardware"] = {key: cell.embodied_ug for key, cell in cells.items()}
            found[start, "runs"] = run_sums(self.lab, (start, end))
            by_run = figures_by(self.lab, query, ["run"])
            assert found[start, "runs"] == by_run.get((str(RUN),))
        found["runs"] = run_sums(self.lab, None)
        if self.lab.runs.exists():
            assert found["runs"] == figures_of_runs(self.lab, [RUN]).get(RUN)
        return found

    @property
    def node(self) -> str:
        return str(self.small.node.uuid)

    @property
    def device(self) -> int:
        return Device.objects.get(lab=self.lab, key="gpu:GPU-1").pk

    def edges(self) -> list[int]:
        return day_edges(H0, H0 + HOURS, ZoneInfo(self.lab.time_zone))


@given(history=st.lists(steps, min_size=1, max_size=12))
@example(
    [
        ("push", 3, "proc:alice/python3", 50, 7),
        ("roll",),
        ("claim", "proc:alice/python3", 0, "vision"),
        ("roll",),
    ]
)
@example(
    [
        ("push", 3, "idle", 50, 7),
        ("push", 4, "proc:bob/python3", 9, 9),
        ("roll",),
        ("rule", "bob", "nlp", 0),
    ]
)
@example(
    [
        ("push", 30, "proc:bob/python3", 9, 9),
        ("idle", "by_energy", 0),
        ("rule", "bob", "nlp", 0),
        ("roll",),
    ]
)
@example(
    [
        ("push", 30, "unknown", 9, 9),
        ("roll",),
        ("zone", "Asia/Kolkata"),
        ("push", 31, "idle", 5, 0),
        ("roll",),
    ]
)
@example(
    [
        ("push", 30, "unknown", 9, 9),
        ("roll",),
        ("pue", 1_500_000, 29),
        ("power", 60_000),
        ("lend", 12),
        ("roll",),
    ]
)
@example(
    [
        ("run", None, ""),
        ("push", 3, f"run:{RUN}", 50, 7),
        ("push", 30, f"run:{RUN}", 60, 7),
        ("roll",),
        ("push", 4, f"run:{RUN}", 8, 7),
        ("pue", 1_500_000, 29),
        ("roll", False),
        ("zone", "Asia/Kolkata"),
        ("roll",),
        ("rebuild",),
    ]
)
@example(
    [
        ("run", "nlp", ""),
        ("push", 3, f"run:{RUN}", 50, 7),
        ("push", HOURS + 2, f"run:{RUN}", 60, 7),
        ("fail", True),
        ("roll", False),
        ("push", HOURS + 1, f"run:{RUN}", 6, 7),
        ("idle", "by_energy", 24),
        ("roll", False),
        ("fail", False),
    ]
)
@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_history_makes_a_rolled_day_differ_from_the_ledger(
    history: list[tuple[Any, ...]],
) -> None:
    lab = History()
    lab.do(("push", 1, "proc:alice/python3", 5_000, 77))
    lab.do(("push", 50, "proc:bob/python3", 400, 3))
    for step in [("roll",), *history]:
        lab.do(step)
        told = lab.told()
        with from_the_ledgers(lab.lab):
            assert told == lab.told(), step
