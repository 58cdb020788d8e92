"""Form of the page Greener hours: the site and the job."""

from collections.abc import Sequence

from django import forms
from django.http import QueryDict

from apps.fleet.models import Site

DURATIONS = (1, 2, 4, 8, 12, 24, 48, 72)
WAITS = (12, 24, 48, 72)
_DEFAULTS = {"hours": "4", "wait": "24"}


def _hours(numbers: Sequence[int]) -> list[tuple[str, str]]:
    return [(str(number), f"{number} hour{'' if number == 1 else 's'}") for number in numbers]


class JobForm(forms.Form):
    """The site of a job, its length, and the longest wait for its start. It is sent with GET."""

    site = forms.ChoiceField(label="Site")
    hours = forms.ChoiceField(label="Length", choices=_hours(DURATIONS))
    wait = forms.ChoiceField(label="Start within", choices=_hours(WAITS))

    def __init__(self, params: QueryDict, sites: Sequence[Site], site: Site) -> None:
        values = {**_DEFAULTS, "site": str(site.pk)}
        super().__init__({name: params.get(name) or value for name, value in values.items()})
        field = self.fields["site"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(str(each.pk), each.name) for each in sites]
