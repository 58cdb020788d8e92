"""Hardware of the demo: purchases, a transfer, repairs and disposals."""

from apps.accounts.models import Project
from apps.assets.models import Asset
from apps.assets.services import Draft, Embodied, Entry, Facts, embodied_of_configuration, record
from apps.assets.services import register as register_asset
from apps.catalog.selectors import best_figure, model_of
from apps.core.units import US_PER_HOUR
from apps.fleet.models import Device, Node
from labcarbon.demo.lab import DemoLab
from labcarbon.demo.plan import HOURS_PER_DAY, V100, Card, Machine

_YEAR_HOURS = 8_760
_DAY_US = HOURS_PER_DAY * US_PER_HOUR
_SERVER = {
    "cpus": 2,
    "cores": 24,
    "memory_modules": 16,
    "module_gb": 32,
    "ssds": 2,
    "ssd_gb": 1_920,
}
_DESK = {"cpus": 1, "cores": 16, "memory_modules": 4, "module_gb": 32, "ssds": 1, "ssd_gb": 2_000}


def add_hardware(made: DemoLab, machines: list[tuple[Machine, Node]], now: int) -> int:
    """Register the machines, their cards and other hardware. Return the number of assets."""
    count = sum(_add_machine(made, machine, node, now) for machine, node in machines)
    _add_switch(made, now)
    _add_former_card(made, now)
    return count + 2


def _purchased_us(made: DemoLab, machine: Machine) -> int:
    """A machine that was there at the beginning is a year older."""
    since_us = machine.from_hour * US_PER_HOUR
    return since_us - (0 if since_us > made.begin_us else 400 * _DAY_US)


def _add_machine(made: DemoLab, machine: Machine, node: Node, now: int) -> int:
    at_us, site = _purchased_us(made, machine), made.office if machine.is_desk else made.room
    kind = "workstation" if machine.is_desk else "server"
    embodied = embodied_of_configuration(
        made.lab, kind, _DESK if machine.is_desk else _SERVER, gpu_model=""
    )
    facts = Facts(machine.name, kind, serial=f"DEMO-{machine.name.upper()}", supplier="Vendor")
    entry = Entry("purchase", at_us, embodied=embodied, life_hours=5 * _YEAR_HOURS)
    chassis = register_asset(
        lab=made.lab,
        draft=Draft(facts, entry, deployed_us=at_us, node=node),
        by=made.admin,
        now=now,
    )
    record(asset=chassis, entry=Entry("move", at_us, site=site), by=made.admin, now=now)
    for number, card in enumerate(machine.gpus, 1):
        asset = _add_card(made, machine, card, number, now)
        record(asset=asset, entry=Entry("move", at_us, parent=chassis), by=made.admin, now=now)
        if machine.name == "gpu-01" and number == 1:
            _transfer(made, asset, now)
    return 1 + len(machine.gpus)


def _add_card(made: DemoLab, machine: Machine, card: Card, number: int, now: int) -> Asset:
    at_us = _purchased_us(made, machine)
    device = Device.objects.get(lab=made.lab, key=card.key)
    model = model_of("gpu", card.model, made.lab)
    figure = best_figure(model, made.lab) if model else None
    facts = Facts(
        f"{card.model} {machine.name}/{number}",
        "gpu",
        model=model,
        serial=f"DEMO-{machine.name}-{number}".upper(),
    )
    embodied = Embodied.of(figure) if figure and figure.unit == "item" else None
    entry = Entry("purchase", at_us, embodied=embodied, life_hours=4 * _YEAR_HOURS)
    draft = Draft(facts, entry, deployed_us=at_us, device=device)
    return register_asset(lab=made.lab, draft=draft, by=made.admin, now=now)


def _transfer(made: DemoLab, asset: Asset, now: int) -> None:
    project = Project.objects.get(lab=made.lab, slug="cell-atlas")
    entry = Entry(
        "transfer",
        made.at_us(120),
        project=project,
        evidence="Minutes of the lab meeting (made up)",
    )
    record(asset=asset, entry=entry, by=made.admin, now=now)


def _add_switch(made: DemoLab, now: int) -> None:
    """An asset of unknown embodied carbon."""
    at_us = made.begin_us - 90 * _DAY_US
    entry = Entry("purchase", at_us, life_hours=8 * _YEAR_HOURS)
    draft = Draft(Facts("Switch, machine room", "network"), entry, deployed_us=at_us)
    asset = register_asset(lab=made.lab, draft=draft, by=made.admin, now=now)
    record(asset=asset, entry=Entry("move", at_us, site=made.room), by=made.admin, now=now)


def _add_former_card(made: DemoLab, now: int) -> None:
    """A card that was disposed of before the end of its planned life."""
    at_us = made.begin_us - 900 * _DAY_US
    embodied = Embodied(122_000_000_000, 85_000_000_000, 159_000_000_000, source="Made-up figure")
    facts = Facts("Tesla V100 (former)", "gpu", model=model_of("gpu", V100, made.lab))
    entry = Entry("purchase", at_us, embodied=embodied, life_hours=4 * _YEAR_HOURS)
    asset = register_asset(
        lab=made.lab, draft=Draft(facts, entry, deployed_us=at_us), by=made.admin, now=now
    )
    disposal = Entry(
        "dispose",
        made.at_us(280),
        counterpart="Recycler",
        end_of_life="recycled",
        evidence="Receipt (made up)",
    )
    record(asset=asset, entry=disposal, by=made.admin, now=now)
