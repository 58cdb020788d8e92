"""What preflight tells trackers of a run: a sentence that names nobody, as whoever reads it there is not known here."""

from apps.accounts.models import Lab
from apps.carbon.figures.visibility import Sight
from apps.preflight.choices import Certainty, Level, RepeatState
from apps.preflight.models import Repeat
from apps.preflight.presenters import Asker, sentence, told
from apps.preflight.similarity import Question
from apps.preflight.verdicts import Found
from apps.runs.models import Run
from apps.trackers.mlflow.services.verdict_tags import tells_of, want_verdict

_NOBODY = Asker(None, Sight(False, None, frozenset()), reads=False)
# What a person decided is said instead of what was found.
_DECIDED = {RepeatState.INTENTIONAL: "on purpose", RepeatState.DISMISSED: "no repeat"}


def tell_trackers(*, run: Run, question: Question, found: Found, repeat: Repeat | None) -> None:
    """Have trackers say what was found of a run, where they tell of it and it is worth saying."""
    if tells_of(run):
        want_verdict(run=run, text=_text(run.lab, question, found, repeat))


def _text(lab: Lab, question: Question, found: Found, repeat: Repeat | None) -> str:
    if repeat is not None and repeat.state in _DECIDED:
        return _DECIDED[RepeatState(repeat.state)]
    if found.level == Level.SILENT:
        return ""
    listed, _ = told(lab, question, found, _NOBODY)
    sure = "" if found.certainty == Certainty.VERIFIED else "possible "
    return f"{sure}{found.verdict.value}: {sentence(found, listed, lab.time_zone)}"
