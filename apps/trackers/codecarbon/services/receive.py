"""Receipt of messages: stored unchanged in the request, processed by a job.

The client sends a message once and waits two seconds.
"""

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
    """Start a run; return the id for its messages."""
    return _get_or_create_run(source, uuid4(), content, now).uuid


@transaction.atomic
def save_message(
    *, source: CodeCarbonSource, channel: Channel, content: Mapping[str, Any], body: bytes, now: int
) -> None:
    """Store one message and enqueue its processing.

    An unknown run is created here. It is older than a restored backup, or it is from the HTTP
    output, which starts no run. The id of a run of another token means a run of this token: only
    the token determines the charged project.
    """
    uuid = _run_id(content)
    params = [source.pk, uuid_param(uuid)]
    existing = next(
        fetch_rows(
            "SELECT id FROM trackers_codecarbonrun WHERE source_id = %s AND uuid = %s", params
        ),
        None,
    )
    tracked_run_id = (
        existing["id"] if existing else _get_or_create_run(source, uuid, content, now).pk
    )
    with connection.cursor() as cursor:  # the ORM takes three times as long, and the client waits
        cursor.execute(
            "INSERT INTO trackers_codecarbonpost (told_id, door, body, received_us, worked, "
            "problem) "
            "VALUES (%s, %s, %s, %s, %s, '')",
            [tracked_run_id, int(channel), body, now, False],
        )
    enqueue(kind=PROCESS, key=str(tracked_run_id))


def _get_or_create_run(
    source: CodeCarbonSource, uuid: UUID, content: Mapping[str, Any], now: int
) -> CodeCarbonRun:
    signature = hardware_signature(content, node=str(source.node_id) if source.bound else "")
    CodeCarbonRun.objects.bulk_create(
        [
            CodeCarbonRun(
                source=source,
                uuid=uuid,
                facts=short_facts(content),
                signature=signature,
                received_us=now,
            )
        ],
        ignore_conflicts=True,  # two concurrent first messages create one run
    )
    return CodeCarbonRun.objects.get(source=source, uuid=uuid)


def _run_id(content: Mapping[str, Any]) -> UUID:
    text = str(content.get("run_id"))
    try:
        return UUID(text)
    except ValueError as error:
        raise InvalidInput(
            f"run_id {text[:40]!r} is no UUID of a run.",
            field="run_id",
            hint=(
                "CodeCarbon writes 'None' if it also sends the run to an API. Only the "
                "messages to the API are counted."
            ),
        ) from error
