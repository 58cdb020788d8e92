"""Which run of ours a run of MLflow is, what it is a part of, and where it computes."""

from uuid import NAMESPACE_URL, UUID, uuid5

from apps.accounts.models import Project
from apps.fleet.models import Node
from apps.fleet.selectors import measured_nodes
from apps.runs.models import Run
from apps.runs.services.updates import External, first_of
from apps.trackers.mlflow.parsing import ToldRun
from apps.trackers.models import MlflowRun, MlflowSource

TOOL = "mlflow"


class Place:
    """Which run of ours a run of MLflow is. ``uuid``: of the one to make, where ``run`` is None.

    ``by_tag``: the UUID is its process's word, whose collector may tell of the same run, before or after.
    """

    def __init__(self, source: MlflowSource, row: MlflowRun, told: ToldRun, project: Project) -> None:
        self.source, self.project, self.row, self.told = source, project, row, told
        self.problem, self.refused = "", False
        self.part_of = told.part_of
        self.uuid = uuid5(NAMESPACE_URL, f"labcarbon:mlflow:{source.lab_id}:{source.pk}:{told.run_id}")
        self.run: Run | None = row.run
        self.joined = row.joined
        self.by_tag = row.run is not None and row.run.uuid != self.uuid and not row.joined
        if self.by_tag and row.run is not None and (row.run.node_id or row.run.command):
            self.joined = True  # its collector told of it meanwhile, and knows better
        if row.run is None and not self._by_id():
            self._by_tag()

    def _by_id(self) -> bool:
        """The same id of the same tool is the same run."""
        self.run = first_of(self.source.lab, External(TOOL, self.told.run_id))
        if self.run is None:
            return False
        self.joined = True
        if not self._is_of_project(self.run):
            self.refused, self.problem = True, "It is known already as a run of another project, and was left there."
        return True

    def _by_tag(self) -> None:
        """Its process said which run of ours it is: believed for a run of the same lab and project, or of none yet."""
        uuid = self.told.run_uuid
        if uuid is None:
            return
        there = Run.objects.select_for_update(of=("self",)).filter(lab=self.source.lab, uuid=uuid).first()
        if there is None:  # it comes later, from a collector that was away: then it is renewed, not made again
            self.uuid, self.by_tag = uuid, True
        elif not self._is_of_project(there):
            self.problem = "Its tag labcarbon.run_uuid names a run of another project: they were kept apart."
        elif there.mlflow.exclude(source=self.source, mlflow_id=self.told.run_id).exists():
            self.part_of = uuid  # of several that say so the first is the run
        else:
            self.run, self.joined = there, True

    def _is_of_project(self, run: Run) -> bool:
        charged: set[int | None] = {run.charged_project_id, run.project_id} - {None}
        return not charged or self.project.pk in charged

    @property
    def parent(self) -> UUID | None:
        if self.told.parent:
            above = self.source.runs.filter(mlflow_id=self.told.parent, run__isnull=False).exclude(pk=self.row.pk)
            found = above.values_list("run__uuid", flat=True).first()
            if found is not None:
                return found
        return self.part_of

    @property
    def node(self) -> Node | None:
        """Its machine: the one it named, else that of what it is a part of, else the server's. None: its collector says."""
        if self.by_tag:
            return None
        lab, named = self.source.lab, None
        if self.told.node_uuid is not None:
            named = measured_nodes(lab).filter(uuid=self.told.node_uuid).first()
        if named is None and self.parent is not None:
            named = Node.objects.filter(lab=lab, runs__lab=lab, runs__uuid=self.parent).first()
        return named or self.source.node
