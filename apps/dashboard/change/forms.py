"""Form of what is divided: the lab or a project, energy or emissions."""

from collections.abc import Mapping

from django import forms

from apps.accounts.models import Lab


class SubjectForm(forms.Form):
    """Choose the lab or a project, and the metric. It is sent with GET."""

    project = forms.ChoiceField(label="Project", required=False)
    metric = forms.ChoiceField(label="Metric")

    def __init__(self, lab: Lab, slug: str, metric: str, metrics: Mapping[str, str]) -> None:
        super().__init__(initial={"project": slug, "metric": metric})
        projects = lab.projects.order_by("name").values_list("slug", "name")
        self._offer("project", [("", "Whole lab"), *projects])
        self._offer("metric", list(metrics.items()))

    def _offer(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices
