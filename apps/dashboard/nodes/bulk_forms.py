"""Changes of one or many nodes: the selection, and one form per change with its preview."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from django import forms
from django.db import transaction

from apps.attribution.services.rules import Criteria, drafted_rule, make_rules
from apps.core.errors import Conflict, InvalidInput
from apps.dashboard.attribution.forms import ItemsField
from apps.dashboard.decorators import MANAGERS
from apps.dashboard.forms import PageForm, ProjectField, SiteField, StartFields, StartOrAlwaysFields
from apps.dashboard.nodes.change_preview import Effect
from apps.dashboard.nodes.forms import RECALCULATED, OverheadForm, PreviewedForm
from apps.fleet.models import Node
from apps.fleet.services import (
    correct_place,
    move_node,
    restore_node,
    retire_node,
    rotate_tokens,
    set_static_power,
)

MOST_NODES = 500
SELECT_ONE = "Select at least one node."


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise InvalidInput(
            "Unreadable selection.", field="item", hint="Select the nodes again."
        ) from error


class NodeSelectionForm(PageForm):
    """The selected nodes: checkboxes of the list, or the UUIDs of a page that followed it.

    ``record``: the previewed change is confirmed.
    """

    roles = MANAGERS
    action = "select"

    item = ItemsField(required=False)
    selected = forms.CharField(required=False, widget=forms.HiddenInput)
    record = forms.CharField(required=False, widget=forms.HiddenInput)

    def nodes(self) -> list[Node]:
        """Return the selected nodes. Raises InvalidInput, Conflict."""
        texts = [
            *self.cleaned_data["item"],
            *filter(None, self.cleaned_data["selected"].split(".")),
        ]
        uuids = {_uuid(text) for text in texts[: MOST_NODES + 1]}
        if not uuids:
            raise InvalidInput(SELECT_ONE, field="item")
        if len(uuids) > MOST_NODES:
            raise InvalidInput(
                f"More than {MOST_NODES} nodes are selected.",
                field="item",
                hint=f"Select at most {MOST_NODES}.",
            )
        rows = Node.objects.filter(lab=self.visitor.lab, uuid__in=uuids).select_related("lab")
        nodes = list(rows.order_by("hostname", "pk"))
        if len(nodes) != len(uuids):
            raise Conflict("Some of these nodes do not exist.", hint="Reload the list of nodes.")
        return nodes


@dataclass(frozen=True)
class NodeChange:
    """The value of a node now and after a change."""

    node: Node
    before: str
    after: str


class NodesForm(PageForm):
    """A change of ``nodes``, of all or of none. Each change has its row in the audit log."""

    roles = MANAGERS
    nodes: list[Node]
    title: ClassVar[str]
    description: ClassVar[str] = ""
    button: ClassVar[str] = "Save"
    code = ""

    def changes(self) -> list[NodeChange]:
        """Return the previewed change of each node."""
        raise NotImplementedError

    def apply(self) -> str:
        """Save the change of all nodes; return the message."""
        raise NotImplementedError

    def save(self) -> str:
        with transaction.atomic():
            return self.apply()

    def trial(self) -> list[NodeChange] | None:
        """Return the change of each node, or None if it cannot be saved. Nothing is saved."""
        self.visitor.require_role(self.roles)
        with transaction.atomic():
            changes = self.changes() if self.is_valid() else []
            possible = self.submit()
            transaction.set_rollback(True)
        self.code = ""
        return changes if possible else None

    def each(self, change: Callable[..., object], **values: Any) -> None:
        for node in self.nodes:
            change(node=node, by=self.visitor.user, now=self.visitor.now, **values)

    @property
    def count(self) -> str:
        """Return the number of nodes as text."""
        return f"{len(self.nodes)} node{'' if len(self.nodes) == 1 else 's'}"


class SiteChangeForm(NodesForm, PreviewedForm, StartOrAlwaysFields):
    """Move nodes to a site."""

    action = "move"
    title = "Site"
    description = "Emissions of each hour use the grid zone and PUE of the site in that hour."

    site = SiteField(empty_label="Choose a site")
    field_order = ("site", "when", "from_day", "from_time")

    def changes(self) -> list[NodeChange]:
        return []  # the effect on emissions is shown

    def effect(self) -> Effect | None:
        """Return the effect on emissions, None if the form has errors."""
        return self.preview()

    def apply(self) -> str:
        site = self.cleaned_data["site"]
        if self.always:
            self.each(correct_place, site=site)
        else:
            self.each(move_node, site=site, from_us=self.start_us())
        return f"Site of {self.count}: {site}. {RECALCULATED}"


def _watts(power_mw: int | None) -> str:
    return "unknown" if power_mw is None else f"{power_mw / 1000:g} W"


class OverheadChangeForm(NodesForm, OverheadForm):
    """Set the node overhead."""

    action = "overhead"
    title = "Node overhead"
    description = "All hours of these nodes are recalculated."

    def changes(self) -> list[NodeChange]:
        after = _watts(self._static_power_mw())
        return [NodeChange(node, _watts(node.static_power_mw), after) for node in self.nodes]

    def apply(self) -> str:
        self.each(set_static_power, static_power_mw=self._static_power_mw())
        return f"Node overhead of {self.count} saved. All hours are recalculated in the background."


class RuleForm(NodesForm, StartFields):
    """Charge the use of nodes to a project by a rule each."""

    action = "rule"
    title = "Project by rule"
    description = (
        "A rule for each node. Runs with a project, claims, and rules by account keep precedence."
    )

    project = ProjectField(empty_label="Choose a project")
    field_order = ("project", "from_day", "from_time")

    def changes(self) -> list[NodeChange]:
        after = f"new rule: {self.cleaned_data['project'].name}"
        return [NodeChange(node, "no change of earlier rules", after) for node in self.nodes]

    def apply(self) -> str:
        rules = [
            drafted_rule(
                lab=self.visitor.lab,
                criteria=Criteria(node=node),
                project=self.cleaned_data["project"],
                person=None,
                from_us=self.start_us(),
            )
            for node in self.nodes
        ]
        make_rules(rules=rules, by=self.visitor.user, now=self.visitor.now)
        return f"Rules for {self.count} created."


class RetireForm(NodesForm):
    """Retire nodes."""

    action = "retire"
    title = "Retire"
    button = title
    description = (
        "Energy and figures stay. The tokens end now, the nodes are no longer expected to report, "
        "and the list shows them on request only. You can use a node again."
    )

    def changes(self) -> list[NodeChange]:
        return [NodeChange(node, "in use", "retired, tokens ended") for node in self.nodes]

    def apply(self) -> str:
        self.each(retire_node)
        return f"{self.count.capitalize()} retired."


class RestoreForm(NodesForm):
    """Use retired nodes again."""

    action = "restore"
    title = "Use again"
    button = title
    description = "The tokens stay ended: enrol each machine again afterwards."

    def changes(self) -> list[NodeChange]:
        return [NodeChange(node, "retired", "in use, to be enrolled") for node in self.nodes]

    def apply(self) -> str:
        self.each(restore_node)
        return f"{self.count.capitalize()} in use again. Enrol each machine again."


class RotateForm(NodesForm):
    """End the tokens of nodes, and create one code that enrols each of them again."""

    action = "rotate"
    title = "Rotate tokens"
    button = title
    description = (
        "The tokens end now. One code, valid for one hour, enrols each of these machines again. "
        "Measurements wait on the machine until then."
    )

    def changes(self) -> list[NodeChange]:
        return [NodeChange(node, "current token", "ended, to be enrolled") for node in self.nodes]

    def apply(self) -> str:
        self.code = rotate_tokens(nodes=self.nodes, by=self.visitor.user, now=self.visitor.now)
        return f"Tokens of {self.count} ended."


NODES_FORMS: tuple[type[NodesForm], ...] = (
    SiteChangeForm, OverheadChangeForm, RuleForm, RotateForm, RetireForm, RestoreForm,
)  # fmt: skip
