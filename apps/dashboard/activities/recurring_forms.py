"""Form of one recurring activity."""

from apps.activity.models import RecurringActivity
from apps.activity.services.recurring_activities import end_recurring_activity
from apps.core.errors import Forbidden
from apps.dashboard.forms import PageForm


class EndForm(PageForm):
    """End a recurring activity. Recorded periods stay."""

    action = "end"
    recurring: RecurringActivity
    may_end: bool

    def save(self) -> str:
        if not self.may_end:
            raise Forbidden(
                "Another person added this recurring activity.",
                hint="Ask them, a PI or an admin to end it.",
            )
        end_recurring_activity(recurring=self.recurring, by=self.visitor.user, now=self.visitor.now)
        return "The recurring activity has ended."
