"""What comes in is kept as it came, in the request; the work on it is a job. The client asks once and waits two seconds."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

from django.db import connection, transaction

from apps.core.errors import InvalidInput
from apps.core.jobs import enqueue
from apps.core.sql import fetch_rows, uuid_param
from apps.trackers.codecarbon.choices import Channel
from apps.trackers.codecarbon.models import CodeCarbonRun, CodeCarbonSource
from apps.trackers.codecarbon.parsing import hardware_signature, short_facts

PROCESS = "trackers.codecarbon"


@transaction.atomic
def start_run(*, source: CodeCarbonSource, content: Mapping[str, Any], now: int) -> UUID:
    """Begin a run; return the id that its emissions come with."""
    return _get_or_create_run(source, uuid4(), content, now).uuid


@transaction.atomic
def save_message(*, source: CodeCarbonSource, channel: Channel, content: Mapping[str, Any], body: bytes, now: int) -> None:
    """Keep one message and ask for the work on it.

    A run that is not known (it began before a backup was restored, or by the HTTP output, which begins none) begins here.
    The id of a run of another token names no more than a run of this one: whose energy it is follows from the token alone.
    """
    uuid = _run_id(content)
    params = [source.pk, uuid_param(uuid)]
    existing = next(fetch_rows("SELECT id FROM trackers_codecarbonrun WHERE source_id = %s AND uuid = %s", params), None)
    tracked_run_id = existing["id"] if existing else _get_or_create_run(source, uuid, content, now).pk
    with connection.cursor() as cursor:  # as a model's row it takes three times as long, and the client waits
        cursor.execute(
            "INSERT INTO trackers_codecarbonpost (told_id, door, body, received_us, worked, problem) "
            "VALUES (%s, %s, %s, %s, %s, '')",
            [tracked_run_id, int(channel), body, now, False],
        )
    enqueue(kind=PROCESS, key=str(tracked_run_id))


def _get_or_create_run(source: CodeCarbonSource, uuid: UUID, content: Mapping[str, Any], now: int) -> CodeCarbonRun:
    signature = hardware_signature(content, node=str(source.node_id) if source.bound else "")
    CodeCarbonRun.objects.bulk_create(
        [CodeCarbonRun(source=source, uuid=uuid, facts=short_facts(content), signature=signature, received_us=now)],
        ignore_conflicts=True,  # two first messages at once begin one run
    )
    return CodeCarbonRun.objects.get(source=source, uuid=uuid)


def _run_id(content: Mapping[str, Any]) -> UUID:
    text = str(content.get("run_id"))
    try:
        return UUID(text)
    except ValueError as error:
        raise InvalidInput(
            f"run_id {text[:40]!r} names no run.",
            field="run_id",
            hint="CodeCarbon writes 'None' where it also sends to an API: what it sends there is counted, this is not.",
        ) from error
