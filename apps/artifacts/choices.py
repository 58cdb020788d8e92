"""Words of artifacts."""

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
    """How far an artifact is in its life. What scans found of its copies stands with the copies."""

    REGISTERED = "registered", "Registered"  # told of; nobody has seen its bytes
    STORED = "stored", "Stored"  # a copy was hashed
    CANDIDATE = "candidate", "Candidate"  # the best of its run or sweep, as somebody said
    PROMOTED = "promoted", "Promoted"  # cited, deployed
    ARCHIVED = "archived", "Archived"  # laid aside: kept on purpose, used no more
    SCHEDULED = "scheduled", "Scheduled"  # in a plan whose grace goes on; its owner was told
    TOMBSTONE = "tombstone", "Tombstone"  # its bytes are gone by a plan; what is known of it stays


class CopyState(TextChoices):
    PRESENT = "present", "Present"
    MISSING = "missing", "Missing"  # a scan did not find it any more
    CORRUPT = "corrupt", "Corrupt"  # its content is not what was hashed, though nobody wrote it
    TRASHED = "trashed", "In the trash"  # a plan moved it; it can come back until the grace ends
    DELETED = "deleted", "Deleted"  # by a plan


class LineageRole(TextChoices):
    """What a run has to do with an artifact."""

    PRODUCED = "produced", "produced"
    USED = "used", "used"
    INITIALISED_FROM = "initialised_from", "initialised from"
    DISTILLED_FROM = "distilled_from", "distilled from"


INPUTS = (LineageRole.USED, LineageRole.INITIALISED_FROM, LineageRole.DISTILLED_FROM)


class LineageSource(TextChoices):
    """How it is known."""

    REPORTED = "told", "told by the run"
    FINGERPRINT = "fingerprint", "by the fingerprint's content"


class FineTuningMethod(TextChoices):
    """How much of a model learned anew when a run adapted it."""

    HEAD = "head", "a new head on its frozen body"
    ADAPTERS = "adapters", "low-rank adapters"
    PART = "part", "fine-tuning with some layers frozen"
    ALL = "all", "fine-tuning all of it"
    UNKNOWN = "not_told", "not told"


class SimilarityBasis(TextChoices):
    """What those runs began from or made that tell what adapting a model takes, the nearest first."""

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
    """Other digests that the same content is found by."""

    MD5 = "md5", "MD5"
    XXH128 = "xxh128", "XXH3-128"


HEX_DIGITS = {Algorithm.MD5: 32, Algorithm.XXH128: 32}


class PlanState(TextChoices):
    DRAFT = "draft", "Draft"
    NOTIFIED = "told", "Owners told"  # they may object until the grace ends
    APPROVED = "approved", "Approved"
    APPLIED = "applied", "Applied"  # what went is in the trash, or gone
    WITHDRAWN = "withdrawn", "Withdrawn"


OPEN_PLANS = (PlanState.DRAFT, PlanState.NOTIFIED, PlanState.APPROVED)


class ItemOutcome(TextChoices):
    """What became of a line where the plan was carried out."""

    TRASHED = "trashed", "In the trash"
    REFUSED = "refused", "Left where it was"
    RESTORED = "restored", "Back from the trash"
    DELETED = "deleted", "Deleted"


class MailState(TextChoices):
    """What became of the mail by which somebody was told of a plan."""

    OFF = "off", "No mail: no mail server is set"
    NO_ADDRESS = "no_address", "No mail: no address is known"
    WAITING = "waiting", "Mail waits to be sent"
    SENDING = "sending", "Mail is being sent"
    SENT = "sent", "Mailed"
    FAILED = "failed", "Not mailed"


class AuditAction(TextChoices):
    """What the audit log records of artifacts."""

    PINNED = "artifact.pinned", "Artifact pinned"
    UNPINNED = "artifact.unpinned", "Pin taken away"
    CANDIDATE = "artifact.candidate", "Artifact made a candidate"
    CANDIDATE_REMOVED = "artifact.no_candidate", "Artifact no longer a candidate"
    PROMOTED = "artifact.promoted", "Artifact promoted"
    DEMOTED = "artifact.taken_back", "Promotion taken back"
    ARCHIVED = "artifact.laid_aside", "Artifact laid aside"
    UNARCHIVED = "artifact.taken_up", "Artifact taken up again"
    DESCRIBED = "artifact.described", "Artifact described anew"
    RESTORED = "artifact.restored", "Description of an artifact taken back"
    HOLD_PLACED = "hold.placed", "Hold on artifacts placed"
    HOLD_LIFTED = "hold.lifted", "Hold on artifacts lifted"
    RETENTION_SET = "retention.set", "Retention of artifacts set"
    PLAN_CREATED = "plan.made", "Plan of artifacts made"
    PLAN_CHANGED = "plan.changed", "Lines of a plan chosen"
    PLAN_NOTIFIED = "plan.told", "Owners told of a plan"
    PLAN_OBJECTION = "plan.objection", "Objection to lines of a plan"
    PLAN_APPROVED = "plan.approved", "Plan approved"
    PLAN_WITHDRAWN = "plan.withdrawn", "Plan withdrawn"
    PLAN_EXECUTED = "plan.carried_out", "Plan carried out"
