"""The base of the dashboard's forms: all errors at once and at their fields, roles, actions,
services' errors.
"""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from django import forms
from django.http import HttpRequest, QueryDict
from django.template.loader import render_to_string

from apps.accounts.choices import Role
from apps.accounts.models import Project, User
from apps.accounts.services.labs import create_lab
from apps.core.errors import Conflict, Forbidden, InvalidInput, NotFound
from apps.dashboard.decorators import ADMINS, Visitor
from apps.dashboard.forms import (
    DecimalField,
    NodeField,
    PageForm,
    PageForms,
    ProjectField,
    SiteField,
    StartOrAlwaysFields,
    TextField,
)
from apps.fleet.choices import SiteKind
from apps.fleet.models import Site
from apps.fleet.services import create_site, register_node
from tests.builders import T0, SmallLab, small_lab

pytestmark = pytest.mark.django_db


class PowerForm(PageForm):
    action = "power"
    name = TextField(max_length=10, help_text="As on the label.")
    power_w = DecimalField(min_value=0, max_value=1000, label="Power (W)")

    def save(self) -> str:
        if self.cleaned_data["name"] == "taken":
            raise Conflict("This name is in use.", field="name", hint="Choose another one.")
        if self.cleaned_data["name"] == "elsewhere":
            raise Conflict("The server is busy.", hint="Try again.")
        return f"{self.cleaned_data['name']}: {self.cleaned_data['power_w']} W"


class RemoveForm(PageForm):
    action = "remove"
    roles = ADMINS
    confirmed = forms.BooleanField()

    def save(self) -> str:
        raise NotFound("No such device.")


@pytest.fixture
def lab() -> SmallLab:
    return small_lab()


def visitor(lab: SmallLab, role: Role = Role.MEMBER) -> Visitor:
    return Visitor(lab.owner, lab.lab, role, 0)


def posted(**data: str) -> HttpRequest:
    request = HttpRequest()
    request.method = "POST"
    request.POST = QueryDict(mutable=True)
    request.POST.update(data)
    return request


def submitted(lab: SmallLab, role: Role = Role.MEMBER, **data: str) -> PageForm:
    form = PageForms(posted(**data), visitor(lab, role), [PowerForm, RemoveForm]).submitted
    assert form is not None
    return form


def test_a_valid_form_is_saved_and_says_so(lab: SmallLab) -> None:
    form = submitted(lab, action="power", name="gpu", power_w="12,5")
    assert form.submit()
    assert (form.message, form.status) == ("gpu: 12.5 W", 200)


def test_all_errors_are_shown_at_once_each_at_its_field(lab: SmallLab) -> None:
    form = submitted(lab, action="power", name="far too long a name", power_w="1.000,5")
    assert not form.submit()
    assert set(form.errors) == {"name", "power_w"}
    assert form.status == 400
    html = render_to_string("components/field.html", {"field": form["name"]})
    assert 'data-field-error="name"' in html
    assert 'aria-invalid="true"' in html
    assert 'aria-describedby="power-name_helptext power-name_error"' in html
    summary = render_to_string("components/form_errors.html", {"form": form})
    assert 'data-form-errors="2"' in summary
    assert 'href="#power-power_w"' in summary


@pytest.mark.parametrize("text", ["a\x00b", "\ud800"])
def test_text_that_no_database_stores_is_refused(lab: SmallLab, text: str) -> None:
    form = submitted(lab, action="power", name=text, power_w="1")
    assert not form.submit()
    assert set(form.errors) == {"name"}


@pytest.mark.parametrize(("name", "field"), [("taken", "name"), ("elsewhere", "__all__")])
def test_an_error_of_a_service_is_shown_where_it_belongs(
    lab: SmallLab, name: str, field: str
) -> None:
    form = submitted(lab, action="power", name=name, power_w="1")
    assert not form.submit()
    assert set(form.errors) == {field}
    assert form.status == 409


def test_a_role_that_may_not_submit_is_refused(lab: SmallLab) -> None:
    with pytest.raises(Forbidden):
        submitted(lab, Role.VIEWER, action="power", name="gpu", power_w="1").submit()
    with pytest.raises(Forbidden):
        submitted(lab, Role.MEMBER, action="remove", confirmed="on").submit()


def test_what_another_lab_owns_is_not_an_error_of_a_field(lab: SmallLab) -> None:
    with pytest.raises(NotFound):
        submitted(lab, Role.ADMIN, action="remove", confirmed="on").submit()


