"""Accepting quarantined windows: no overlap in time, no energy twice, in any order."""

from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.accounts.models import AuditEntry
from apps.core.errors import Conflict
from apps.core.jobs import run_until_idle
from apps.energy.models import LedgerEntry
from apps.ingest.choices import Decision
from apps.ingest.models import EnergyWindow, QuarantinedWindow
from apps.ingest.services.decisions import accept_windows, discard_windows, undo_decision
from apps.ingest.services.reexamine import reexamine
from tests.builders import MINUTE, T0, W, push, small_lab
from tests.examples import examples
from tests.properties.histories import assert_shares_are_conserved, undone

GPU = "gpu:GPU-0000-1111"
NOW = T0 + 600 * MINUTE

PUSHES = st.lists(
    st.tuples(
        st.integers(0, 30),  # sequence
        st.integers(0, 40),  # minute
        st.integers(1, 9),  # minutes
        st.integers(0, 40),  # counter, in steps of 1000
        st.booleans(),  # with a counter
    ),
    min_size=2,
    max_size=14,
)
DECISIONS = st.lists(
    st.tuples(
        st.sampled_from(["accept", "accept elsewhere", "discard", "undo", "examine"]),
        st.integers(0, 20),
        st.integers(0, 60),
        st.integers(0, 9),
    ),
    max_size=14,
)


def _window(seq: int, minute: int, length: int, counter: int, has_counter: bool) -> W:
    return W(
        GPU,
        1000 * length,
        T0 + minute * MINUTE,
        T0 + (minute + length) * MINUTE,
        seq=seq,
        shares=(("idle", 400 * length), ("unknown", 600 * length)),
        counter_start=1000 * counter if has_counter else None,
        measurement="nvml_counter" if has_counter else "nvml_power",
    )


@pytest.mark.django_db
@settings(max_examples=examples(60), deadline=None)
@given(pushes=PUSHES, decisions=DECISIONS)
def test_decisions_count_no_energy_twice(pushes: list[Any], decisions: list[Any]) -> None:
    with undone():
        lab = small_lab()
        for each in pushes:
            push(lab.node, [_window(*each)], received_us=T0 + 60 * MINUTE, settle=False)
        first = _counted()
        for kind, index, minute, length in decisions:
            rows = list(QuarantinedWindow.objects.order_by("pk"))
            if kind == "examine":
                reexamine(lab=lab.lab)
                first = _counted() if not any(row.decision for row in rows) else first
            elif rows:
                row = rows[index % len(rows)]
                what = {"lab": lab.lab, "by": lab.owner, "now": NOW}
                if row.decision:
                    with suppress(Conflict):  # another decision depends on it
                        undo_decision(pk=row.pk, **what)
                elif kind == "discard":
                    discard_windows(pks=[row.pk], reason="test", **what)
                elif kind != "undo":
                    start_us = T0 + minute * MINUTE
                    time = (start_us, start_us + length * MINUTE)
                    before = _measured_mj()
                    outcome = accept_windows(
                        pks=[row.pk],
                        reason="test",
                        time=time if kind == "accept elsewhere" else None,
                        **what,
                    )
                    # No energy between readings that were counted already.
                    if row.content["counter_start"] is not None:
                        assert outcome.energy_mj == _measured_mj() - before
        run_until_idle(worker="test")
        windows = list(EnergyWindow.objects.order_by("start_us"))
        assert all(one.end_us <= two.start_us for one, two in pairwise(windows))
        decided = QuarantinedWindow.objects.filter(decision=Decision.ACCEPTED)
        total = sum(window.energy_mj for window in windows)
        assert total >= sum(decided.values_list("accepted_mj", flat=True))
        assert_shares_are_conserved()
        assert total == sum(LedgerEntry.objects.values_list("energy_mj", flat=True))
        while rows := list(decided.all()):
            for row in rows:
                with suppress(Conflict):
                    undo_decision(lab=lab.lab, pk=row.pk, by=lab.owner, now=NOW)
            assert decided.all().count() < len(rows)
        run_until_idle(worker="test")
        assert not QuarantinedWindow.objects.filter(decision=Decision.ACCEPTED).exists()
        assert_shares_are_conserved()
        rest = sum(EnergyWindow.objects.values_list("energy_mj", flat=True))
        assert rest == sum(LedgerEntry.objects.values_list("energy_mj", flat=True))
        assert AuditEntry.objects.filter(action__startswith="windows.").count() >= len(decided)
        assert first <= set(EnergyWindow.objects.values_list("sequence", "start_us"))


def _counted() -> set[tuple[int, int]]:
    return set(EnergyWindow.objects.values_list("sequence", "start_us"))


def _measured_mj() -> int:
    """Return the energy between all readings of the counter that are counted, each part once."""
    total_mj = reached = 0
    readings = EnergyWindow.objects.filter(counter_start__isnull=False)
    for low, high in sorted(readings.values_list("counter_start", "counter_end")):
        assert low is not None
        assert high is not None
        total_mj += max(0, high - max(low, reached))
        reached = max(reached, high)
    return total_mj
