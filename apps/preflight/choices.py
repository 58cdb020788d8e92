"""The closed lists of preflight."""

from django.db.models import TextChoices


class Verdict(TextChoices):
    """What is found for a question, in the order in which it is looked for."""

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
    """What a match rests on: contents, or for some part only names, sizes and times."""

    VERIFIED = "verified", "Verified"
    POSSIBLE = "possible", "Possible"


class Level(TextChoices):
    """How loud an answer is told."""

    BLOCK = "loud", "Loud"
    WARN = "warn", "Warning"
    INFORM = "inform", "Information"
    SILENT = "silent", "Silent"


class Outcome(TextChoices):
    """What the asker did with an answer."""

    STOPPED = "stopped", "Stopped because of it"
    PROCEEDED = "went_on", "Went on"


class FindingState(TextChoices):
    """What a person decided of a finding."""

    OPEN = "open", "Open"
    CONFIRMED = "confirmed", "A repeat"
    INTENTIONAL = "intentional", "On purpose"
    DISMISSED = "dismissed", "No repeat"


# What is kept as a finding: energy was, or is being, spent on what was known.
RECORDED_VERDICTS = frozenset({Verdict.CONCURRENT, Verdict.WILL_FAIL, Verdict.DUPLICATE, Verdict.NEAR})
# What a stop saves for certain, if the match is verified.
AVOIDING_VERDICTS = frozenset({Verdict.CONCURRENT, Verdict.WILL_FAIL, Verdict.DUPLICATE})


class Act(TextChoices):
    """What the audit log records of findings."""

    DECIDED = "repeat.decided", "Repeat decided"
    REOPENED = "repeat.reopened", "Decision about a repeat undone"
    IGNORED = "parameter.ignored", "Parameter no longer counted"
    COUNTED = "parameter.counted", "Parameter counted again"
