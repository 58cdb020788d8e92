"""Everything sent is accounted for: accepted, quarantined or rejected, each once, whatever is
wrong with it.
"""

from collections import Counter
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.core.jobs import run_until_idle
from apps.ingest.models import EnergyWindow, QuarantinedWindow
from apps.ingest.parsing import parse_batch
from apps.ingest.services import accept_batch
from tests.builders import BOOT, MINUTE, T0, W, batch_body, push, small_lab
from tests.examples import examples
from tests.properties.histories import (
    HOUR_US,
    SENT,
    all_rows,
    conserved,
    histories,
    other_content,
    undone,
)

pytestmark = pytest.mark.django_db


@st.composite
def _spoilt(draw: st.DrawFn, window: W) -> W:
    """Return a window with something wrong: another content, a time already taken, too much
    energy, nonsense.
    """
    wrong = draw(
        st.sampled_from(
            ("conflict", "overlap", "impossible", "future", "negative", "shares", "backwards")
        )
    )
    if wrong == "conflict":
        return other_content(window, draw(st.integers(1, 50)))
    fresh = replace(window, epoch=f"{BOOT}/other", seq=draw(st.integers(0, 10**6)))
    if wrong == "overlap":
        return replace(
            fresh,
            start_us=window.start_us + draw(st.integers(-MINUTE, MINUTE)),
            end_us=window.end_us + MINUTE,
        )
    if wrong == "impossible":
        return other_content(fresh, 4 * (window.end_us - window.start_us) + 10**8)
    if wrong == "future":
        return replace(fresh, start_us=SENT + 30 * HOUR_US, end_us=SENT + 30 * HOUR_US + MINUTE)
    if wrong == "negative":
        return replace(fresh, energy_mj=-1, shares=(("idle", -1),))
    if wrong == "shares":
        return replace(fresh, shares=(("idle", window.energy_mj + 1),))
    return replace(fresh, start_us=window.end_us, end_us=window.start_us)


@st.composite
def _dirty(draw: st.DrawFn) -> list[list[W]]:
    good = [one.window for one in draw(histories())]
    bad = (
        [draw(_spoilt(window)) for window in draw(st.lists(st.sampled_from(good), max_size=5))]
        if good
        else []
    )
    order = draw(st.permutations([*good, *bad]))
    cut = draw(st.integers(0, len(order)))
    return [part for part in (list(order[:cut]), list(order[cut:])) if part]


def _distinct(windows: list[W]) -> Counter[tuple[object, ...]]:
    return Counter(
        (w.device, w.epoch, w.seq, w.start_us, w.end_us, w.energy_mj, w.shares, w.flags)
        for w in windows
    )


def test_what_was_sent_is_accepted_quarantined_or_rejected() -> None:
    small = small_lab()

    @settings(max_examples=examples(60))
    @given(_dirty())
    def check(batches: list[list[W]]) -> None:
        with undone():
            told: Counter[str] = Counter()
            sent_mj = rejected_mj = 0
            for batch in batches:
                answers = push(small.node, batch, sent_at=SENT)
                for window, answer in zip(batch, answers, strict=True):
                    told[answer[0]] += 1
                    sent_mj += window.energy_mj if answer[0] != "duplicate" else 0
                    rejected_mj += window.energy_mj if answer[0] == "rejected" else 0
                    assert answer[0] in {"accepted", "duplicate"} or len(answer) == 2
            assert sum(told.values()) == sum(len(batch) for batch in batches)
            accepted_mj = sum(EnergyWindow.objects.values_list("energy_mj", flat=True))
            aside_mj = sum(QuarantinedWindow.objects.values_list("energy_mj", flat=True))
            assert EnergyWindow.objects.count() == told["accepted"]
            repeated = sum(
                count - 1 for count in _distinct([w for batch in batches for w in batch]).values()
            )
            assert QuarantinedWindow.objects.count() + repeated >= told["quarantined"]
            if not repeated:
                assert accepted_mj + aside_mj + rejected_mj == sent_mj
            assert conserved()

    check()


def test_sending_it_all_again_stores_nothing_more() -> None:
    small = small_lab()

    @settings(max_examples=examples(25))
    @given(_dirty())
    def check(batches: list[list[W]]) -> None:
        with undone():
            for batch in batches:
                push(small.node, batch, sent_at=SENT)
            before = (
                all_rows(),
                sorted(QuarantinedWindow.objects.values_list("digest", "energy_mj")),
            )
            for batch in reversed(batches):
                for answer in push(small.node, batch, sent_at=SENT):
                    assert answer[0] in {"duplicate", "quarantined", "rejected"}
            assert (
                all_rows(),
                sorted(QuarantinedWindow.objects.values_list("digest", "energy_mj")),
            ) == before

    check()


def test_a_conflict_never_overwrites_what_was_accepted() -> None:
    small = small_lab()
    first = W("gpu:GPU-aaaa", 100)
    assert push(small.node, [first]) == [["accepted"]]
    assert push(small.node, [other_content(first, 5)]) == [["quarantined", "conflict"]]
    assert list(EnergyWindow.objects.values_list("energy_mj", flat=True)) == [100]
    assert list(QuarantinedWindow.objects.values_list("energy_mj", "reason")) == [(105, "conflict")]


def test_a_window_set_aside_is_not_counted_as_well_when_it_comes_again_after_the_clock_was_set() -> (  # noqa: E501
    None
):
    """The reply was lost, the clock was set meanwhile: it is still the one window that a person
    decides about.
    """
    small = small_lab()
    earlier_boot = W("gpu:GPU-aaaa", 100, epoch="another-boot/1")
    assert push(small.node, [earlier_boot], sent_at=T0 + MINUTE, received_us=T0 + HOUR_US) == [
        ["quarantined", "clock"]
    ]
    assert push(small.node, [earlier_boot], sent_at=T0 + HOUR_US, received_us=T0 + HOUR_US) == [
        ["quarantined", "clock"]
    ]
    assert EnergyWindow.objects.count() == 0
    assert QuarantinedWindow.objects.count() == 1


def test_one_poison_window_among_500_costs_one_window() -> None:
    small = small_lab()
    windows = [
        W("gpu:GPU-aaaa", 60_000, start_us=T0 + i * MINUTE, end_us=T0 + (i + 1) * MINUTE, seq=i)
        for i in range(500)
    ]
    body = batch_body(small.node, windows)
    columns = body["windows"]
    assert isinstance(columns, dict)
    columns["energy_mj"][250] = "a lot"
    answers = accept_batch(
        node=small.node,
        batch=parse_batch(msgspec.json.encode(body)),
        received_us=int(str(body["sent_at"])),
    )
    run_until_idle(worker="test")
    assert answers.count(["accepted"]) == 499
    assert answers[250] == ["rejected", "energy_mj is not an integer of 64 bits"]
    assert conserved()


def test_a_window_that_the_clock_rule_moves_onto_taken_time_is_set_aside() -> None:
    small = small_lab()
    assert push(small.node, [W("gpu:GPU-aaaa", 100)]) == [["accepted"]]
    day = 24 * HOUR_US
    ahead = W(
        "gpu:GPU-aaaa",
        50,
        start_us=T0 + day + 1000,
        end_us=T0 + day + MINUTE,
        epoch=f"{BOOT}/cloned",
    )
    # Sent a minute after T0 by a machine whose clock is a day ahead, so that it was measured on
    # [T0, T0 + 1 min).
    answers = push(small.node, [ahead], sent_at=T0 + day + MINUTE, received_us=T0 + MINUTE)
    assert answers == [["quarantined", "overlap"]]
    assert conserved()
