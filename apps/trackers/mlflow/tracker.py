"""MLflow as a tracker: panel on the page of a run, unreachable servers, verdicts as tags."""

from apps.accounts.models import Lab
from apps.runs.models import Run
from apps.trackers.mlflow.selectors import mlflow_figures, unreachable_servers
from apps.trackers.mlflow.services.verdict_tags import publishes_verdict, queue_verdict_tag
from apps.trackers.tracker import (
    Amount,
    Page,
    PanelRow,
    PanelWarning,
    Problem,
    RunPanel,
    Tracker,
    Verdicts,
)

MAX_PROBLEMS = 5


def run_panel(run: Run) -> RunPanel | None:
    """Return what MLflow reported about a run, or None. A fixed number of queries."""
    figures = mlflow_figures(run)
    if figures is None:
        return None
    row, has_power = figures.row, bool(figures.cards)
    origin = (
        "adds to a run that its node reported" if row.is_linked else "the only source of this run"
    )
    rows = [
        PanelRow(
            "Server",
            text=row.source.name,
            page=Page("mlflow-server", (row.source_id,)),
            note=origin,
        )
    ]
    if has_power:
        cards = f"{figures.cards} GPU{'' if figures.cards == 1 else 's'}"
        note = f"sampled from {cards} of the node, including use by other processes"
        rows.append(PanelRow("GPU energy", Amount("energy_mj", figures.energy_mj), note=note))
    else:
        rows.append(PanelRow("GPU energy", text="none reported or none accepted"))
    if figures.superseded_mj:
        excluded = Amount("energy_mj", figures.superseded_mj)
        rows.append(
            PanelRow("Excluded from totals", excluded, note="a collector measured the same minutes")
        )
    if row.written_verdict:
        rows.append(PanelRow("Verdict in MLflow", text=row.written_verdict[:300]))
    if row.problem:
        rows.append(PanelRow("Import problem", text=row.problem))
    has_node = row.source.bound or row.node_uuid is not None or row.is_linked
    warning = (
        "The node of this run is unknown. If a collector also measures that node, this energy is "
        "counted twice."
    )
    return RunPanel(
        rows, [PanelWarning("node-unknown", warning)] if has_power and not has_node else []
    )


def problems(lab: Lab) -> list[Problem]:
    """Return the servers that do not respond. One query."""
    return [
        Problem(
            f"{server.name} does not respond", server.problem, Page("mlflow-server", (server.pk,))
        )
        for server in unreachable_servers(lab)[:MAX_PROBLEMS]
    ]


def queue_verdict(run: Run, text: str) -> None:
    queue_verdict_tag(run=run, text=text)


TRACKER = Tracker(
    name="mlflow",
    label="MLflow",
    setup_page="mlflow-servers",
    setup_text="LabCarbon polls MLflow servers. They need no token.",
    setup_link="Open MLflow servers",
    help_topics={"mlflow-servers": "server-polling", "mlflow-server": "server-polling"},
    run_panel=run_panel,
    problems=problems,
    verdicts=Verdicts(accepts=publishes_verdict, queue=queue_verdict),
)
