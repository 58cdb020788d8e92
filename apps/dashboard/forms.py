"""Base of the dashboard's forms: what a form may do, which lab it belongs to, and where its errors appear."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from apps.accounts.choices import Role
from apps.core.errors import Forbidden, InvalidInput, LabCarbonError, NotFound
from apps.core.text import is_unstorable
from apps.dashboard.decorators import WRITERS, Visitor

ACTION = "action"  # name of the field that selects one of several forms of a page


class TextField(forms.CharField):
    """One line of text that every database can store."""

    def validate(self, value: Any) -> None:
        super().validate(value)
        if is_unstorable(str(value)):
            raise ValidationError("Invalid character. Remove it and try again.", code="invalid")


class DecimalField(forms.DecimalField):
    """A decimal number; a comma is read as the decimal point. Thousands separators are refused."""

    widget = forms.TextInput

    def __init__(self, *, decimal_places: int | None = None, max_digits: int | None = 30, **options: Any) -> None:
        super().__init__(decimal_places=decimal_places, max_digits=max_digits, **options)
        self.widget.attrs.setdefault("inputmode", "decimal")

    def to_python(self, value: Any) -> Any:
        return super().to_python(value.strip().replace(",", ".") if isinstance(value, str) else value)


class PageForm(forms.Form):
    """A form of one lab's page.

    ``roles``: who may submit it. ``action``: value of the field ``action`` where a page has several forms.
    ``context``: objects that the form needs besides the visitor (the site it changes, …), as attributes.
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
        self.message = ""
        self._error_status = 0
        for name, value in context.items():
            setattr(self, name, value)
        super().__init__(data, files, initial=dict(initial) if initial else None, auto_id="%s", label_suffix="")  # type: ignore[arg-type]

    @property
    def status(self) -> int:
        """Return the HTTP status of a page that shows this form: 200, or that of its error."""
        if self._error_status:
            return self._error_status
        return 400 if self.is_bound and self.errors else 200

    def save(self) -> str:
        """Write what the form says; return the message for the user. Services raise LabCarbonError."""
        raise NotImplementedError

    def submit(self) -> bool:
        """Validate and save; return whether that worked. Errors are shown at their fields, those of services too.

        Raises Forbidden for a role that may not, NotFound for what another lab owns.
        """
        self.visitor.require_role(self.roles)
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

    def add_service_error(self, error: LabCarbonError) -> None:
        """Show an error of a service at the field that it names, or above the form."""
        field = error.field if error.field in self.fields else None
        self.add_error(field, f"{error.message} {error.hint}".strip())
        self._error_status = error.status


class PageForms:
    """The forms of one page. ``submitted`` is the one that the field ``action`` of a POST names, or of a GET that previews.

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
                f"Unknown action {action[:40]!r}.", field=ACTION, hint=f"Use one of {', '.join(self._by_action)}."
            )

    def __getitem__(self, action: str) -> PageForm:
        return self._by_action[action]

    @property
    def status(self) -> int:
        """Return the HTTP status of the page: that of the submitted form."""
        return self.submitted.status if self.submitted else 200
