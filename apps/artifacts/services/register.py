"""Registration of artifacts in bulk, with one result per row. Idempotent."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import IntegrityError, transaction

from apps.accounts.models import Lab, User
from apps.artifacts.choices import ArtifactState, Kind, LineageRole, LineageSource
from apps.artifacts.models import Alias, Artifact, LineageEdge
from apps.artifacts.parsing import ArtifactRow
from apps.artifacts.services.copies import CopyRecorder, is_address
from apps.artifacts.storage_model import data_match_key, start_match_key
from apps.core.errors import Forbidden, InvalidInput
from apps.core.jobs import enqueue
from apps.fleet.models import Node
from apps.fleet.selectors import node_of
from apps.runs.models import Run

LINK_JOB = "artifacts.join"
LINK_DELAY_US = 2_000_000  # collects several requests
RowResult = list[str]
_UPDATED_FIELDS = (
    "kind",
    "format",
    "payload",
    "licence",
    "tags",
    "facts",
    "state",
    "project",
    "owner",
    "os_user",
)


def register(
    *,
    lab: Lab,
    rows: Sequence[ArtifactRow | str],
    node_uuid: UUID | None,
    by: User | None,
    bound_node: UUID | None,
    now: int,
) -> list[RowResult]:
    """Create or update artifacts with their copies and edges; return a result for each row, in
    order.

    A result is ``created``, ``changed``, ``unchanged`` or ``refused``, followed by notes if there
    are any. ``rows``: from ``parsing.parse_artifacts``. Paths are on the node ``node_uuid``;
    addresses (``s3://…``) are on no node. Known values are never replaced by empty ones. Raises
    Forbidden and InvalidInput as :func:`resolve_node` does.
    """
    node = resolve_node(lab, node_uuid, bound_node)
    try:
        with transaction.atomic():
            return _Registration(lab, node, rows, by, now).execute()
    except IntegrityError:  # a concurrent request registered the same content
        with transaction.atomic():
            return _Registration(lab, node, rows, by, now).execute()


def resolve_node(lab: Lab, node_uuid: UUID | None, bound_node: UUID | None) -> Node | None:
    """Return the node of a request.

    Raises Forbidden if a node's token names another node, InvalidInput for an unknown node.
    """
    if bound_node is not None and node_uuid not in (None, bound_node):
        raise Forbidden(
            "This token is limited to its own node.", hint="Omit 'node', or use a personal token."
        )
    uuid = bound_node or node_uuid
    node = node_of(lab, uuid) if uuid else None
    if uuid and node is None:
        raise InvalidInput(
            "There is no such node in this lab.",
            field="node",
            hint="Enrol it first, or omit 'node'.",
        )
    return node


def save_edges(*, lab: Lab, edges: Iterable[tuple[int, int, str, str]], now: int) -> None:
    """Save edges ``(run, artifact, role, source)`` with run and artifact as primary keys. Existing
    edges are unchanged.
    """
    rows = [
        LineageEdge(
            lab=lab, run_id=run, artifact_id=artifact, role=role, source=source, recorded_us=now
        )
        for run, artifact, role, source in edges
    ]
    LineageEdge.objects.bulk_create(rows, ignore_conflicts=True, batch_size=500)


@dataclass
class _Pending:
    """An artifact of the request with its values before the request."""

    artifact: Artifact
    before: tuple[object, ...] | None  # None: new


class _Registration:
    """One request, in a fixed number of statements."""

    def __init__(
        self,
        lab: Lab,
        node: Node | None,
        rows: Sequence[ArtifactRow | str],
        by: User | None,
        now: int,
    ) -> None:
        self._lab, self._node, self._rows, self._by, self._now = lab, node, rows, by, now
        valid = [row for row in rows if not isinstance(row, str)]
        known = Artifact.objects.select_for_update(of=("self",)).filter(
            lab=lab, digest__in={row.digest for row in valid}
        )
        self._known = {
            artifact.digest: _Pending(artifact, _field_values(artifact))
            for artifact in known.order_by("pk")
        }
        self._projects = {artifact.slug: artifact for artifact in lab.projects.all()}
        self._runs = self._load_runs(valid)
        self._copies = CopyRecorder(lab=lab, node=node, rows=valid, now=now)
        self._accepted: list[ArtifactRow] = []
        self._updated: list[Artifact] = []  # to be linked with runs and indexed for reuse

    def execute(self) -> list[RowResult]:
        results = [self._register_row(row) for row in self._rows]
        self._store()
        return results

    def _load_runs(self, rows: Sequence[ArtifactRow]) -> dict[UUID, Run]:
        run_ids = {edge.run for row in rows for edge in row.runs}
        runs = Run.objects.filter(lab=self._lab, uuid__in=run_ids).select_related(
            "charged_project", "user"
        )
        return {run.uuid: run for run in runs} if run_ids else {}

    def _register_row(self, row: ArtifactRow | str) -> RowResult:
        problem = row if isinstance(row, str) else self._problem(row)
        if isinstance(row, str) or problem:
            return ["refused", problem]
        is_new = row.digest not in self._known
        pending = self._known.setdefault(row.digest, _Pending(self._fresh(row), None))
        before = _field_values(pending.artifact)
        _merge(pending.artifact, row)
        notes = self._set_project_and_owner(pending.artifact, row)
        self._accepted.append(row)
        copies_changed = self._copies.add(pending.artifact, row.copies)
        result = (
            "created"
            if is_new
            else "changed"
            if copies_changed or before != _field_values(pending.artifact)
            else "unchanged"
        )
        if row.runs or is_new or before != _field_values(pending.artifact):
            self._updated.append(pending.artifact)
        return [result, *notes]

    def _problem(self, row: ArtifactRow) -> str:
        pending = self._known.get(row.digest)
        if pending is not None and (pending.artifact.bytes, pending.artifact.form) != (
            row.bytes,
            row.form,
        ):
            return (
                f"This digest is registered as a {pending.artifact.form} of "
                f"{pending.artifact.bytes} bytes."
            )
        if self._node is None and not all(is_address(copy.path) for copy in row.copies):
            return "A path needs its node. Add 'node'."
        return ""

    def _fresh(self, row: ArtifactRow) -> Artifact:
        return Artifact(
            lab=self._lab,
            digest=row.digest,
            form=row.form,
            bytes=row.bytes,
            files=row.files,
            kind=row.kind,
            name=row.name,
            start_key=start_match_key(row.form, row.digest, row.bytes),
            data_key=data_match_key(row.form, row.digest, row.bytes),
            registered_us=self._now,
        )

    def _set_project_and_owner(self, artifact: Artifact, row: ArtifactRow) -> list[str]:
        """Set project and owner if unknown; return notes on what could not be set."""
        notes = []
        named = self._projects.get(row.project)
        if row.project and named is None:
            slugs = ", ".join(sorted(self._projects)[:10])
            notes.append(
                f"There is no project {row.project!r} (projects: {slugs}). Registered without a "
                "project."
            )
        producer = next(
            (self._runs.get(edge.run) for edge in row.runs if edge.role == LineageRole.PRODUCED),
            None,
        )
        artifact.project = (
            artifact.project or named or (producer.charged_project if producer else None)
        )
        artifact.owner = (
            artifact.owner
            or (producer.user if producer else None)
            or (self._by if row.own else None)
        )
        unknown = next((edge.run for edge in row.runs if edge.run not in self._runs), None)
        if unknown is not None:
            notes.append(
                f"There is no run {unknown} in this lab. Report the run, then register the "
                "artifact again."
            )
        return notes

    def _store(self) -> None:
        new = [pending.artifact for pending in self._known.values() if pending.before is None]
        changed = [
            pending.artifact
            for pending in self._known.values()
            if pending.before not in (None, _field_values(pending.artifact))
        ]
        Artifact.objects.bulk_create(new, batch_size=500)
        Artifact.objects.bulk_update(changed, list(_UPDATED_FIELDS), batch_size=200)
        self._copies.store()
        accepted = [(row, self._known[row.digest].artifact) for row in self._accepted]
        aliases = [
            Alias(artifact=artifact, algorithm=name, value=value)
            for row, artifact in accepted
            for name, value in row.aliases.items()
        ]
        Alias.objects.bulk_create(aliases, ignore_conflicts=True)
        edges = [
            (self._runs[edge.run].pk, artifact.pk, edge.role.value, LineageSource.REPORTED.value)
            for row, artifact in accepted
            for edge in row.runs
            if edge.run in self._runs
        ]
        save_edges(lab=self._lab, edges=edges, now=self._now)
        if self._updated:
            Artifact.objects.filter(
                pk__in=[artifact.pk for artifact in self._updated], is_linked=True
            ).update(is_linked=False)
            enqueue(kind=LINK_JOB, key=str(self._lab.pk), due_us=self._now + LINK_DELAY_US)


def _merge(artifact: Artifact, row: ArtifactRow) -> None:
    """Merge a row into an artifact. Known values stay; tags and facts are updated."""
    if artifact.kind == Kind.OTHER:
        artifact.kind = row.kind
    artifact.format = artifact.format or row.format
    artifact.payload = artifact.payload or row.payload or ""
    artifact.licence = artifact.licence or row.licence
    artifact.os_user = artifact.os_user or row.user
    artifact.tags, artifact.facts = {**artifact.tags, **row.tags}, {**artifact.facts, **row.facts}
    if row.copies and artifact.state in (ArtifactState.REGISTERED, ArtifactState.TOMBSTONE):
        artifact.state = ArtifactState.STORED


def _field_values(artifact: Artifact) -> tuple[object, ...]:
    return tuple(
        dict(value) if isinstance(value := getattr(artifact, name), dict) else value
        for name in _UPDATED_FIELDS
    )
