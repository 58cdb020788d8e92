"""200 random asset lives through the services, beside an oracle in exact fractions.

Charges, book values and inventory by year, owner and category are the oracle's integers.
"""

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from apps.accounts.models import Project
from apps.accounts.services.labs import create_project
from apps.assets.jobs import use_all_job
from apps.assets.models import Asset
from apps.assets.selectors import assets_of, books_of, charged_by
from apps.assets.services import (
    Draft,
    Embodied,
    Entry,
    Facts,
    describe,
    record,
    register,
    reverse,
    set_meter,
    store,
)
from apps.assets.services.recompute import differing
from apps.attribution.precedence import ConsumerSpan
from apps.attribution.services.rules import claim
from apps.carbon.figures.embodied import embodied_by
from apps.carbon.figures.figure_query import INVENTORY, FigureQuery
from apps.fleet.models import Device
from apps.ingest.models import Consumer
from tests.builders import SmallLab, W, push, small_lab
from tests.properties.lives_oracle import FOREVER, Books, Life, Step, UseDay, changes_figures

pytestmark = pytest.mark.django_db
HOUR = 3_600_000_000
LIVES = 200
YEARS = [int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) // 3600 for year in range(2022, 2027)]
FIRST, LAST = YEARS[0], YEARS[-1] + 24 * 300
NOW = (LAST + 24) * HOUR
PROJECTS = ("vision", "nlp", "speech")
CATEGORIES = ("3.2", "3.5", "3.8")
KINDS = ("gpu", "server", "storage", "laptop")


def _measured(lab: SmallLab, dice: random.Random, projects: dict[str, Project]) -> list[UseDay]:
    """Push three weeks of one device, and return its use by day of the lab (Europe/Berlin)."""
    key = f"gpu:GPU-{dice.randrange(10**9)}"
    midnight = datetime(
        2025, dice.choice((1, 2, 11)), dice.randrange(2, 8), tzinfo=ZoneInfo("Europe/Berlin")
    )
    windows, days = [], []
    for number in range(21):
        start = int((midnight + timedelta(days=number)).timestamp()) // 3600
        used: dict[str | None, Fraction] = defaultdict(Fraction)
        idle = off = Fraction(0)
        for hour in range(start, start + 24):
            what = dice.choice(("off", "idle", "one", "one", "two"))
            if what == "off":
                off += 1
                continue
            names = dice.sample([*PROJECTS, "nobody"], 2 if what == "two" else 1)
            shares = [(f"proc:u{name}/x", 300 * dice.choice((1, 1, 3))) for name in names]
            if what == "idle":
                shares, idle = [("idle", 50)], idle + 1
            else:
                for name, (_, energy) in zip(names, shares, strict=True):
                    share = Fraction(energy, sum(part for _, part in shares))
                    used[name if name in projects else None] += share
            total = sum(part for _, part in shares)
            windows.append(
                W(
                    key,
                    total,
                    hour * HOUR,
                    (hour + 1) * HOUR,
                    len(windows),
                    tuple(shares),
                    None,
                    "nvml_power",
                )
            )
        days.append(UseDay(start, start + 24, tuple(used.items()), idle, off))
    push(lab.node, windows)
    return days


