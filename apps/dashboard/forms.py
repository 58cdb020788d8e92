"""Base of the dashboard's forms: roles, lab, errors, and fields that several areas share."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, time
from typing import Any, ClassVar, Self

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from apps.accounts.choices import Role
from apps.accounts.models import Lab, Project
from apps.core.errors import Forbidden, InvalidInput, LabCarbonError, NotFound
from apps.core.intervals import midnight_hour
from apps.core.text import is_unstorable, parse_decimal, parse_record_number
from apps.core.units import US_PER_HOUR
from apps.dashboard.decorators import WRITERS, Visitor
from apps.fleet.choices import SiteKind
from apps.fleet.models import Node, Site

ACTION = "action"  # name of the field that selects one of several forms of a page


class TextField(forms.CharField):
    """One line of text that every database can store."""

    def validate(self, value: Any) -> None:
        super().validate(value)
        if is_unstorable(str(value)):
            raise ValidationError("Invalid character. Remove it and try again.", code="invalid")


class DecimalField(forms.DecimalField):
    """A decimal number in plain digits; a comma is read as the decimal point. Exponents and
    separators of thousands are refused.
    """

    widget = forms.TextInput

    def __init__(
        self, *, decimal_places: int | None = None, max_digits: int | None = 30, **options: Any
    ) -> None:
        super().__init__(decimal_places=decimal_places, max_digits=max_digits, **options)
        self.widget.attrs.setdefault("inputmode", "decimal")

    def to_python(self, value: Any) -> Any:
        if isinstance(value, str):
            value = value.strip().replace(",", ".")
            if value and parse_decimal(value.removeprefix("-")) is None:
                raise ValidationError(self.error_messages["invalid"], code="invalid")
        return super().to_python(value)


class DayField(forms.DateField):
    """A day from 1970 to 2200, as 2026-01-31."""

    def __init__(self, **options: Any) -> None:
        messages = {"invalid": "Enter a day as 2026-01-31.", "required": "Enter a day."}
        super().__init__(
            input_formats=["%Y-%m-%d"],
            widget=forms.DateInput({"type": "date"}),
            error_messages=messages,
            **options,
        )

    def validate(self, value: Any) -> None:
        super().validate(value)
        if value and not 1970 <= value.year <= 2200:
            raise ValidationError("Enter a year from 1970 to 2200.", code="invalid")


def submitted(request: HttpRequest) -> Mapping[str, Any] | None:
    """Return the fields of a form that is sent with POST and stores nothing, None for a GET."""
    return request.POST if request.method == "POST" else None


def require_valid(form: forms.Form) -> None:
    """Raise InvalidInput for the first error of a form that is sent with GET."""
    for name, errors in form.errors.items():
        raise InvalidInput(
            f"{form.fields[name].label or name}: {errors[0]}",
            field=name,
            hint="Choose a value of the page.",
        )


class LabRecordField(forms.ModelChoiceField):  # type: ignore[type-arg]  # generic in the stubs only
    """A choice among records of the visitor's lab. PageForm sets the lab."""

    def limit_to_lab(self, lab: Lab) -> None:
        """Offer the records of ``lab`` only."""
        assert self.queryset is not None
        self.queryset = self.queryset.filter(lab=lab)

    def to_python(self, value: Any) -> Any:
        is_wrong = isinstance(value, str) and (
            is_unstorable(value)
            or (self.to_field_name is None and value != "" and parse_record_number(value) is None)
        )
        error = ValidationError(self.error_messages["invalid_choice"], code="invalid_choice")
        if is_wrong:
            raise error
        try:
            return super().to_python(value)
        except ValidationError as invalid:  # of the model's field: a text that is no UUID
            raise error from invalid


class SiteField(LabRecordField):
    """A site of the lab, by number. ``with_declared``: sites of declared use too, in which no
    node can be.
    """

    def __init__(self, *, with_declared: bool = False, **options: Any) -> None:
        messages = {"invalid_choice": "No such site in this lab. Choose one of the list."}
        sites = Site.objects.order_by("name", "pk")
        if not with_declared:
            sites = sites.exclude(kind=SiteKind.DECLARED)
        super().__init__(sites, **{"error_messages": messages, **options})


