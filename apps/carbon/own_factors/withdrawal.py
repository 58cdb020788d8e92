"""Withdraw the factors of an imported file: those that they replaced apply again."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import Lab, User
from apps.carbon.choices import OwnFactorAct, RollupKind
from apps.carbon.factor_files import RESOLUTIONS
from apps.carbon.models import AppliedFactor, EmissionFactor, HourFactor
from apps.carbon.own_factors.effect import Effect, effect_of
from apps.carbon.own_factors.models import OwnFactorFile
from apps.carbon.rollups.writer import mark_stale
from apps.core.errors import Conflict, InvalidInput
from apps.core.jobs import enqueue

MAX_REASON = 400
_BATCH = 500
_KEYS = ("zone", "basis", "resolution", "year", "month")


def withdrawal_effect(file: OwnFactorFile, now: int) -> Effect:
    """Return the sites whose emissions change if a file is withdrawn. Nothing is written."""
    return effect_of(file.lab, lambda: _restore(file.lab, file, now))


def withdraw_factors(*, file: OwnFactorFile, reason: str, by: User | None, now: int) -> bool:
    """Withdraw the factors of a file; return whether that was done: a second withdrawal changes
    nothing.

    Each factor that the file replaced applies again as a new edition, unless its own file is
    withdrawn too. A factor that was replaced since stays replaced. Raises InvalidInput for a
    missing reason, Conflict for a file that was not imported.
    """
    reason = " ".join(reason.split())
    if not reason or len(reason) > MAX_REASON:
        raise InvalidInput(
            "A withdrawal needs a reason." if not reason else "The reason is too long.",
            field="reason",
            hint=f"State in up to {MAX_REASON} characters why the factors are withdrawn.",
        )
    effect = withdrawal_effect(file, now)
    with transaction.atomic():
        lab = audit.hold(file.lab)
        locked = OwnFactorFile.objects.select_for_update().get(pk=file.pk)
        if locked.confirmed_us is None:
            raise Conflict("This file was not imported.", hint="There is nothing to withdraw.")
        if locked.withdrawn_us is not None:
            return False
        number = _restore(lab, locked, now)
        locked.from_hour, locked.to_hour = effect.span or (None, None)
        locked.withdrawn_us, locked.withdrawn_by, locked.withdrawal_reason = now, by, reason
        locked.save()
        enqueue(kind="carbon.apply_factors", key=str(lab.pk))
        audit.record(
            lab=lab,
            by=by,
            action=OwnFactorAct.WITHDRAWN,
            subject=locked.file_name,
            details={
                "file": str(locked.uuid),
                "sha256": locked.sha256,
                "factors": number,
                "reason": reason,
            },
            now=now,
        )
    return True


def _restore(lab: Lab, file: OwnFactorFile, now: int) -> int:
    """Supersede the current factors of a file by those before; return their number."""
    return _restore_periods(lab, file, now) + _restore_hours(lab, file, now)


def _restore_periods(lab: Lab, file: OwnFactorFile, now: int) -> int:
    """Restore years and months."""
    current = EmissionFactor.objects.filter(
        own_file=file, resolution__in=RESOLUTIONS, superseded_us__isnull=True
    )
    withdrawn = list(current)
    if not withdrawn:
        return 0
    editions: dict[tuple[Any, ...], list[EmissionFactor]] = defaultdict(list)
    of_lab = EmissionFactor.objects.filter(lab=lab, resolution__in=RESOLUTIONS)
    for row in of_lab.select_related("own_file").order_by("edition"):
        editions[_key(row)].append(row)
    _supersede(EmissionFactor, [row.pk for row in withdrawn], now)
    restored = []
    for row in withdrawn:
        listed = editions[_key(row)]
        before = [each for each in listed if each.edition < row.edition and _is_valid(each, file)]
        if before:
            restored.append(_copy(before[-1], edition=listed[-1].edition + 1, loaded_us=now))
    EmissionFactor.objects.bulk_create(restored, batch_size=_BATCH)
    return len(withdrawn)


def _restore_hours(lab: Lab, file: OwnFactorFile, now: int) -> int:
    """Restore hours, those of providers too, and supersede the records of the file's own."""
    rows = HourFactor.objects.filter(factor__own_file=file, superseded_us__isnull=True)
    by_series: dict[int, list[HourFactor]] = defaultdict(list)
    for row in rows.order_by("series", "hour"):
        by_series[row.series_id].append(row)
    for series, withdrawn in by_series.items():
        before: dict[int, HourFactor] = {}
        for part in _batches([row.hour for row in withdrawn]):
            earlier = HourFactor.objects.filter(
                series=series, hour__in=part, superseded_us__isnull=False
            )
            for row in earlier.select_related("factor__own_file").order_by("pk"):
                if _is_valid(row.factor, file):
                    before[row.hour] = row
        _supersede(HourFactor, [row.pk for row in withdrawn], now)
        HourFactor.objects.bulk_create(
            [_copy(row, loaded_us=now) for row in before.values()], batch_size=_BATCH
        )
        if AppliedFactor.objects.filter(hourly=series).exists():
            mark_stale(
                lab=lab,
                what=RollupKind.USE,
                from_hour=withdrawn[0].hour,
                to_hour=withdrawn[-1].hour + 1,
            )
    EmissionFactor.objects.filter(own_file=file, superseded_us__isnull=True).update(
        superseded_us=now
    )
    return sum(map(len, by_series.values()))


def _is_valid(factor: EmissionFactor, file: OwnFactorFile) -> bool:
    """Return whether a factor is of another source than ``file``, and not withdrawn."""
    own_file = factor.own_file
    return own_file is None or (own_file.pk != file.pk and own_file.withdrawn_us is None)


def _key(row: EmissionFactor) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for name in _KEYS)


def _copy(row: Any, **changes: Any) -> Any:
    """Return a current copy of a row that is not saved."""
    row.pk, row.superseded_us = None, None
    for name, value in changes.items():
        setattr(row, name, value)
    return row


def _supersede(model: Any, numbers: Sequence[int], now: int) -> None:
    for part in _batches(numbers):
        model.objects.filter(pk__in=part).update(superseded_us=now)


def _batches(numbers: Sequence[int]) -> Iterable[Sequence[int]]:
    return (numbers[start : start + _BATCH] for start in range(0, len(numbers), _BATCH))
