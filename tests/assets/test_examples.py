"""Published examples through the ledger: use is measured, charged, and asked for as a figure."""

from uuid import uuid4

import pytest

from apps.assets.jobs import use_all_job
from apps.carbon.figures.combined import answer
from apps.carbon.figures.figure_query import ALLOCATION, FigureQuery
from apps.core.units import UG_PER_KG, US_PER_HOUR
from apps.fleet.models import Device
from apps.runs.services.runs import RunFacts, put_run
from tests.assets.support import bought
from tests.builders import T0, SmallLab, W, push, small_lab

pytestmark = pytest.mark.django_db
D0 = T0 - 9 * US_PER_HOUR  # a day of the lab begins
NOW = T0 + 365 * 24 * US_PER_HOUR
GPU = "gpu:GPU-1"


def day(lab: SmallLab, used: int, idle: int) -> None:
    """Push a day of a card: hours used by a run of project demo, then hours of nobody."""
    uuid = uuid4()
    facts = RunFacts(
        name="train.py",
        started_us=D0,
        project="demo",
        os_user="ada",
        host="ws-1",
        node_uuid=lab.node.uuid,
    )
    put_run(lab=lab.lab, uuid=uuid, facts=facts, by=lab.owner, bound_node=None)
    push(
        lab.node,
        [
            W(
                GPU,
                1_000,
                D0 + hour * US_PER_HOUR,
                D0 + (hour + 1) * US_PER_HOUR,
                hour,
                ((f"run:{uuid}" if hour < used else "idle", 1_000),),
                None,
                "nvml_power",
            )
            for hour in range(used + idle)
        ],
    )


def figure(lab: SmallLab, **changes: str) -> int:
    first = D0 // US_PER_HOUR
    asked = FigureQuery(metric=ALLOCATION, from_hour=first, to_hour=first + 24).replace(**changes)
    return answer(lab.lab, asked, NOW).value


def test_sci_specification() -> None:
    """ISO/IEC 21031:2024: 1 000 kg, four years of 8 760 h, one hour of the whole machine: 28.54
    g.
    """
    lab = small_lab()
    day(lab, used=1, idle=5)
    bought(
        lab,
        kg=1_000,
        years=4,
        at_us=D0,
        device=Device.objects.get(key=GPU),
        opening={"amortisation": "sci"},
        now=NOW,
    )
    use_all_job(str(lab.lab.pk))
    assert figure(lab, subject_kind="project", subject_key="demo") == pytest.approx(
        28_538_812, abs=1
    )
    assert figure(lab) == figure(lab, consumer="used"), (
        "what nobody used is left for the end of its life"
    )


def test_bloom() -> None:
    """Luccioni et al. 2022: 150 kg a GPU, six years, 85 % use: 0.003358 kg for each GPU-hour
    used.
    """
    lab = small_lab()
    day(lab, used=17, idle=3)
    bought(lab, kg=150, years=6, at_us=D0, device=Device.objects.get(key=GPU), now=NOW)
    use_all_job(str(lab.lab.pk))
    borne = figure(lab, consumer="used") + figure(lab, consumer="idle")
    assert borne / 17 / UG_PER_KG == pytest.approx(0.003358, abs=5e-7)
    assert figure(lab, subject_kind="project", subject_key="demo") == pytest.approx(
        17 * 150 * UG_PER_KG / (6 * 8_760), abs=2
    )
    assert figure(lab, consumer="unmeasured") == pytest.approx(
        4 * 150 * UG_PER_KG / (6 * 8_760), abs=2
    )