class NodeField(LabRecordField):
    """A node of the lab, by UUID. Those of declared use are no machines: they are not offered."""

    def __init__(self, **options: Any) -> None:
        messages = {"invalid_choice": "No such node in this lab. Choose one of the list."}
        nodes = Node.objects.exclude(placements__site__kind=SiteKind.DECLARED)
        super().__init__(
            nodes.order_by("hostname", "pk"),
            to_field_name="uuid",
            **{"error_messages": messages, **options},
        )


class ProjectField(LabRecordField):
    """A project of the lab, by slug."""

    def __init__(self, **options: Any) -> None:
        messages = {"invalid_choice": "No such project in this lab. Choose one of the list."}
        super().__init__(
            Project.objects.order_by("name"),
            to_field_name="slug",
            **{"error_messages": messages, **options},
        )


class StartFields(forms.Form):
    """Fields for the day and hour from which a fact holds; inherited by page forms. ``start_us``
    reads them.
    """

    from_day = forms.DateField(
        label="From",
        input_formats=["%Y-%m-%d"],
        widget=forms.DateInput({"type": "date"}),
        error_messages={"invalid": "Enter a day as 2026-01-31."},
    )
    from_time = forms.TimeField(
        label="Time (whole hours)",
        required=False,
        input_formats=["%H:%M", "%H:%M:%S"],
        widget=forms.TimeInput({"type": "time", "step": "3600"}, format="%H:%M"),
        error_messages={"invalid": "Enter a time as 14:00."},
    )
    visitor: Visitor

    def start_us(self) -> int:
        """Return the start (µs) of the UTC hour that contains the day and time, in the lab's time
        zone.

        Midnight in a zone off the hour is the next whole UTC hour, as for all days. Call it on a
        valid form only.
        """
        day, clock = self.cleaned_data["from_day"], self.cleaned_data.get("from_time") or time()
        if clock == time():
            hour = midnight_hour(day, self.visitor.zone)
        else:
            hour = int(datetime.combine(day, clock, self.visitor.zone).timestamp()) // 3600
        return hour * US_PER_HOUR


class StartOrAlwaysFields(StartFields):
    """Fields for a fact that holds from an hour on, or that always held. One of the two must be
    chosen.
    """

    when = forms.ChoiceField(
        label="Valid from",
        choices=[("from", "From a date"), ("always", "Always (correction)")],
        widget=forms.RadioSelect,
        error_messages={
            "required": "Choose a date or “always”.",
            "invalid_choice": "Choose a date or “always”.",
        },
    )
    field_order: Iterable[str] | None = ("when", "from_day", "from_time")

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.fields["from_day"].required = False  # in browsers too: “always” needs no day

    @property
    def always(self) -> bool:
        return bool(self.cleaned_data["when"] == "always")

    def clean(self) -> dict[str, Any]:
        if self.data.get("when") == "always":
            for name in ("from_day", "from_time"):
                self.errors.pop(name, None)
        elif not self.cleaned_data.get("from_day") and "from_day" not in self.errors:
            self.add_error("from_day", "Enter the first day.")
        return super().clean() or self.cleaned_data


class ServiceForm(forms.Form):
    """A form whose ``save`` calls a service. Errors of the service are shown at their fields."""

    message = ""
    _error_status = 0

    @property
    def status(self) -> int:
        """Return the HTTP status of a page that shows this form: 200, or that of its error."""
        if self._error_status:
            return self._error_status
        return 400 if self.is_bound and self.errors else 200

    def save(self) -> str:
        """Write what the form says; return the message for the user. Services raise
        LabCarbonError.
        """
        raise NotImplementedError

    def submit(self) -> bool:
        """Validate and save; return whether that worked. Raises Forbidden and NotFound."""
        if not self.is_valid():
            return False
        try:
            self.message = self.save()
        except (Forbidden, NotFound):
            raise
        except LabCarbonError as error:
            self.add_service_error(error)
            return False
        return True

    def check_fields(self, checks: Mapping[str, Callable[[Any], object]]) -> None:
        """Run checks of services on valid, non-empty fields, so that one page shows all errors.

        A check raises LabCarbonError.
        """
        for name, check in checks.items():
            value = self.cleaned_data.get(name)
            if name in self.errors or value in (None, ""):
                continue
            try:
                check(value)
            except LabCarbonError as error:
                self.add_error(name, f"{error.message} {error.hint}".strip())

    def add_service_error(self, error: LabCarbonError) -> None:
        """Show an error of a service at the field that it names, or above the form."""
        field = error.field if error.field in self.fields else None
        self.add_error(field, f"{error.message} {error.hint}".strip())
        self._error_status = error.status


