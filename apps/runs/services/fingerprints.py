"""Fingerprints of runs: merging of updates, and match keys.

Only this module of the server computes with ``lc2``. docs/fingerprint.md describes the comparison.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec
from django.db import transaction
from labcarbon_collect.lc1 import (
    leave_one_out,
    param_hash,
    parse_value,
    part_hash,
    recipe,
    seeds_hash,
    sort_params,
)

from apps.core.errors import InvalidInput
from apps.core.sql import bulk_insert, fetch_rows
from apps.runs.code_similarity import save_code_state
from apps.runs.fingerprint_parsing import (
    VERSION,
    CodeIn,
    DataIn,
    FingerprintIn,
    ItemIn,
    StartIn,
    unstorable_part,
)
from apps.runs.match_keys import Parts, tier_keys
from apps.runs.models import Fingerprint, IgnoredParameter, Run, TierKey

_PLAIN = (
    "entry", "entry_name", "params", "told", "dropped", "labels", "not_compared", "seeds",
    "environment", "hardware",
)  # fmt: skip


def fingerprint_from_params(params: Mapping[str, Any]) -> FingerprintIn:
    """Return the fingerprint of a run with known parameters only, typed or as text.

    Part P is verified. Seeds among the parameters are part S. Without them S is unknown, because a
    seed may still be set.
    """
    sorted_params = sort_params(params)
    return FingerprintIn(
        version=VERSION,
        params={name: param_hash(name, value) for name, value in sorted_params.params.items()},
        told=dict(sorted_params.params | sorted_params.seeds | sorted_params.labels),
        labels={name: param_hash(name, value) for name, value in sorted_params.labels.items()},
        dropped={name: param_hash(name, value) for name, value in sorted_params.dropped.items()},
        seeds={name: param_hash(name, value) for name, value in sorted_params.seeds.items()}
        or None,
    )


def fingerprint_from_tracker(
    params: Mapping[str, Any],
    *,
    commit: str,
    entry: str,
    datasets: Collection[tuple[str, str, str]],
    from_scratch: bool,
) -> FingerprintIn:
    """Return the fingerprint of a run from a tracker, which knows neither code changes nor
    contents.

    Code (its commit), data (the tracker's short digests: (role, name, digest)) and start are weak.
    Unreported parts are unknown.
    ``from_scratch``: parameters are known, and none names an initial model.
    """
    fingerprint = fingerprint_from_params(params) if params else FingerprintIn(version=VERSION)
    if fingerprint.told is not None:
        fingerprint.told = {
            name: value for name, value in fingerprint.told.items() if _is_storable_value(value)
        }
    is_commit = re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit)
    if is_commit:
        fingerprint.code = CodeIn(state="weak", weak=part_hash("commit", commit), commit=commit)
    if entry:
        fingerprint.entry, fingerprint.entry_name = part_hash("entry", entry), entry[:255]
    if datasets:
        rows = sorted([role, name, digest] for role, name, digest in datasets)
        items = [ItemIn(role=role, name=name, state="weak") for role, name, _ in rows[:100]]
        fingerprint.data = DataIn(weak=part_hash("tracker's data", rows), items=items)
    if params and from_scratch:
        fingerprint.start = StartIn(weak=part_hash("start", "scratch"), name="scratch")
    return fingerprint


def typed_params(given: Mapping[str, str]) -> dict[str, Any]:
    """Return parameters with types parsed from text. Values that the database cannot store stay
    text.
    """
    values = {name: parse_value(text) for name, text in given.items()}
    is_plain = {
        name: not isinstance(value, list | dict) and _is_storable_value(value)
        for name, value in values.items()
    }
    return {name: value if is_plain[name] else given[name] for name, value in values.items()}


def _is_storable_value(value: Any) -> bool:
    return not unstorable_part(value) and len(str(value)) <= 256


@transaction.atomic(savepoint=False)
def put_fingerprint(*, run: Run, payload: FingerprintIn, is_new: bool = False) -> Fingerprint:
    """Store a fingerprint and its keys. Known parts are never removed. Idempotent.

    The caller has locked the row of the run, or it is new (``is_new`` saves a query).
    """
    row = None if is_new else Fingerprint.objects.filter(run=run).first()
    is_new = row is None
    row = row or Fingerprint(run=run)
    row.run = run  # already read
    before = None if is_new else _compared(row)
    ignored, has_text = _ignored_and_code_state(run, payload)
    _merge(row, payload)
    row.recipe = recipe_of(row.params, ignored)
    row.save(force_insert=is_new)
    if payload.code is not None and not has_text:
        save_code_state(lab=run.lab, normal=payload.code.normal, shingles=payload.code.shingles)
    if before is None or before != _compared(row):
        write_keys([(run, row)], ignored=ignored, is_new=is_new)
    return row


def parts_of(row: Fingerprint, *, ignored: Collection[str]) -> Parts:
    """Return the compared parts of a fingerprint. ``ignored``: names of ignored parameters."""
    counted = None if row.params is None else _counted(row.params, ignored)
    return Parts(
        entry=row.entry,
        code=row.code,
        code_weak=row.code_weak,
        code_normal=row.code_normal,
        recipe="" if counted is None else recipe(counted.values()),
        left_out=None if counted is None else leave_one_out(counted),
        seeds="" if row.seeds is None else seeds_hash(row.seeds),
        data=row.data,
        data_weak=row.data_weak,
        start=row.start,
        start_weak=row.start_weak,
    )


def parts_from_payload(payload: FingerprintIn, *, ignored: Collection[str]) -> Parts:
    """Return the compared parts of a fingerprint payload. The run need not exist."""
    return parts_of(row_from_payload(payload), ignored=ignored)


def row_from_payload(payload: FingerprintIn) -> Fingerprint:
    """Return a fingerprint payload as an unsaved row of a new run."""
    row = Fingerprint()
    _merge(row, payload)
    return row


def _ignored_and_code_state(run: Run, payload: FingerprintIn) -> tuple[frozenset[str], bool]:
    """Return the ignored parameters of a run, and whether its lab has the lines of its code.

    This is one query, because every registration needs it.
    """
    rows = list(
        fetch_rows(
            "SELECT name, 0 AS is_text FROM runs_ignoredparameter WHERE project_id = %s"
            " UNION ALL SELECT '', 1 FROM runs_codetext WHERE lab_id = %s AND normal = %s",
            [
                run.charged_project_id or run.project_id,
                run.lab_id,
                payload.code.normal if payload.code is not None else "",
            ],
        )
    )
    names = frozenset(row["name"] for row in rows if not row["is_text"])
    return names, len(names) < len(rows)


def ignored_params_of_run(run: Run) -> frozenset[str]:
    """Return the parameters that the charged project of a run (or the requested one) ignores."""
    return ignored_params_of_project(run.charged_project_id or run.project_id)


def ignored_params_of_project(project_id: int | None) -> frozenset[str]:
    """Return the parameters that a project ignores; none without a project."""
    if project_id is None:
        return frozenset()
    return frozenset(
        IgnoredParameter.objects.filter(project_id=project_id).values_list("name", flat=True)
    )


def compared_name(name: str) -> str:
    """Return the canonical name of a parameter. Raises InvalidInput for one that is never
    compared.
    """
    sorted_params = sort_params({name: 1})
    if sorted_params.seeds or sorted_params.dropped or sorted_params.labels:
        kind = (
            "a seed"
            if sorted_params.seeds
            else "a label"
            if sorted_params.labels
            else "dropped from every fingerprint"
        )
        raise InvalidInput(f"{name!r} is {kind}: there is nothing to ignore.", field="name")
    if not sorted_params.params:
        raise InvalidInput("A parameter has a name.", field="name")
    return next(iter(sorted_params.params))


def lookup_param(name: str, value: str) -> tuple[str, str]:
    """Return canonical name and hash of a parameter value given as text."""
    sorted_ = sort_params({name: value})
    for compared, typed_value in (sorted_.params | sorted_.seeds).items():
        return compared, param_hash(compared, typed_value)
    raise InvalidInput(
        f"{name!r} is dropped from every fingerprint: no run is found by it.", field=f"param.{name}"
    )


def resolve_param_values(
    row: Fingerprint, names: Collection[str], *, among: Iterable[Any], otherwise: object
) -> dict[str, Any]:
    """Return the parameters of a run whose name ends in one of ``names``, with their values.

    A value is the plain value, else the one of ``among`` with this hash, else ``otherwise``.
    """
    candidates = list(among)
    matching = {
        name: digest
        for name, digest in (row.params or {}).items()
        if name.rpartition(".")[2].lower() in names
    }
    return {
        name: row.told[name]
        if name in row.told
        else next((value for value in candidates if param_hash(name, value) == hashed), otherwise)
        for name, hashed in matching.items()
    }


def recipe_of(params: Mapping[str, str] | None, ignored: Collection[str]) -> str:
    """Return the recipe: the sum of the compared parameters, or '' if unknown."""
    return "" if params is None else recipe(_counted(params, ignored).values())


def write_keys(
    pairs: Iterable[tuple[Run, Fingerprint]], *, ignored: Collection[str], is_new: bool = False
) -> None:
    """Write the keys of runs in one statement. ``is_new``: they have no keys yet."""
    pairs = list(pairs)
    if not is_new:
        TierKey.objects.filter(run__in=[run for run, _ in pairs]).delete()
    lab_ids: list[int] = []
    run_ids: list[int] = []
    tiers: list[int] = []
    keys: list[int] = []
    for run, row in pairs:
        for tier, key in dict.fromkeys(tier_keys(parts_of(row, ignored=ignored))):
            lab_ids.append(run.lab_id)
            run_ids.append(run.pk)
            tiers.append(tier.value)
            keys.append(key)
    if keys:
        columns = {
            "lab_id": ("bigint", lab_ids),
            "run_id": ("bigint", run_ids),
            "tier": ("smallint", tiers),
            "key": ("bigint", keys),
        }
        bulk_insert("runs_tierkey", columns)


def _counted(params: Mapping[str, str], ignored: Collection[str]) -> dict[str, str]:
    return {name: value for name, value in params.items() if name not in ignored}


def _compared(row: Fingerprint) -> tuple[object, ...]:
    return (
        row.entry,
        row.code,
        row.code_weak,
        row.code_normal,
        dict(row.params) if row.params is not None else None,
        dict(row.seeds) if row.seeds is not None else None,
        row.data,
        row.data_weak,
        row.start,
        row.start_weak,
        row.recipe,
    )


def _merge(row: Fingerprint, payload: FingerprintIn) -> None:
    """Copy the known parts of ``payload`` to ``row``. Unknown parts change nothing. A fingerprint
    that is partly of version lc1 is compared as such.
    """
    row.version = min(payload.version, row.version)
    for name in _PLAIN:
        value = getattr(payload, name)
        if value is not None and value != "":
            setattr(row, name, value)
    if payload.code is not None:
        _merge_code(row, payload.code)
    if payload.data is not None:
        row.data, row.data_weak = _better(row.data, row.data_weak, payload.data)
        if payload.data.items:
            row.data_items = msgspec.to_builtins(payload.data.items)
    if payload.start is not None:
        row.start, row.start_weak = _better(row.start, row.start_weak, payload.start)
        row.start_name = payload.start.name or row.start_name


def _merge_code(row: Fingerprint, payload: CodeIn) -> None:
    if (payload.hash and row.code and payload.hash != row.code) or (
        payload.weak and row.code_weak and payload.weak != row.code_weak
    ):
        # The code differs from the stored state, so all stored facts of the code are invalid.
        row.code = row.code_weak = row.code_normal = row.commit = ""
        row.dirty = None
    row.code = payload.hash or row.code
    row.code_weak = payload.weak or row.code_weak
    row.code_normal = payload.normal or row.code_normal
    row.commit = payload.commit or row.commit
    row.dirty = payload.dirty if payload.dirty is not None else row.dirty


def _better(verified: str, weak: str, payload: DataIn | StartIn) -> tuple[str, str]:
    """Return (verified, weak) after an update.

    A verified hash is dropped if the weak hash has changed.
    """
    if payload.weak and weak and payload.weak != weak:
        return payload.verified, payload.weak
    return payload.verified or verified, payload.weak or weak
