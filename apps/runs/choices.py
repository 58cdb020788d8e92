"""Choices of runs."""

from django.db.models import IntegerChoices, TextChoices


class RunState(TextChoices):
    RUNNING = "running", "Running"
    FINISHED = "finished", "Finished"
    FAILED = "failed", "Failed"
    KILLED = "killed", "Killed"
    LOST = "lost", "Lost"  # no more reports; a new report recovers it


class AttributionSource(TextChoices):
    """How the project of a run was determined, the strongest source first."""

    EXPLICIT = "explicit", "Named by the run"
    CLAIM = "claim", "Claimed"
    ACCOUNT = "account", "By account or namespace"
    PLACE = "place", "By user or path on a node"
    USER = "user", "By user"


class Scheduler(TextChoices):
    SLURM = "slurm", "Slurm"


class Intent(TextChoices):
    """The purpose of a run, as stated by its researcher."""

    TRAIN = "train", "Train"
    REPLICATE = "replicate", "Replicate"
    SWEEP = "sweep", "Sweep"
    ABLATION = "ablation", "Ablation"
    BENCHMARK = "benchmark", "Benchmark"
    DEBUG = "debug", "Debug"
    SERVICE = "service", "Service"
    PROBE = "probe", "Probe"  # a minute of another run: its energy counts, its outcome does not


class Failure(TextChoices):
    """The cause of a failure, as far as it can be derived from the end of the run."""

    USER_ERROR = "user_error", "Error in the code"
    CUDA_MEMORY = "cuda_memory", "GPU memory"
    HOST_MEMORY = "host_memory", "Memory"
    SHARED_MEMORY = "shared_memory", "Data loader shared memory"
    PREEMPTED = "preempted", "Preempted"
    NOT_A_NUMBER = "nan", "Loss is NaN"
    NODE = "node", "Node failure"


class Source(TextChoices):
    """The source that reported a run first."""

    COLLECTOR = "collector", "Collector"
    API = "api", "API"
    SLURM = "slurm", "Slurm"
    CODECARBON = "codecarbon", "CodeCarbon"
    MLFLOW = "mlflow", "MLflow"


# These sources can know a run before its collector reports it, and do not know its node.
SOURCES_BEFORE_NODES = frozenset({Source.MLFLOW})
# A collector stores its reports while its server is away; these sources do not. Without windows of
# the node, their silence is the only sign of an end.
SOURCES_THAT_MAY_STOP = frozenset({Source.API, Source.CODECARBON})
# These sources report the end of a run themselves; windows of the node say nothing about it.
SOURCES_THAT_REPORT_ENDS = frozenset({Source.MLFLOW})


class Tier(IntegerChoices):
    """What two runs have in common (docs/fingerprint.md). WEAK ones rest on hashes that do not
    see contents.
    """

    F1 = 10, "the same work"
    F1_WEAK = 11, "the same work (by names, sizes and times)"
    F1_NORMAL = 15, "the same work except comments and format"
    F1_NORMAL_WEAK = 16, "the same work except comments and format (by names, sizes and times)"
    F2 = 20, "another seed"
    F2_WEAK = 21, "another seed (by names, sizes and times)"
    F3 = 30, "the same recipe, other code"
    F3_WEAK = 31, "the same recipe, other code (by names, sizes and times)"
    F4 = 40, "the same family"
    F4_WEAK = 41, "the same family (by names, sizes and times)"
    CODE_PARAMS = 45, "the same code and parameters, data not compared"
    CODE_PARAMS_WEAK = 46, "the same code (by its commit) and parameters, data not compared"
    # 50 and 51 had other keys: docs/adr/0012-store-leave-one-out-keys-contiguously.md
    LEFT_OUT = 55, "differs in one parameter at most"
    LEFT_OUT_WEAK = 56, "differs in one parameter at most (by names, sizes and times)"


class EnergyState(TextChoices):
    """Whether the energy of a run is known."""

    COUNTED = "counted", "Counted"
    NOT_COUNTED_YET = "not_counted_yet", "Not counted yet"
    NOT_MEASURED = "not_measured", "Not measured"


class Act(TextChoices):
    """Audit actions of runs."""

    TAGS_CHANGED = "run.tags_changed", "Tags of a run changed"
    COMMENT_DELETED = "run.comment_deleted", "Comment on a run deleted"
    VIEW_SAVED = "run_view.saved", "View of the lab saved"
    VIEW_DELETED = "run_view.deleted", "View of the lab deleted"
