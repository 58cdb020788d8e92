"""Choices of assets."""

from django.db.models import TextChoices


class EventKind(TextChoices):
    """Kind of a lifecycle event."""

    PURCHASE = "purchase", "Purchased"
    SECOND_HAND = "second_hand", "Purchased second-hand"
    LEASE = "lease", "Leased"
    DEPLOY = "deploy", "Put into use"
    MOVE = "move", "Moved"
    TRANSFER = "transfer", "Changed owner"
    REPURPOSE = "repurpose", "Repurposed"
    REPAIR = "repair", "Repaired or refurbished"
    UPGRADE = "upgrade", "Upgraded"
    LIFE_CHANGE = "life_change", "Planned life changed"
    LEND = "lend", "Lent"
    RETURN = "return", "Returned"
    RETIRE = "retire", "Taken out of use"
    DISPOSE = "dispose", "Disposed of"
    REVERSAL = "reversal", "Event reversed"


# The first event of an asset is one of these.
OPENING = (EventKind.PURCHASE, EventKind.SECOND_HAND, EventKind.LEASE)
# These events do not change any figure.
WEIGHTLESS = (EventKind.MOVE, EventKind.UPGRADE, EventKind.RETIRE)
# The first of these events starts the service life.
STARTING = (EventKind.DEPLOY, EventKind.LEND, EventKind.REPURPOSE)


class PartsAction(TextChoices):
    """What happens to the parts of an asset at its disposal."""

    DISPOSE = "dispose", "Dispose of them too"
    FREE = "free", "Take them out"


class EndOfLife(TextChoices):
    """How an asset left the lab."""

    RESOLD = "resold", "Resold"
    DONATED = "donated", "Donated"
    RECYCLED = "recycled", "Recycled"
    LOST = "lost", "Lost"
    STOLEN = "stolen", "Stolen"
    LEASE_RETURNED = "lease_returned", "Lease returned"


class Amortisation(TextChoices):
    """How embodied carbon is charged over the service life."""

    LINEAR = "linear", "By time"
    SCI = "sci", "By use (SCI)"


class ChargeKind(TextChoices):
    """Reason of a charge."""

    USED = "used", "Used"
    IDLE = "idle", "On and idle"
    IDLE_SHARE = "idle_share", "Share of idle time"
    UNMEASURED = "unmeasured", "Off or not measured"
    RESERVED = "held", "By time, without meter"
    LENT = "lent", "Lent"
    END_OF_LIFE = "end_of_life", "Difference at end of life"
    WRITTEN_OFF = "written_off", "Written off"


class AssetState(TextChoices):
    STOCK = "stock", "In stock"
    USE = "use", "In use"
    LENT = "lent", "Lent"
    RETIRED = "retired", "Out of use"
    DISPOSED = "disposed", "Disposed of"


class ChangeKind(TextChoices):
    """What an import did to an asset."""

    REGISTERED = "registered", "Registered"
    CHANGED = "changed", "Changed"


class ImportState(TextChoices):
    """State of an import."""

    MAPPING = "mapping", "Columns to assign"
    READING = "reading", "Reading"
    READ = "read", "Preview"
    WRITING = "writing", "Registering"
    DONE = "done", "Registered"
    REFUSED = "refused", "Rejected"
    UNDOING = "undoing", "Undoing"
    REDOING = "redoing", "Reversing the undo"


# A job executes the import or its undo.
RUNNING = (ImportState.WRITING, ImportState.UNDOING, ImportState.REDOING)
# Its assets are registered, or an undo removed them.
REGISTERED = (ImportState.DONE, ImportState.UNDOING, ImportState.REDOING)


class MediaType(TextChoices):
    """Types of attachments, recognised by their content."""

    PDF = "application/pdf", "PDF"
    PNG = "image/png", "PNG"
    JPEG = "image/jpeg", "JPEG"
