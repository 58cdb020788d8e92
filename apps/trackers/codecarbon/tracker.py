"""CodeCarbon as a tracker: its panel on the page of a run."""

from apps.runs.models import Run
from apps.trackers.codecarbon.selectors import (
    CodeCarbonFigures,
    codecarbon_figures,
    shared_machines_of_run,
)
from apps.trackers.tracker import Amount, Page, PanelRow, PanelWarning, RunPanel, Tracker


def run_panel(run: Run) -> RunPanel | None:
    """Return what CodeCarbon reported about a run, or None. A fixed number of queries."""
    figures = codecarbon_figures(run)
    if figures is None:
        return None
    return RunPanel(_rows(figures), [*_binding_warnings(figures), *_shared_machine_warnings(run)])


def _rows(figures: CodeCarbonFigures) -> list[PanelRow]:
    carbon = None if figures.client_ug is None else Amount("emission_ug", figures.client_ug)
    rows = [
        PanelRow("Energy", Amount("energy_mj", figures.energy_mj), note="without CodeCarbon's PUE"),
        PanelRow(
            "Carbon by CodeCarbon",
            carbon,
            text="" if carbon else "none reported",
            note="its own factors; LabCarbon's figure is above" if carbon else "",
        ),
    ]
    if figures.superseded_mj:
        rows.append(
            PanelRow(
                "Excluded from totals",
                Amount("energy_mj", figures.superseded_mj),
                note="a collector measured the same minutes",
            )
        )
    if figures.not_counted:
        rows.append(
            PanelRow("Rejected", text=_messages(figures.not_counted), note="stored unchanged")
        )
    if figures.waiting:
        rows.append(PanelRow("Queued", text=_messages(figures.waiting)))
    return rows


def _messages(number: int) -> str:
    return f"{number} message{'' if number == 1 else 's'}"


def _binding_warnings(figures: CodeCarbonFigures) -> list[PanelWarning]:
    if figures.bound:
        return []
    return [
        PanelWarning(
            "node-unknown",
            (
                "The token of this run names no node. If a collector also measures that node, "
                "this energy is counted twice."
            ),
            "Create a token for the node.",
            Page("codecarbon-tokens"),
        )
    ]


def _shared_machine_warnings(run: Run) -> list[PanelWarning]:
    warnings = []
    for pair in shared_machines_of_run(run):
        other = pair.duplicate.run if pair.primary.run_id == run.pk else pair.primary.run
        if other is not None:
            warnings.append(
                PanelWarning(
                    "shared-node",
                    "This run and",
                    other.name[:60],
                    Page("run", (other.uuid,)),
                    (
                        "probably measured the same node at the same time, as ranks of one job "
                        "do. Possibly counted twice:"
                    ),
                    Amount("energy_mj", pair.energy_mj),
                )
            )
    return warnings


TRACKER = Tracker(
    name="codecarbon",
    label="CodeCarbon",
    setup_page="codecarbon-tokens",
    setup_text="A CodeCarbon token adds energy to one project and reads nothing.",
    setup_link="Create a CodeCarbon token",
    help_topics={"codecarbon-tokens": "setup"},
    run_panel=run_panel,
)