@pytest.mark.parametrize("data", [{}, {"action": "explode"}])
def test_an_unknown_action_names_those_there_are(lab: SmallLab, data: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        PageForms(posted(**data), visitor(lab), [PowerForm, RemoveForm])
    assert "power, remove" in caught.value.hint


def test_a_page_that_is_only_read_has_unbound_forms(lab: SmallLab) -> None:
    request = HttpRequest()
    request.method = "GET"
    page_forms = PageForms(request, visitor(lab), [PowerForm], initial={"power": {"name": "gpu"}})
    assert page_forms.submitted is None
    assert page_forms.status == 200
    assert 'value="gpu"' in str(page_forms["power"]["name"])


def test_a_preview_binds_the_form_that_the_address_names(lab: SmallLab) -> None:
    request = HttpRequest()
    request.method = "GET"
    request.GET = QueryDict("action=power&name=gpu&power_w=3")
    form = PageForms(request, visitor(lab), [PowerForm]).submitted
    assert form is not None
    assert form.is_valid()


class PlaceForm(PageForm, StartOrAlwaysFields):
    site = SiteField()
    node = NodeField(required=False)
    project = ProjectField(required=False)


def placed(lab: SmallLab, **data: Any) -> PlaceForm:
    return PlaceForm(
        visitor(lab), {"when": "from", "from_day": "2026-02-03", "site": str(lab.site.pk), **data}
    )


def test_nodes_of_declared_use_are_not_offered(lab: SmallLab) -> None:
    site = create_site(lab=lab.lab, name="Declared, DE", kind=SiteKind.DECLARED, zone="DE")
    node = register_node(lab=lab.lab, uuid=uuid4(), hostname=site.name, facts={}, site=site, now=T0)
    form = placed(lab, node=str(node.uuid))
    assert "node" in form.errors
    assert site.name not in str(form["node"])
    assert lab.node.hostname in str(form["node"])


def test_records_of_the_lab_are_chosen_by_number_uuid_and_slug(lab: SmallLab) -> None:
    project = Project.objects.create(lab=lab.lab, slug="vision", name="Vision", created_us=0)
    form = placed(lab, node=str(lab.node.uuid), project="vision")
    assert form.is_valid(), form.errors
    assert [form.cleaned_data[name] for name in ("site", "node", "project")] == [
        lab.site,
        lab.node,
        project,
    ]


def test_records_of_another_lab_are_neither_offered_nor_accepted(lab: SmallLab) -> None:
    owner = User.objects.create_user(username="charlie")
    other = create_lab(name="Other Lab", time_zone="UTC", owner=owner, now=0)
    site = Site.objects.create(lab=other, name="Foreign site", kind="server_room")
    project = Project.objects.create(
        lab=other, slug="foreign", name="Foreign project", created_us=0
    )
    form = placed(lab, site=str(site.pk), project=project.slug)
    assert not form.is_valid()
    assert set(form.errors) == {"site", "project"}
    assert "Foreign" not in form.as_p()


def test_a_site_of_declared_use_holds_no_node(lab: SmallLab) -> None:
    declared = Site.objects.create(lab=lab.lab, name="Cloud", kind=SiteKind.DECLARED)
    form = placed(lab, site=str(declared.pk))
    assert set(form.errors) == {"site"}
    assert "Cloud" not in form.as_p()


@pytest.mark.parametrize("value", ["x", "-1", "1\x00", "\ud800", "9" * 30, "1.5", " "])
@pytest.mark.parametrize("name", ["site", "node", "project"])
def test_values_that_are_no_record_are_errors_of_the_field(
    lab: SmallLab, name: str, value: str
) -> None:
    form = placed(lab, **{name: value})
    assert not form.is_valid()
    assert set(form.errors) == {name}
    assert form.errors.as_data()[name][0].code == "invalid_choice"


@pytest.mark.parametrize(
    ("day", "clock", "errors"),
    [
        ("", "", {"from_day"}),
        ("03.02.2026", "", {"from_day"}),
        ("0001-01-01", "", set()),  # services limit the years
        ("2026-02-03", "25:00", {"from_time"}),
        ("2026-02-03", "14:59", set()),
    ],
)
def test_a_start_is_a_day_and_a_time(lab: SmallLab, day: str, clock: str, errors: set[str]) -> None:
    form = placed(lab, from_day=day, from_time=clock)
    form.is_valid()
    assert set(form.errors) == errors


def test_a_start_is_a_whole_utc_hour(lab: SmallLab) -> None:
    lab.lab.time_zone = "Europe/Berlin"
    form = placed(lab, from_time="14:59")
    assert form.is_valid()
    assert form.start_us() == int(datetime(2026, 2, 3, 13, tzinfo=UTC).timestamp()) * 1_000_000


def test_always_needs_no_day(lab: SmallLab) -> None:
    form = placed(lab, when="always", from_day="", from_time="x")
    assert form.is_valid(), form.errors
    assert form.always
    assert set(placed(lab, when="").errors) == {"when"}
