"""Linking of artifacts and runs by the content that fingerprints name."""

from collections.abc import Iterable, Iterator

from django.db import transaction
from django.db.models import Q

from apps.accounts.models import Lab
from apps.artifacts.choices import LineageRole, LineageSource
from apps.artifacts.models import Artifact
from apps.artifacts.reuse.model_index import save_terms
from apps.artifacts.services.register import save_edges
from apps.core.sql import fetch_rows
from apps.runs.models import Fingerprint, Run

_BATCH_SIZE = 1000


def link_new_artifacts(*, lab: Lab, now: int) -> int:
    """Link new or registered-again artifacts with existing runs and store their terms; return the
    number of edges.

    Later runs are linked when they are judged. Each 1000 artifacts read the lab's fingerprints
    once.
    """
    count = 0
    while batch := list(
        Artifact.objects.filter(lab=lab, is_linked=False).order_by("pk")[:_BATCH_SIZE]
    ):
        starts, data = (
            {artifact.start_key: artifact.pk for artifact in batch},
            {artifact.data_key: artifact.pk for artifact in batch},
        )
        fingerprints = Fingerprint.objects.filter(
            Q(start__in=starts) | Q(data__in=data), run__lab=lab
        )
        edges = list(_edges(fingerprints.values_list("run_id", "start", "data"), starts, data))
        with transaction.atomic():
            save_edges(lab=lab, edges=edges, now=now)
            save_terms(lab, batch)
            Artifact.objects.filter(pk__in=[artifact.pk for artifact in batch]).update(
                is_linked=True
            )
        count += len(edges)
    return count


def link_run(*, run: Run, now: int) -> None:
    """Link a run with the artifacts whose content its fingerprint names. Called each time more of
    the run is known.
    """
    fingerprint = Fingerprint.objects.filter(run=run).only("start", "data").first()
    if fingerprint is None or not (fingerprint.start or fingerprint.data):
        return
    query = (
        "SELECT id, start_key, data_key FROM artifacts_artifact WHERE lab_id = %s AND {0} = %s "
        "AND {0} <> ''"
    )
    params = [run.lab_id, fingerprint.start, run.lab_id, fingerprint.data]
    rows = list(fetch_rows(f"{query.format('start_key')} UNION {query.format('data_key')}", params))
    if rows:
        starts, data = (
            {row["start_key"]: row["id"] for row in rows},
            {row["data_key"]: row["id"] for row in rows},
        )
        edges = _edges([(run.pk, fingerprint.start, fingerprint.data)], starts, data)
        save_edges(lab=run.lab, edges=edges, now=now)


def _edges(
    runs: Iterable[tuple[int, str, str]], starts: dict[str, int], data: dict[str, int]
) -> Iterator[tuple[int, int, str, str]]:
    for run_id, start, read in runs:
        if start in starts:
            yield (
                run_id,
                starts[start],
                LineageRole.INITIALISED_FROM.value,
                LineageSource.FINGERPRINT.value,
            )
        if read in data:
            yield run_id, data[read], LineageRole.USED.value, LineageSource.FINGERPRINT.value
