"""The closed lists of assets."""

from django.db.models import TextChoices


class EventKind(TextChoices):
    """One dated fact of an asset's life."""

    PURCHASE = "purchase", "Bought"
    SECOND_HAND = "second_hand", "Bought second-hand"
    DEPLOY = "deploy", "Put to use"
    MOVE = "move", "Moved"
    TRANSFER = "transfer", "Changed owner"
    REPURPOSE = "repurpose", "Repurposed"
    REPAIR = "repair", "Repaired or refurbished"
    UPGRADE = "upgrade", "Upgraded"
    LIFE_CHANGE = "life_change", "Planned life changed"
    LEND = "lend", "Lent"
    RETURN = "return", "Came back"
    RETIRE = "retire", "Taken out of use"
    DISPOSE = "dispose", "Disposed of"
    REVERSAL = "reversal", "Entry reversed"


# An asset's life opens with one of these.
OPENING = (EventKind.PURCHASE, EventKind.SECOND_HAND)
# These say where a thing is or what was done to it; they change no figure, not by a microgram.
WEIGHTLESS = (EventKind.MOVE, EventKind.UPGRADE, EventKind.RETIRE)


class Amortisation(TextChoices):
    """How embodied carbon is charged over an asset's life."""

    LINEAR = "linear", "By time: idle time is charged as it passes"
    SCI = "sci", "By use (SCI): what was never used is charged at the end of life"


class ChargeKind(TextChoices):
    """Why somebody bears a part of an asset's embodied carbon."""

    USED = "used", "Used"
    IDLE = "idle", "On, and nobody used it"
    IDLE_SHARE = "idle_share", "Idle time, spread by the lab's policy"
    UNMEASURED = "unmeasured", "Off or not measured"
    RESERVED = "held", "Held, without a meter"
    LENT = "lent", "Lent"
    END_OF_LIFE = "end_of_life", "End of life as it was, against the estimate"
    WRITTEN_OFF = "written_off", "Written off"


class AssetState(TextChoices):
    STOCK = "stock", "In stock"
    USE = "use", "In use"
    LENT = "lent", "Lent"
    RETIRED = "retired", "Out of use"
    DISPOSED = "disposed", "Disposed of"


class ImportState(TextChoices):
    """Where a file that somebody brought stands."""

    READING = "reading", "Being read"
    READ = "read", "Read: nothing is written yet"
    WRITING = "writing", "Being written"
    DONE = "done", "Written"
    REFUSED = "refused", "Refused"
