"""Form of the subject whose change is divided."""

from django import forms

from apps.accounts.models import Lab


class SubjectForm(forms.Form):
    """Choose the lab or a project. It is sent with GET."""

    project = forms.ChoiceField(label="Project", required=False)

    def __init__(self, lab: Lab, slug: str) -> None:
        super().__init__(initial={"project": slug})
        projects = lab.projects.order_by("name").values_list("slug", "name")
        choices = forms.ChoiceField(choices=[("", "Whole lab"), *projects]).choices
        self.fields["project"].widget.choices = choices  # type: ignore[attr-defined]
