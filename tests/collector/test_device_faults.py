"""Each fault of a GPU at each moment: exact, or declared, and reported."""

from __future__ import annotations

import pytest

from tests.collector.device_faults import FAULT_S, FAULTS, MOMENTS, POWER_MW, play

# Seconds of energy that may be missing. They are declared as a gap.
LOST_S = {"lost": 701, "jumped": 1, "reset": 1, "wrapped": 1}
LAST_STATE = {"lost": "silent", "stalled for good": "power", "refused": "power"}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("fault", FAULTS)
def test_energy_is_exact_or_declared(bench, tmp_path, fault, moment):
    machine = bench("hopper", "hopper", opened=False)
    outcome = play(machine, tmp_path, fault, moment)
    assert outcome.other_error_mj == 0, "a fault of one GPU touches no other"
    missing_s = LOST_S.get(fault, 0)
    if moment == "start" and fault == "back":
        missing_s = FAULT_S + 20  # before its first reading, up to the next query of the lost GPU
    assert -missing_s * POWER_MW <= outcome.error_mj <= 0
    if moment != "start" and outcome.error_mj:
        assert outcome.gap_s * POWER_MW >= -outcome.error_mj
    expected = LAST_STATE.get(fault, "measured")
    if moment == "start" and fault == "refused":
        expected = "measured"  # a card without a counter, as older ones
    assert outcome.states[-1] == expected
    doctor = {"silent": "bad", "power": "warn", "measured": "ok"}[expected]
    assert outcome.doctor == doctor