def _life(dice: random.Random, devices: list[list[UseDay]]) -> Life:
    """Return a life by chance, of events that are possible in their order."""
    carbon = dice.choice((None, dice.randrange(10**8, 10**13), dice.randrange(10**8, 10**13)))
    contains = dice.choice((None, False, True)) if carbon else None
    apart = dice.randrange(1, carbon // 9) if carbon and contains and dice.random() < 0.5 else None
    hours = sorted(dice.sample(range(FIRST, LAST), dice.randrange(2, 12)))
    if dice.random() < 0.6:
        hours[0] = dice.randrange(FIRST, FIRST + 9_000)
        hours = sorted(set(hours))
    opening = Step(
        dice.choice(("purchase", "purchase", "second_hand", "lease")),
        hours[0],
        carbon,
        life=dice.choice((500, 9_000, 26_280, 35_040)) + dice.randrange(300),
        method=dice.choice(("linear", "sci", "sci")),
        who=dice.choice((None, *PROJECTS)),
        contains_end_of_life=contains,
        end_of_life=apart,
    )
    steps, lent = [opening], False
    for i, hour in enumerate(hours[1:]):
        kinds = [
            "deploy",
            "move",
            "transfer",
            "repurpose",
            "life_change",
            "repair",
            "upgrade",
            "retire",
        ]
        kinds += ["return"] * 3 if lent else ["lend"]
        kinds += ["deploy"] * 12 if i == 0 and dice.random() < 0.6 else []
        kinds += ["dispose"] * 6 if i == len(hours) - 2 else []
        kind = dice.choice(kinds)
        end = hour + dice.randrange(1, 30_000)
        match kind:
            case "transfer":
                step = Step(kind, hour, who=dice.choice((None, *PROJECTS)))
            case "lend":
                step = Step(kind, hour, who=dice.choice((None, *PROJECTS)))
            case "repair":
                step = Step(kind, hour, dice.choice((None, 0, 0, dice.randrange(1, 10**12))))
            case "repurpose":
                step = Step(kind, hour, end=dice.choice((None, end)))
            case "life_change":
                method = dice.choice(("", "linear", "sci"))
                step = Step(
                    kind, hour, end=end if not method else dice.choice((None, end)), method=method
                )
            case "dispose":
                step = Step(
                    kind,
                    hour,
                    dice.choice((None, None, dice.randrange(10**10))),
                    left_as=dice.choice(("", "recycled", "recycled", "resold", "stolen")),
                    grams=dice.choice((None, dice.randrange(1, 10**6))),
                )
            case _:
                step = Step(kind, hour)
        lent = kind == "lend" or (lent and kind != "return")
        steps.append(step)
    life = Life(steps, PROJECTS, category=dice.choice(KINDS))
    if life.category == "storage" and dice.random() < 0.7:
        for hour in sorted(dice.sample(range(hours[0], LAST), 4)):
            life.volumes.append(
                (hour, dice.choice((None, *PROJECTS)), dice.choice((0, 500, 3_000)))
            )
    if dice.random() < 0.6:
        first = hours[0] if dice.random() < 0.4 else dice.randrange(hours[0], LAST)
        around = devices[0][0].start + dice.randrange(-300, 700)
        times = {first, *(hour for hour in [around] if hour >= hours[0] and dice.random() < 0.8)}
        life.meters = [(hour, dice.choice((*devices, *devices, None))) for hour in sorted(times)]
    return life


def _entry(step: Step, projects: dict[str, Project]) -> Entry:
    embodied = None
    if step.carbon is not None:
        embodied = Embodied(
            step.carbon,
            end_of_life_ug=step.end_of_life,
            includes_end_of_life=step.contains_end_of_life,
        )
    return Entry(
        step.kind,
        step.hour * HOUR,
        embodied=embodied,
        life_hours=step.life or None,
        life_end_us=None if step.end is None else step.end * HOUR,
        amortisation=step.method,
        project=projects[step.who] if step.who else None,
        end_of_life=step.left_as,
        mass_g=step.grams,
        counterpart="Ministry" if step.kind == "lend" and step.who is None else "",
    )


def _written(
    lab: SmallLab,
    life: Life,
    dice: random.Random,
    projects: dict[str, Project],
    meters: dict[int, Device],
) -> Asset:
    """Write a life through the services, in any order of recording that they accept."""
    by = lab.owner
    opening, *later = life.steps
    facts = Facts(f"Thing {dice.randrange(10**6)}", dice.choice(KINDS))
    asset = register(lab=lab.lab, draft=Draft(facts, _entry(opening, projects)), by=by, now=NOW)
    if not any(step.kind in {"lend", "return"} for step in later):
        dice.shuffle(later)
    for step in later:
        row = record(asset=asset, entry=_entry(step, projects), by=by, now=NOW)
        if dice.random() < 0.15 and step.kind not in {"lend", "return"}:  # reversed and restored
            reverse(event=reverse(event=row, by=by, now=NOW), by=by, now=NOW)
    if dice.random() < 0.3:  # an event that was reversed changes nothing
        hour = life.steps[0].hour + 1
        wrong = Entry("repair", hour * HOUR, embodied=Embodied(77_000_000))
        if len(life.steps) < 2 or life.steps[1].hour > hour:
            reverse(event=record(asset=asset, entry=wrong, by=by, now=NOW), by=by, now=NOW)
    for hour, days in dice.sample(life.meters, len(life.meters)):
        device = meters[id(days)] if days is not None else None
        set_meter(asset=asset, device=device, from_us=hour * HOUR, by=by, now=NOW)
    for hour, project, gigabytes in life.volumes:
        store(
            asset=asset,
            project=projects[project] if project else None,
            gigabytes=gigabytes,
            from_us=hour * HOUR,
            by=by,
            now=NOW,
        )
    describe(asset=asset, facts=Facts(facts.name, life.category), by=by, now=NOW)
    return asset


def _sums(groups: dict[tuple[object, ...], int]) -> dict[tuple[object, ...], int]:
    return {key: value for key, value in groups.items() if value}


class Register:
    """The lives, written, beside the oracle's books of them."""

    def __init__(self) -> None:
        self.lab = small_lab()
        dice = random.Random(20231125)
        projects = {
            slug: create_project(lab=self.lab.lab, slug=slug, name=slug, now=FIRST * HOUR)
            for slug in PROJECTS
        }
        self.slugs: dict[int | None, str | None] = {None: None}
        self.slugs |= {row.pk: slug for slug, row in projects.items()}
        devices = [_measured(self.lab, dice, projects) for _ in range(4)]
        rows = Device.objects.order_by("pk")
        meters = {id(days): device for days, device in zip(devices, rows, strict=True)}
        for slug, project in projects.items():
            consumer = Consumer.objects.get(lab=self.lab.lab, key=f"proc:u{slug}/x")
            spans = [ConsumerSpan(consumer.pk, None, 0, 3_000_000)]
            claim(lab=self.lab.lab, spans=spans, project=project, by=None, now=NOW)
        lives = [_life(dice, devices) for _ in range(LIVES)]
        self.lives = {_written(self.lab, life, dice, projects, meters).pk: life for life in lives}
        use_all_job(str(self.lab.lab.pk))
        self.books = {pk: Books(life, rounding=True) for pk, life in self.lives.items()}
        self.exact = {pk: Books(life, rounding=False) for pk, life in self.lives.items()}

    def compare_charges(self, low: int, high: int) -> None:
        """Compare charges by asset, party and reason: equal, and near the unrounded ones."""
        found: dict[int, dict[tuple[str | None, str], int]] = defaultdict(dict)
        for off in (False, True):
            groups = charged_by(
                self.lab.lab,
                from_hour=low,
                to_hour=high,
                now=NOW,
                group_by=("asset", "project", "kind"),
                written_off=off,
            )
            for (pk, project, kind), value in _sums(groups).items():
                found[pk][self.slugs[project], kind] = value
        for pk, books in self.books.items():
            assert found[pk] == books.charged(low, high), (self.lives[pk], low, high)
            unrounded = self.exact[pk].charged(low, high)
            for key in found[pk] | unrounded:
                gap = abs(found[pk].get(key, 0) - unrounded.get(key, Fraction(0)))
                assert gap <= self.exact[pk].splits, (self.lives[pk], key)

    def compare_inventory(self, low: int, high: int) -> None:
        """Compare the inventory of a period by asset, owner, category and kind of hardware."""
        query = FigureQuery(metric=INVENTORY, from_hour=low, to_hour=high)
        found: dict[tuple[object, ...], int] = {}
        for scope in CATEGORIES:
            groups = embodied_by(
                self.lab.lab, query.replace(scope=scope), ["asset", "project"], NOW
            )
            found |= {(*key, scope): part.embodied_ug for key, part in groups.items()}
        expected = {
            (pk, *key): value
            for pk, books in self.books.items()
            for key, value in books.inventory(low, high).items()
        }
        assert _sums(found) == _sums(expected)
        owners: dict[tuple[object, ...], int] = defaultdict(int)
        kinds: dict[tuple[object, ...], int] = defaultdict(int)
        for (pk, owner, _), value in expected.items():
            owners[owner,] += value
            kinds[self.lives[pk].category,] += value
        by_owner = embodied_by(self.lab.lab, query, ["project"], NOW)
        assert _sums({key: part.embodied_ug for key, part in by_owner.items()}) == _sums(owners)
        kind_of = dict(assets_of(self.lab.lab).values_list("pk", "kind"))
        of_kind: dict[tuple[object, ...], int] = defaultdict(int)
        for (pk,), part in embodied_by(self.lab.lab, query, ["asset"], NOW).items():
            of_kind[kind_of[pk],] += part.embodied_ug
        assert _sums(of_kind) == _sums(kinds)

    def compare_books(self, hour: int) -> None:
        """Compare embodied carbon, charged, written off and book value of each asset."""
        found = books_of(assets_of(self.lab.lab), hour)
        for pk, books in self.books.items():
            life = self.lives[pk]
            if life.steps[0].hour >= hour:
                assert pk not in found
                continue
            parts = books.charged(0, hour)
            off = sum(value for (_, reason), value in parts.items() if reason == "written_off")
            total = books.embodied(hour)
            assert found[pk].total_ug == total, life
            assert found[pk].written_off_ug == off, life
            assert found[pk].charged_ug == sum(parts.values()) - off, life
            assert found[pk].balance_ug == (total or 0) - sum(parts.values()) >= 0, life


def test_two_hundred_lives_are_those_of_the_oracle() -> None:
    register_ = Register()
    assert Asset.objects.count() == LIVES
    assert differing(lab=register_.lab.lab, repair=False) == []
    edges = [*YEARS, LAST]
    for low, high in [*pairwise(edges), (FIRST, LAST)]:
        register_.compare_charges(low, high)
        register_.compare_inventory(low, high)
    for hour in (*edges, FIRST + 777, YEARS[3] + 24 * 20):
        register_.compare_books(hour)


def test_the_lives_contain_what_people_do() -> None:
    """The 200 lives cover each kind of event, both methods, and meters that begin later."""
    dice = random.Random(20231125)
    days = [[UseDay(YEARS[3], YEARS[3] + 24, (), Fraction(24), Fraction(0))]]
    lives = [_life(dice, days) for _ in range(LIVES)]
    steps = [step for life in lives for step in life.steps]
    assert {step.kind for step in steps} == {
        "purchase", "second_hand", "lease", "deploy", "move", "transfer", "repurpose", "repair",
        "upgrade",
        "life_change", "lend", "return", "retire", "dispose",
    }  # fmt: skip
    assert {step.method for step in steps} == {"", "linear", "sci"}
    assert any(life.meters and life.meters[0][0] > life.steps[0].hour for life in lives)
    assert any(not changes_figures(step) for step in steps if step.kind == "repair")
    charged = [Books(life, rounding=False) for life in lives]
    assert sum(bool(books.charged(0, FOREVER)) for books in charged) > LIVES // 2