class PageForm(ServiceForm):
    """A form of one lab's page.

    ``roles``: who may submit it. ``action``: value of the field ``action`` where a page has several
    forms. ``context``: objects that the form needs besides the visitor (the site it changes, …), as
    attributes.
    """

    roles: ClassVar[frozenset[Role]] = WRITERS
    action: ClassVar[str] = ""

    def __init__(
        self,
        visitor: Visitor,
        data: Mapping[str, Any] | None = None,
        files: Mapping[str, Any] | None = None,
        *,
        initial: Mapping[str, Any] | None = None,
        **context: Any,
    ) -> None:
        self.visitor = visitor
        for name, value in context.items():
            setattr(self, name, value)
        super().__init__(
            data,
            files,  # type: ignore[arg-type]
            initial=dict(initial) if initial else None,
            auto_id=self._auto_id(),
            label_suffix="",
        )
        for field in self.fields.values():
            if isinstance(field, LabRecordField):
                field.limit_to_lab(visitor.lab)

    @classmethod
    def from_request(
        cls, request: HttpRequest, visitor: Visitor, *, prefill: bool = False, **options: Any
    ) -> Self:
        """Return the only form of a page: bound by a POST, else unbound. ``options`` as for the
        form itself.

        ``prefill``: the query string of a GET sets initial values.
        """
        if request.method == "POST":
            return cls(visitor, request.POST, request.FILES, **options)
        if prefill:
            options["initial"] = {
                name: value for name, value in request.GET.items() if name in cls.base_fields
            }
        return cls(visitor, **options)

    @classmethod
    def _auto_id(cls) -> str:
        """Return the pattern of element ids: forms of one page have fields of the same name."""
        return f"{cls.action}-%s" if cls.action else "%s"

    def submit(self) -> bool:
        """Validate and save; return whether that worked. Errors are shown at their fields, those of
        services too.

        Raises Forbidden for a role that may not, NotFound for what another lab owns.
        """
        self.visitor.require_role(self.roles)
        return super().submit()


class PageForms:
    """The forms of one page. ``submitted`` is the one that the field ``action`` of a POST names, or
    of a GET that previews.

    Raises InvalidInput for an action that the page does not have.
    """

    def __init__(
        self,
        request: HttpRequest,
        visitor: Visitor,
        classes: Iterable[type[PageForm]],
        *,
        initial: Mapping[str, Mapping[str, Any]] | None = None,
        **context: Any,
    ) -> None:
        self._by_action: dict[str, PageForm] = {}
        self.submitted: PageForm | None = None
        data = request.POST if request.method == "POST" else request.GET
        action = data.get(ACTION, "") if request.method == "POST" or ACTION in data else None
        for form_class in classes:
            bound = action is not None and action == form_class.action
            form = form_class(
                visitor,
                data if bound else None,
                request.FILES if bound else None,
                initial=(initial or {}).get(form_class.action),
                **context,
            )
            self._by_action[form_class.action] = form
            if bound:
                self.submitted = form
        if action is not None and self.submitted is None:
            raise InvalidInput(
                f"Unknown action {action[:40]!r}.",
                field=ACTION,
                hint=f"Use one of {', '.join(self._by_action)}.",
            )

    def __getitem__(self, action: str) -> PageForm:
        return self._by_action[action]

    @property
    def status(self) -> int:
        """Return the HTTP status of the page: that of the submitted form."""
        return self.submitted.status if self.submitted else 200
