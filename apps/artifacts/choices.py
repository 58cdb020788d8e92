"""Enumerations of artifacts."""

from django.db.models import TextChoices


class Kind(TextChoices):
    CHECKPOINT = "checkpoint", "Checkpoint"
    MODEL = "model", "Model"
    DATASET = "dataset", "Dataset"
    LOG = "log", "Log"
    OTHER = "other", "Other"


MODELS = (Kind.CHECKPOINT, Kind.MODEL)


class Form(TextChoices):
    FILE = "file", "File"
    FOLDER = "folder", "Folder"


class ArtifactState(TextChoices):
    """The lifecycle state of an artifact. The states of its copies are stored with the copies."""

    REGISTERED = "registered", "Registered"  # without a copy that was read
    STORED = "stored", "Stored"  # a copy was hashed
    CANDIDATE = "candidate", "Candidate"  # marked as the best of its run or sweep
    PROMOTED = "promoted", "Promoted"  # cited, deployed
    ARCHIVED = "archived", "Archived"  # retained on purpose, no longer in use
    SCHEDULED = "scheduled", "Scheduled"  # in a plan whose owners were notified
    TOMBSTONE = "tombstone", "Tombstone"  # all copies deleted by a plan; the record remains


class CopyState(TextChoices):
    PRESENT = "present", "Present"
    MISSING = "missing", "Missing"  # no longer found by a scan
    CORRUPT = "corrupt", "Corrupt"  # the content changed although the file was not written
    TRASHED = "trashed", "In the trash"  # moved by a plan; it can be restored until it is purged
    DELETED = "deleted", "Deleted"  # by a plan


class LineageRole(TextChoices):
    """The relation between a run and an artifact."""

    PRODUCED = "produced", "produced"
    USED = "used", "used"
    INITIALISED_FROM = "initialised_from", "initialised from"
    DISTILLED_FROM = "distilled_from", "distilled from"


INPUTS = (LineageRole.USED, LineageRole.INITIALISED_FROM, LineageRole.DISTILLED_FROM)


class LineageSource(TextChoices):
    """The source of a lineage edge."""

    REPORTED = "told", "reported by the run"
    FINGERPRINT = "fingerprint", "from the fingerprint"


class FineTuningMethod(TextChoices):
    """How much of a model a run trained when it fine-tuned it."""

    HEAD = "head", "new head on a frozen body"
    ADAPTERS = "adapters", "low-rank adapters"
    PART = "part", "some layers frozen"
    ALL = "all", "full fine-tuning"
    UNKNOWN = "not_told", "unknown method"


class SimilarityBasis(TextChoices):
    """How models of measured fine-tuning runs are related to a model, the closest first."""

    THIS = "this", "this model"
    ARCHITECTURE = "architecture", "a model of the same architecture"
    BASE_MODEL = "base_model", "a model of the same base model"


class Medium(TextChoices):
    HDD = "hdd", "Hard disk"
    SSD = "ssd", "Solid state"
    OBJECT = "object", "Object storage"
    TAPE = "tape", "Tape, offline"
    UNKNOWN = "unknown", "Unknown"


class Algorithm(TextChoices):
    """Additional digests of the same content."""

    MD5 = "md5", "MD5"
    XXH128 = "xxh128", "XXH3-128"


HEX_DIGITS = {Algorithm.MD5: 32, Algorithm.XXH128: 32}


class PlanState(TextChoices):
    DRAFT = "draft", "Draft"
    NOTIFIED = "told", "Owners notified"  # owners can object until the grace period ends
    APPROVED = "approved", "Approved"
    APPLIED = "applied", "Applied"  # its items are trashed or purged
    WITHDRAWN = "withdrawn", "Withdrawn"


OPEN_PLANS = (PlanState.DRAFT, PlanState.NOTIFIED, PlanState.APPROVED)


class ItemOutcome(TextChoices):
    """The result of an item when the plan was executed."""

    TRASHED = "trashed", "In the trash"
    REFUSED = "refused", "Left in place"
    RESTORED = "restored", "Restored"
    DELETED = "deleted", "Deleted"


class MailState(TextChoices):
    """The state of the mail of a notification."""

    OFF = "off", "No mail: no mail server configured"
    NO_ADDRESS = "no_address", "No mail: no address"
    WAITING = "waiting", "Mail queued"
    SENDING = "sending", "Sending mail"
    SENT = "sent", "Mailed"
    FAILED = "failed", "Mail failed"


class AuditAction(TextChoices):
    """Actions on artifacts in the audit log."""

    PINNED = "artifact.pinned", "Artifact pinned"
    UNPINNED = "artifact.unpinned", "Artifact unpinned"
    CANDIDATE = "artifact.candidate", "Artifact marked as candidate"
    CANDIDATE_REMOVED = "artifact.no_candidate", "Candidate mark removed"
    PROMOTED = "artifact.promoted", "Artifact promoted"
    DEMOTED = "artifact.taken_back", "Promotion removed"
    ARCHIVED = "artifact.laid_aside", "Artifact archived"
    UNARCHIVED = "artifact.taken_up", "Artifact unarchived"
    DESCRIBED = "artifact.described", "Artifact description changed"
    RESTORED = "artifact.restored", "Artifact description restored"
    HOLD_PLACED = "hold.placed", "Hold placed"
    HOLD_LIFTED = "hold.lifted", "Hold lifted"
    RETENTION_SET = "retention.set", "Retention periods set"
    PLAN_CREATED = "plan.made", "Cleanup plan created"
    PLAN_CHANGED = "plan.changed", "Cleanup items selected"
    PLAN_NOTIFIED = "plan.told", "Owners notified of plan"
    PLAN_OBJECTION = "plan.objection", "Objection to cleanup items"
    PLAN_APPROVED = "plan.approved", "Cleanup plan approved"
    PLAN_WITHDRAWN = "plan.withdrawn", "Cleanup plan withdrawn"
    PLAN_EXECUTED = "plan.carried_out", "Cleanup plan executed"
