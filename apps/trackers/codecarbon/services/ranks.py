"""Several ranks of one job, each with a tracker of its own, each tell of the whole machine: found by their readings."""

from django.db.models import F

from apps.trackers.codecarbon.parsing import Stretch, same_readings
from apps.trackers.models import CodeCarbonInterval, SameMachine


def find_same_machine(interval: CodeCarbonInterval) -> int:
    """Compare an interval with those of other runs on equal hardware at the same time, and note which runs look like one
    machine measured twice; return how many matched. Called once for each interval, as it comes in."""
    told = interval.told
    if not told.signature:
        return 0
    length_us = interval.end_us - interval.start_us
    others = (
        CodeCarbonInterval.objects.filter(
            told__signature=told.signature,
            told__source__lab_id=told.source.lab_id,
            at_us__range=(interval.start_us, interval.end_us + length_us),
            start_us__lt=interval.end_us,
            end_us__gt=interval.start_us,
        )
        .exclude(told=told)
        .order_by("told_id", "start_us")
    )
    mine = _stretch(interval)
    matched = {other.told_id: other for other in others if same_readings(mine, _stretch(other))}
    for other in matched.values():
        first, again = sorted((interval, other), key=lambda row: row.told_id)
        found, _ = SameMachine.objects.get_or_create(
            first_id=first.told_id, again_id=again.told_id, defaults={"intervals": 0, "energy_mj": 0}
        )
        SameMachine.objects.filter(pk=found.pk).update(
            intervals=F("intervals") + 1, energy_mj=F("energy_mj") + again.energy_mj
        )
    return len(matched)


def _stretch(row: CodeCarbonInterval) -> Stretch:
    return Stretch(row.start_us, row.end_us, row.gpu_mj, row.cpu_mj, row.ram_mj)
