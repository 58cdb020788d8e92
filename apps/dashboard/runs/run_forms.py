"""Forms of the list of runs (saved views) and of a run (tags and comments)."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from apps.carbon.figures.visibility import visibility_for
from apps.core.errors import Forbidden, LabCarbonError
from apps.core.text import is_unstorable
from apps.dashboard.decorators import MANAGERS
from apps.dashboard.forms import LabRecordField, PageForm, TextField
from apps.dashboard.runs.run_filters import (
    clip_of,
    metric_columns,
    runs_filtered,
    table_view,
    view_query,
)
from apps.runs.models import Run, RunComment, SavedView
from apps.runs.services.notes import (
    MAX_COMMENT,
    MAX_TAG_NAME,
    MAX_TAG_TEXT,
    add_comment,
    change_tag,
    delete_comment,
)
from apps.runs.services.saved_views import delete_view, save_view


def check_query(visitor: Any, query: str) -> str:
    """Return the query of a view without defaults and unknown parts. Raises LabCarbonError if it is
    not valid (any more).
    """
    params = QueryDict(query)
    visibility = visibility_for(visitor.lab, visitor.user)
    _, filters = runs_filtered(
        visitor.lab,
        {name: str(value) for name, value in params.items()},
        visibility,
        visitor.now,
    )
    metric_columns(filters["columns"])
    clip_of(visitor.lab, filters, visitor.now)
    return urlencode(view_query(filters, table_view(params)))


class SaveViewForm(PageForm):
    """Save the current filters, columns, order and group under a name."""

    action = "save"
    name = TextField(label="Name", max_length=60)
    for_lab = forms.BooleanField(label="For the whole lab", required=False)
    is_default = forms.BooleanField(label="Open by default", required=False)
    query = forms.CharField(required=False, max_length=4000, widget=forms.HiddenInput)

    def clean_query(self) -> str:
        try:
            return check_query(self.visitor, self.cleaned_data["query"])
        except LabCarbonError as error:
            raise ValidationError(
                f"{error.message} {error.hint}".strip(), code="invalid"
            ) from error

    def save(self) -> str:
        data, visitor = self.cleaned_data, self.visitor
        if data["for_lab"]:
            visitor.require_role(MANAGERS)
        view = save_view(
            lab=visitor.lab,
            owner=None if data["for_lab"] else visitor.user,
            by=visitor.user,
            name=data["name"],
            query=data["query"],
            is_default=data["is_default"],
            now=visitor.now,
        )
        return f"View {view.name} saved."


class DeleteViewForm(PageForm):
    """Delete an own view, or one of the lab."""

    action = "delete"
    view = LabRecordField(
        SavedView.objects.all(), error_messages={"invalid_choice": "No such view."}
    )

    def save(self) -> str:
        view: SavedView = self.cleaned_data["view"]
        if view.owner_id is None:
            self.visitor.require_role(MANAGERS)
        elif view.owner_id != self.visitor.user.pk:
            raise Forbidden("This view belongs to another person.")
        name = view.name
        delete_view(view=view, by=self.visitor.user, now=self.visitor.now)
        return f"View {name} deleted."


VIEW_FORMS = (SaveViewForm, DeleteViewForm)


class RunForm(PageForm):
    """Base of forms about one run."""

    run: Run


class TagForm(RunForm):
    action = "tag"
    name = TextField(label="Tag", max_length=MAX_TAG_NAME)
    text = TextField(label="Text", max_length=MAX_TAG_TEXT, required=False)

    def save(self) -> str:
        data, visitor = self.cleaned_data, self.visitor
        change_tag(
            run=self.run, name=data["name"], text=data["text"], by=visitor.user, now=visitor.now
        )
        return f"Tag {data['name']} saved."


class RemoveTagForm(RunForm):
    action = "untag"
    name = TextField(label="Tag", max_length=MAX_TAG_NAME)

    def save(self) -> str:
        name = self.cleaned_data["name"]
        change_tag(run=self.run, name=name, text=None, by=self.visitor.user, now=self.visitor.now)
        return f"Tag {name} removed."


class CommentForm(RunForm):
    action = "comment"
    text = forms.CharField(
        label="Comment", max_length=MAX_COMMENT, widget=forms.Textarea({"rows": 3})
    )

    def clean_text(self) -> str:
        text: str = self.cleaned_data["text"]
        if is_unstorable(text):
            raise ValidationError("Invalid character. Remove it and try again.", code="invalid")
        return text

    def save(self) -> str:
        add_comment(
            run=self.run,
            text=self.cleaned_data["text"],
            by=self.visitor.user,
            now=self.visitor.now,
        )
        return "Comment added."


class DeleteCommentForm(RunForm):
    """Delete an own comment; a manager deletes any."""

    action = "uncomment"
    comment = forms.IntegerField(min_value=1, max_value=2**62)

    def clean_comment(self) -> RunComment:
        comment = (
            RunComment.objects.filter(run=self.run, pk=self.cleaned_data["comment"])
            .select_related("author", "run__lab")
            .first()
        )
        if comment is None:
            raise ValidationError("No such comment on this run.", code="invalid_choice")
        return comment

    def save(self) -> str:
        comment: RunComment = self.cleaned_data["comment"]
        visitor = self.visitor
        if comment.author_id != visitor.user.pk and not visitor.can_manage:
            raise Forbidden("This comment belongs to another person.")
        delete_comment(comment=comment, by=visitor.user, now=visitor.now)
        return "Comment deleted."


RUN_FORMS = (TagForm, RemoveTagForm, CommentForm, DeleteCommentForm)
