"""Several processes load the catalogue at the same moment, as they do when a served installation
starts.
"""

import threading

import pytest
from django.db import connection
from django.db.models import Count

from apps.catalog.models import CURRENT, EmbodiedFigure, HardwareAlias, HardwareModel
from apps.catalog.services import load_catalogue
from tests.builders import T0

AT_ONCE = 4


def _load_together(now: int) -> list[object]:
    start, heard = threading.Barrier(AT_ONCE), []

    def load() -> None:
        try:
            start.wait(30)
            heard.append(load_catalogue(now=now))
        except Exception as error:  # noqa: BLE001  # a thread's failure is the test's
            heard.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=load) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return heard


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_loading_at_once_is_loading_once() -> None:
    [count, *others] = _load_together(T0)
    assert isinstance(count, int), count
    assert others == [count] * (AT_ONCE - 1)
    assert HardwareModel.objects.count() == count
    figures = EmbodiedFigure.objects.count()
    EmbodiedFigure.objects.filter(pack="boavizta-odbl").update(note="an older edition")
    HardwareAlias.objects.all().delete()
    changed = EmbodiedFigure.objects.filter(note="an older edition").count()
    assert _load_together(T0 + 1) == [count] * AT_ONCE
    assert EmbodiedFigure.objects.filter(CURRENT).count() == figures
    assert EmbodiedFigure.objects.filter(superseded_us=T0 + 1).count() == changed
    doubled = (
        EmbodiedFigure.objects.filter(CURRENT)
        .values("model", "pack", "method", "unit")
        .annotate(n=Count("pk"))
    )
    assert not doubled.filter(n__gt=1).exists()
    assert HardwareAlias.objects.exists()
