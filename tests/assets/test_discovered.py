"""What collectors saw is proposed once, matched to the catalogue, confirmed in bulk, dismissed
and remembered.
"""

import pytest

from apps.assets.discovery import Proposal, proposals
from apps.assets.models import Asset, AssetMeter, DismissedProposal, EmbodiedCharge, LifecycleEvent
from apps.assets.services import set_meter
from apps.assets.services.confirm_discovered import (
    Confirmed,
    Selection,
    confirm_discovered,
    dismiss,
    propose_again,
)
from apps.core.errors import InvalidInput
from apps.core.jobs import run_until_idle
from apps.core.units import US_PER_HOUR
from tests.assets.support import YEAR, bought
from tests.builders import T0, SmallLab, W, push, small_lab

pytestmark = pytest.mark.django_db
NOW = T0 + 30 * 24 * US_PER_HOUR


@pytest.fixture
def lab() -> SmallLab:
    lab = small_lab()
    seen(lab, 2)
    return lab


def seen(lab: SmallLab, number: int, first: int = 0) -> None:
    """Let the node push energy of GPUs."""
    keys = [f"gpu:GPU-0000-{i:04d}" for i in range(first, first + number)]
    push(
        lab.node,
        [W(key, 1000) for key in keys],
        device_facts={key: {"name": "NVIDIA A100-SXM4-80GB"} for key in keys},
    )


def chosen(found: list[Proposal], **more: object) -> list[Selection]:
    return [Selection(each.key, T0, 4 * YEAR, **more) for each in found]  # type: ignore[arg-type]


def confirmed(lab: SmallLab, what: list[Selection]) -> Confirmed:
    done = confirm_discovered(lab=lab.lab, selections=what, by=lab.owner, now=NOW)
    run_until_idle(worker="test")
    return done


def test_a_node_and_its_gpus_are_proposed_with_their_figures(lab: SmallLab) -> None:
    node, *gpus = proposals(lab.lab)
    assert (node.kind, node.name, node.known.by, node.since_us) == (
        "workstation",
        "ws-1",
        "category",
        T0,
    )
    assert [gpu.serial for gpu in gpus] == ["GPU-0000-0000", "GPU-0000-0001"]
    assert {(gpu.kind, gpu.known.by, str(gpu.known.model)) for gpu in gpus} == {
        ("gpu", "model", "NVIDIA A100-SXM4-80GB")
    }
    assert not Asset.objects.exists(), "proposals are computed"


def test_confirmed_in_bulk_gpus_are_parts_of_their_node_and_again_does_nothing(
    lab: SmallLab,
) -> None:
    found = proposals(lab.lab)
    project = lab.lab.projects.get(slug="demo")
    assert confirmed(lab, chosen(found, project=project)) == Confirmed(3, 0, 0)
    machine = Asset.objects.get(kind="workstation")
    assert set(Asset.objects.filter(kind="gpu").values_list("parent", "owner__slug")) == {
        (machine.pk, "demo")
    }
    assert AssetMeter.objects.filter(node=lab.node, asset=machine).count() == 1
    assert AssetMeter.objects.filter(device__kind="gpu").count() == 2
    brought = sum(filter(None, LifecycleEvent.objects.values_list("total_ug", flat=True)))
    assert sum(EmbodiedCharge.objects.values_list("amount_ug", flat=True)) == brought > 0
    assert proposals(lab.lab) == []
    assert confirmed(lab, chosen(found)) == Confirmed(0, 0, 3)
    assert Asset.objects.count() == 3


def test_a_gpu_that_comes_later_goes_into_the_machine_that_is_there(lab: SmallLab) -> None:
    confirmed(lab, chosen(proposals(lab.lab)))
    seen(lab, 1, first=2)
    assert confirmed(lab, chosen(proposals(lab.lab))) == Confirmed(1, 0, 0)
    assert Asset.objects.filter(kind="gpu", parent__kind="workstation").count() == 3


def test_what_the_register_holds_already_is_told_and_gets_its_meter(lab: SmallLab) -> None:
    """A register that was imported first is not bought a second time."""
    host = bought(lab, kind="server", name="WS-1", now=NOW)
    card = bought(lab, name="card", serial="GPU-0000-0001", now=NOW)
    node, _, second = proposals(lab.lab)
    assert (node.same, second.same) == (host, card)
    with pytest.raises(InvalidInput, match="selected twice"):
        confirmed(
            lab,
            [Selection(node.key, T0, YEAR, asset=host), Selection(node.key + "x", T0, YEAR)]
            + [Selection(each.key, T0, YEAR, asset=card) for each in proposals(lab.lab)[1:]],
        )
    assert not AssetMeter.objects.exists(), "all or none"
    done = confirmed(
        lab,
        [Selection(node.key, T0, YEAR, asset=host), Selection(second.key, T0, YEAR, asset=card)],
    )
    assert done == Confirmed(0, 2, 0)
    assert Asset.objects.count() == 2
    assert [each.serial for each in proposals(lab.lab)] == ["GPU-0000-0000"]


def test_dismissed_is_remembered_and_comes_back_when_asked(lab: SmallLab) -> None:
    found = proposals(lab.lab)
    keys = [each.key for each in found]
    assert dismiss(lab=lab.lab, keys=keys, by=lab.owner, now=NOW) == 3
    assert dismiss(lab=lab.lab, keys=keys, by=lab.owner, now=NOW) == 0
    assert all(each.dismissed for each in proposals(lab.lab))
    other = small_lab(name="Other")
    assert propose_again(lab=other.lab, keys=keys) == 0
    assert propose_again(lab=lab.lab, keys=keys[:1]) == 1
    assert [each.dismissed for each in proposals(lab.lab)] == [False, True, True]
    assert DismissedProposal.objects.count() == 2


def test_what_has_a_meter_is_not_proposed_and_other_labs_are_not_seen(lab: SmallLab) -> None:
    asset = bought(lab, kind="server", name="box", now=NOW)
    set_meter(asset=asset, node=lab.node, from_us=T0, by=None, now=NOW)
    assert {each.kind for each in proposals(lab.lab)} == {"gpu"}
    other = small_lab(name="Other")
    found = proposals(lab.lab)
    assert confirm_discovered(
        lab=other.lab, selections=chosen(found), by=None, now=NOW
    ) == Confirmed(0, 0, 2)


def test_what_was_not_bought_yet_is_refused_and_nothing_is_written(lab: SmallLab) -> None:
    later = [Selection(each.key, NOW + 48 * US_PER_HOUR, YEAR) for each in proposals(lab.lab)]
    with pytest.raises(InvalidInput, match="in the future"):
        confirmed(lab, later)
    assert not Asset.objects.exists()
