"""Writes of the tags and comments that people add to runs.

The tag ``checkpoint`` changes the verdict of the duplicate check, so tags are in the audit log.
"""

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import User
from apps.core.errors import InvalidInput, NotFound
from apps.runs.choices import Act
from apps.runs.models import Run, RunComment
from apps.runs.services.updates import RunUpdate, apply_update

MAX_TAG_NAME, MAX_TAG_TEXT, MAX_COMMENT = 200, 1000, 4000
MOST_COMMENTS = 500


@transaction.atomic
def change_tag(*, run: Run, name: str, text: str | None, by: User, now: int) -> None:
    """Set a tag of a run; None removes it. Raises InvalidInput for too many tags and NotFound for
    a tag that is not there.
    """
    audit.hold(run.lab)
    locked = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
    before = locked.tags.get(name)
    if text is None and name not in locked.tags:
        raise NotFound(f"This run has no tag {name[:60]!r}.", field="name")
    if before == text:
        return
    apply_update(locked, RunUpdate(tags={name: text}))
    locked.save(update_fields=["tags"])
    details = {"tag": name, "before": before, "after": text}
    audit.record(
        lab=locked.lab,
        by=by,
        action=Act.TAGS_CHANGED,
        subject=str(locked.uuid),
        details=details,
        now=now,
    )


def add_comment(*, run: Run, text: str, by: User, now: int) -> RunComment:
    """Add a comment. Raises InvalidInput for too many."""
    if run.comments.count() >= MOST_COMMENTS:
        raise InvalidInput(f"A run has at most {MOST_COMMENTS} comments.", field="text")
    return RunComment.objects.create(run=run, author=by, text=text, created_us=now)


@transaction.atomic
def delete_comment(*, comment: RunComment, by: User, now: int) -> None:
    """Delete a comment. That of another person is in the audit log, without its text."""
    if comment.author_id != by.pk:
        audit.record(
            lab=comment.run.lab,
            by=by,
            action=Act.COMMENT_DELETED,
            subject=str(comment.run.uuid),
            details={"author": comment.author.get_username() if comment.author else None},
            now=now,
        )
    comment.delete()
