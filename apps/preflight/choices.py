"""Choices of preflight."""

from django.db.models import TextChoices


class Verdict(TextChoices):
    """The result of a duplicate check, in the order in which verdicts are evaluated."""

    SAME_RUN = "same_run", "Same run"
    DECLARED = "declared", "Declared duplicate"
    CONCURRENT = "concurrent", "Running now"
    WILL_FAIL = "will_fail", "Will fail again"
    RESUME = "resume", "Can be resumed"
    DUPLICATE = "duplicate", "Duplicate"
    NEAR = "near", "Near duplicate"
    SWEEP = "sweep", "Part of a sweep"
    REPLICATE = "replicate", "Another seed"
    NONE = "none", "New"


class Certainty(TextChoices):
    """The basis of a match: contents, or for some part only names, sizes and times."""

    VERIFIED = "verified", "Verified"
    POSSIBLE = "possible", "Possible"


class Level(TextChoices):
    """The severity of a response."""

    BLOCK = "loud", "Block"
    WARN = "warn", "Warning"
    INFORM = "inform", "Information"
    SILENT = "silent", "Silent"


class ValueState(TextChoices):
    """Whether the value of one side of a difference is known."""

    UPLOADED = "uploaded", "Uploaded"
    ABSENT = "absent", "None"
    NOT_UPLOADED = "not_uploaded", "Not uploaded"
    NOT_VISIBLE = "not_visible", "Not visible"


class Outcome(TextChoices):
    """The action that followed a response."""

    STOPPED = "stopped", "Stopped"
    PROCEEDED = "went_on", "Proceeded"


class FindingState(TextChoices):
    """The decision about a duplicate finding."""

    OPEN = "open", "Open"
    CONFIRMED = "confirmed", "Duplicate"
    INTENTIONAL = "intentional", "Intentional"
    DISMISSED = "dismissed", "Not a duplicate"


# Verdicts that are stored as findings: the run repeats known work.
RECORDED_VERDICTS = frozenset(
    {Verdict.CONCURRENT, Verdict.WILL_FAIL, Verdict.DUPLICATE, Verdict.NEAR}
)
# Verdicts whose stop certainly saves energy, if the match is verified.
AVOIDING_VERDICTS = frozenset({Verdict.CONCURRENT, Verdict.WILL_FAIL, Verdict.DUPLICATE})


class Act(TextChoices):
    """Audit actions of duplicate findings."""

    DECIDED = "repeat.decided", "Duplicate finding decided"
    REOPENED = "repeat.reopened", "Duplicate finding reopened"
    IGNORED = "parameter.ignored", "Parameter ignored"
    COUNTED = "parameter.counted", "Parameter compared again"
