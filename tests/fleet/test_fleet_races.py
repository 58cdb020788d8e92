"""Requests with one fleet token that arrive together."""

import threading
import uuid
from collections.abc import Callable

import pytest
from django.db import connection

from apps.accounts.models import Token
from apps.core.clock import now_us
from apps.core.errors import Conflict, LabCarbonError
from apps.core.units import US_PER_HOUR
from apps.fleet.models import FleetToken, Node, RefusedEnrolment
from apps.fleet.services import create_fleet_token, enrol_with_fleet_token
from tests.builders import SmallLab, small_lab

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def _token(small: SmallLab, *, uses: int = 5) -> str:
    return create_fleet_token(
        lab=small.lab,
        site=small.site,
        project=None,
        uses=uses,
        life_us=US_PER_HOUR,
        by=small.owner,
        now=now_us(),
    )[1]


def _left(text: str) -> int:
    return FleetToken.objects.get(public_id=text.split("_")[2]).uses_left


def _at_once(calls: list[Callable[[], object]]) -> list[object]:
    """Run calls in threads that start together. Return results or exceptions."""
    barrier, results = threading.Barrier(len(calls)), [None] * len(calls)

    def run(index: int) -> None:
        try:
            barrier.wait()
            results[index] = calls[index]()  # type: ignore[call-overload]
        except LabCarbonError as error:
            results[index] = error  # type: ignore[call-overload]
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return list(results)


def _call(text: str, node: uuid.UUID) -> Callable[[], object]:
    return lambda: enrol_with_fleet_token(
        text=text, uuid=node, hostname="gpu-7", facts={}, now=now_us()
    )


def test_twenty_requests_at_once_use_three_uses_three_times() -> None:
    small = small_lab()
    text = _token(small, uses=3)
    results = _at_once([_call(text, uuid.uuid4()) for _ in range(20)])
    assert sum(isinstance(result, LabCarbonError) for result in results) == 17, results
    assert Node.objects.filter(hostname="gpu-7").count() == 3
    assert _left(text) == 0


def test_of_requests_at_once_with_one_uuid_one_gets_a_token() -> None:
    small, node = small_lab(), uuid.uuid4()
    text = _token(small, uses=20)
    results = _at_once([_call(text, node) for _ in range(8)])
    assert sum(isinstance(result, Conflict) for result in results) == 7, results
    assert _left(text) == 19
    assert Token.objects.filter(node_uuid=node).count() == 1
    assert RefusedEnrolment.objects.get().attempts == 7


def test_of_two_labs_at_once_with_one_uuid_one_gets_the_node() -> None:
    ours, theirs, node = small_lab(name="Ours"), small_lab(name="Theirs"), uuid.uuid4()
    results = _at_once([_call(_token(small), node) for small in (ours, theirs)])
    assert sum(isinstance(result, Conflict) for result in results) == 1, results
    assert Node.objects.filter(uuid=node).count() == 1
