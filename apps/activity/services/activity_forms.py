"""Record the activity of a form once: a form that is sent again records nothing."""

from dataclasses import replace

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import Lab, User
from apps.activity.drafts import Draft
from apps.activity.models import Activity
from apps.activity.periods import PREFIX
from apps.activity.services.activities import record_activity
from apps.activity.spreadsheets.rows import DIGEST_PREFIX

FORM_PREFIX = "form:"
GENERATED_PREFIXES = (FORM_PREFIX, DIGEST_PREFIX, PREFIX)  # of external ids that nobody entered


@transaction.atomic
def record_form(
    *, lab: Lab, draft: Draft, form_key: str, by: User, now: int
) -> tuple[Activity, bool]:
    """Store the activity of a form; return it and whether it is new.

    ``form_key``: that of the form as it was opened, '' without one. It is the external id of an
    activity without an external id: the activity that has it is returned, whatever the form
    contains now.
    """
    if draft.external_id or not form_key:
        return record_activity(lab=lab, draft=draft, by=by, now=now)
    audit.hold(lab)
    identity = f"{FORM_PREFIX}{form_key}"
    stored = Activity.objects.filter(lab=lab, external_id=identity).first()
    if stored is not None:
        return stored, False
    return record_activity(lab=lab, draft=replace(draft, external_id=identity), by=by, now=now)
