"""The run, parent and node of an MLflow run."""

from uuid import NAMESPACE_URL, UUID, uuid5

from apps.accounts.models import Project
from apps.fleet.models import Node
from apps.fleet.selectors import measured_nodes
from apps.runs.models import Run
from apps.runs.services.updates import External, run_by_external_id
from apps.trackers.mlflow.models import MlflowRun, MlflowSource
from apps.trackers.mlflow.parsing import TrackedRun

TOOL = "mlflow"


class RunResolution:
    """The run of an MLflow run. ``uuid``: UUID of the run to create, if ``run`` is None.

    ``by_tag``: its process set the UUID, so its collector may report the same run, earlier or
    later.
    """

    def __init__(
        self, source: MlflowSource, row: MlflowRun, payload: TrackedRun, project: Project
    ) -> None:
        self.source, self.project, self.row, self.payload = source, project, row, payload
        self.problem, self.refused = "", False
        self.part_of = payload.part_of
        self.uuid = uuid5(
            NAMESPACE_URL, f"labcarbon:mlflow:{source.lab_id}:{source.pk}:{payload.run_id}"
        )
        self.run: Run | None = row.run
        self.is_linked = row.is_linked
        self.by_tag = row.run is not None and row.run.uuid != self.uuid and not row.is_linked
        if self.by_tag and row.run is not None and (row.run.node_id or row.run.command):
            self.is_linked = True  # its collector reported it meanwhile and takes precedence
        if row.run is None and not self._resolve_by_id():
            self._by_tag()

    def _resolve_by_id(self) -> bool:
        """Find the run by its external id."""
        self.run = run_by_external_id(self.source.lab, External(TOOL, self.payload.run_id))
        if self.run is None:
            return False
        self.is_linked = True
        if not self._is_of_project(self.run):
            self.refused, self.problem = (
                True,
                "It is known already as a run of another project, and was left there.",
            )
        return True

    def _by_tag(self) -> None:
        """Find the run by the UUID that its process set.

        The UUID is valid for a run of the same lab and project, or for an unattributed run.
        """
        uuid = self.payload.run_uuid
        if uuid is None:
            return
        existing = (
            Run.objects.select_for_update(of=("self",))
            .filter(lab=self.source.lab, uuid=uuid)
            .first()
        )
        if existing is None:  # its collector may report it later; that report updates this run
            self.uuid, self.by_tag = uuid, True
        elif not self._is_of_project(existing):
            self.problem = (
                "Its tag labcarbon.run_uuid names a run of another project: they were kept apart."
            )
        elif existing.mlflow.exclude(source=self.source, mlflow_id=self.payload.run_id).exists():
            self.part_of = uuid  # several MLflow runs with this UUID: the first one is the run
        else:
            self.run, self.is_linked = existing, True

    def _is_of_project(self, run: Run) -> bool:
        charged: set[int | None] = {run.charged_project_id, run.project_id} - {None}
        return not charged or self.project.pk in charged

    @property
    def parent(self) -> UUID | None:
        if self.payload.parent:
            parents = self.source.runs.filter(
                mlflow_id=self.payload.parent, run__isnull=False
            ).exclude(pk=self.row.pk)
            uuid = parents.values_list("run__uuid", flat=True).first()
            if uuid is not None:
                return uuid
        return self.part_of

    @property
    def node(self) -> Node | None:
        """Return the node: of the process, else of the parent, else of the server.

        None: the collector reports it.
        """
        if self.by_tag:
            return None
        lab, named = self.source.lab, None
        if self.payload.node_uuid is not None:
            named = measured_nodes(lab).filter(uuid=self.payload.node_uuid).first()
        if named is None and self.parent is not None:
            named = Node.objects.filter(lab=lab, runs__lab=lab, runs__uuid=self.parent).first()
        return named or self.source.node
