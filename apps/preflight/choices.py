"""Choices of preflight."""

from django.db.models import TextChoices


class Verdict(TextChoices):
    """The result of a duplicate check, in the order in which verdicts are evaluated."""

    SAME_RUN = "same_run", "The same run, told twice"
    DECLARED = "declared", "Repeated on purpose"
    CONCURRENT = "concurrent", "Running now"
    WILL_FAIL = "will_fail", "Will fail again"
    RESUME = "resume", "Can be resumed"
    DUPLICATE = "duplicate", "Done already"
    NEAR = "near", "Nearly the same"
    SWEEP = "sweep", "Part of a sweep"
    REPLICATE = "replicate", "Another seed"
    NONE = "none", "New"


class Certainty(TextChoices):
    """The basis of a match: contents, or for some part only names, sizes and times."""

    VERIFIED = "verified", "Verified"
    POSSIBLE = "possible", "Possible"


class Level(TextChoices):
    """The severity of a response."""

    BLOCK = "loud", "Loud"
    WARN = "warn", "Warning"
    INFORM = "inform", "Information"
    SILENT = "silent", "Silent"


class Outcome(TextChoices):
    """The action that followed a response."""

    STOPPED = "stopped", "Stopped because of it"
    PROCEEDED = "went_on", "Went on"


class FindingState(TextChoices):
    """The decision about a duplicate finding."""

    OPEN = "open", "Open"
    CONFIRMED = "confirmed", "A repeat"
    INTENTIONAL = "intentional", "On purpose"
    DISMISSED = "dismissed", "No repeat"


# What is kept as a finding: energy was, or is being, spent on what was known.
RECORDED_VERDICTS = frozenset({Verdict.CONCURRENT, Verdict.WILL_FAIL, Verdict.DUPLICATE, Verdict.NEAR})
# What a stop saves for certain, if the match is verified.
AVOIDING_VERDICTS = frozenset({Verdict.CONCURRENT, Verdict.WILL_FAIL, Verdict.DUPLICATE})


class Act(TextChoices):
    """Audit actions of duplicate findings."""

    DECIDED = "repeat.decided", "Repeat decided"
    REOPENED = "repeat.reopened", "Decision about a repeat undone"
    IGNORED = "parameter.ignored", "Parameter no longer counted"
    COUNTED = "parameter.counted", "Parameter counted again"
