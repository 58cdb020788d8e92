"""Energy of system processes is a kind of its own: neither unattributed nor lost, and a rule or a
claim still charges it.
"""

import importlib

import pytest
from django.db import connection
from labcarbon_collect.lc1.consumers import SYSTEM_MARK

from apps.accounts.services.labs import create_project
from apps.attribution.precedence import ConsumerSpan, user_and_program
from apps.attribution.services.rules import Criteria, claim, drafted_rule, make_rule
from apps.carbon.figures.combined import group_figures
from apps.carbon.figures.energy import figure, figures_by
from apps.carbon.figures.figure_query import HIDDEN, FigureQuery
from apps.carbon.models import ChargeDay, UseDay
from apps.carbon.rollups.writer import roll_up
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR, hour_of
from apps.ingest.models import Consumer
from tests.builders import MINUTE, T0, SmallLab, W, push, small_lab

pytestmark = pytest.mark.django_db
MIDNIGHT = hour_of(T0) - 9  # of the lab's zone
QUERY = FigureQuery("energy_mj", MIDNIGHT, MIDNIGHT + 24)
ROOT, OLLAMA = f"proc:root/Xorg{SYSTEM_MARK}", f"proc:ollama/ollama{SYSTEM_MARK}"
SHARES = {ROOT: 640_001, OLLAMA: 100_003, "proc:ana/python3": 7, "idle": 11, "unknown": 13}


@pytest.fixture
def lab() -> SmallLab:
    small = small_lab()
    create_project(lab=small.lab, slug="it", name="IT", by=small.owner, now=T0)
    window = W("gpu:GPU-1", sum(SHARES.values()), shares=tuple(SHARES.items()))
    assert push(small.node, [window]) == [["accepted"]]
    return small


def by_charge(lab: SmallLab) -> dict[str, int]:
    """Return energy by charge, from the ledger and from rolled days, after comparing both, each
    with its filter, and the sum with the total.
    """
    parts = {key: part.energy_mj for (key,), part in figures_by(lab.lab, QUERY, ["charge"]).items()}
    assert roll_up(lab=lab.lab, now=(MIDNIGHT + 48) * US_PER_HOUR)
    rolled = figures_by(lab.lab, QUERY, ["charge"])
    assert {key: part.energy_mj for (key,), part in rolled.items()} == parts
    assert sum(parts.values()) == figure(lab.lab, QUERY).energy_mj == sum(SHARES.values())
    for key, energy_mj in parts.items():
        if key.startswith("~"):
            assert figure(lab.lab, QUERY.replace(consumer=key[1:])).energy_mj == energy_mj
    without = sum(mj for key, mj in parts.items() if key.startswith("~"))
    assert figure(lab.lab, QUERY.replace(project=HIDDEN)).energy_mj == without
    return parts


def add_rule(lab: SmallLab, criteria: Criteria) -> None:
    project = lab.lab.projects.get(slug="it")
    rule = drafted_rule(lab=lab.lab, criteria=criteria, project=project, person=None, from_us=T0)
    make_rule(rule=rule, by=lab.owner, now=T0)
    run_until_idle(worker="test")


def test_system_use_is_apart_from_unattributed(lab: SmallLab) -> None:
    assert by_charge(lab) == {"~system": 740_004, "~unattributed": 20, "~idle": 11}
    assert set(UseDay.objects.values_list("kind", flat=True)) == {"used", "idle", "system"}
    together = group_figures(lab.lab, QUERY.replace(metric="carbon_ug"), "charge", T0)
    assert together["~system"] > 0


def test_a_rule_by_account_still_charges_a_system_account(lab: SmallLab) -> None:
    add_rule(lab, Criteria(os_user="ollama"))
    assert by_charge(lab) == {"it": 100_003, "~system": 640_001, "~unattributed": 20, "~idle": 11}


def test_a_rule_by_command_and_node_still_charges_a_system_process(lab: SmallLab) -> None:
    add_rule(lab, Criteria(node=lab.node, path_prefix="Xorg"))
    assert by_charge(lab)["it"] == 640_001


def test_a_claim_of_a_system_process(lab: SmallLab) -> None:
    consumer = Consumer.objects.get(key=ROOT)
    span = ConsumerSpan(consumer.pk, lab.node.pk, MIDNIGHT, MIDNIGHT + 24)
    project = lab.lab.projects.get(slug="it")
    claim(lab=lab.lab, project=project, spans=[span], by=lab.owner, now=T0)
    run_until_idle(worker="test")
    assert by_charge(lab)["it"] == 640_001


def test_user_and_program_are_without_the_mark() -> None:
    assert user_and_program(ROOT) == ("root", "Xorg")
    assert user_and_program(f"proc:-/a/b{SYSTEM_MARK}") == ("", "a/b")
    assert user_and_program(f"proc:ana/x{SYSTEM_MARK[:-1]}") == ("ana", f"x{SYSTEM_MARK[:-1]}")


def test_the_mark_of_another_kind_of_consumer_means_nothing(lab: SmallLab) -> None:
    key = f"job:hpc/7{SYSTEM_MARK}"
    window = W("gpu:GPU-1", 5, T0 + MINUTE, T0 + 2 * MINUTE, 1, ((key, 5),))
    assert push(lab.node, [window]) == [["accepted"]]
    assert Consumer.objects.get(key=key).kind == "job"


def test_energy_without_a_mark_stays_unattributed(lab: SmallLab) -> None:
    """Of an earlier collector: the server cannot know which accounts are of the system."""
    window = W("gpu:GPU-1", 5, T0 + MINUTE, T0 + 2 * MINUTE, 1, (("proc:root/Xorg", 5),))
    push(lab.node, [window])
    assert figure(lab.lab, QUERY.replace(consumer="unattributed")).energy_mj == 25


def test_the_migration_counts_what_a_server_of_before_stored(lab: SmallLab) -> None:
    expected = by_charge(lab)
    migration = importlib.import_module("apps.carbon.migrations.0006_system_use")
    sums = importlib.import_module("apps.carbon.migrations.0007_charge_day")
    Consumer.objects.filter(kind="system").update(kind="proc")
    UseDay.objects.filter(kind="system").update(kind="used")
    ChargeDay.objects.filter(kind="system").update(kind="used")
    assert figure(lab.lab, QUERY.replace(consumer="system")).energy_mj == 0
    with connection.cursor() as cursor:
        cursor.execute(migration.CONSUMERS, [])
        cursor.execute(migration.DAYS, [])
        ChargeDay.objects.all().delete()
        cursor.execute(sums.FILL)
    assert by_charge(lab) == expected
