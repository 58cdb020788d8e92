"""Fields that the setup forms of several trackers share."""

from typing import Any

from apps.dashboard.forms import NodeField, PageForm, ProjectField, SiteField
from apps.fleet.selectors import measured_nodes


class PlaceForm(PageForm):
    """Base of forms that say which project is charged, and where energy was used: on a node, or
    at a site.
    """

    project = ProjectField(label="Project", required=False)
    node = NodeField(label="Node", required=False, empty_label="Several nodes, or none of these")
    site = SiteField(
        label="Site",
        required=False,
        empty_label="Select …",
        help_text=(
            "Required without a node. The grid zone and the PUE of the site convert energy to "
            "carbon."
        ),
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        lab = self.visitor.lab
        self.fields["node"].queryset = measured_nodes(lab)  # type: ignore[attr-defined]
        self.fields["project"].label_from_instance = lambda project: project.name  # type: ignore[attr-defined]
        self.fields["node"].label_from_instance = lambda node: node.name  # type: ignore[attr-defined]
        self.fields["site"].label_from_instance = lambda site: site.name  # type: ignore[attr-defined]
