"""Choices of runs."""

from django.db.models import IntegerChoices, TextChoices


class RunState(TextChoices):
    RUNNING = "running", "Running"
    FINISHED = "finished", "Finished"
    FAILED = "failed", "Failed"
    KILLED = "killed", "Killed"
    LOST = "lost", "Lost"  # nothing was heard of it any more; a word from it revives it


class AttributionSource(TextChoices):
    """How the project of a run was determined, the strongest source first."""

    EXPLICIT = "explicit", "The run named it"
    CLAIM = "claim", "Somebody claimed it"
    ACCOUNT = "account", "By account or namespace"
    PLACE = "place", "By user or path on a machine"
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


class Failure(TextChoices):
    """The cause of a failure, as far as it can be derived from the end of the run."""

    USER_ERROR = "user_error", "Error in the code"
    CUDA_MEMORY = "cuda_memory", "GPU memory"
    HOST_MEMORY = "host_memory", "Memory"
    SHARED_MEMORY = "shared_memory", "Shared memory of the data loader"
    PREEMPTED = "preempted", "Preempted"
    NOT_A_NUMBER = "nan", "Loss not a number"
    NODE = "node", "The machine failed"


class Source(TextChoices):
    """The source that reported a run first."""

    COLLECTOR = "collector", "Collector"
    API = "api", "API"
    SLURM = "slurm", "Slurm"
    CODECARBON = "codecarbon", "CodeCarbon"
    MLFLOW = "mlflow", "MLflow"


# These sources report the end of a run themselves; windows of the node say nothing about it.
SOURCES_THAT_REPORT_ENDS = frozenset({Source.MLFLOW})


class Tier(IntegerChoices):
    """What two runs have in common (docs/fingerprint.md). WEAK ones rest on hashes that do not see contents."""

    F1 = 10, "the same work"
    F1_WEAK = 11, "the same work, as far as names, sizes and times tell"
    F1_NORMAL = 15, "the same work but for comments and format"
    F1_NORMAL_WEAK = 16, "the same but for comments and format, as far as names, sizes and times tell"
    F2 = 20, "another seed"
    F2_WEAK = 21, "another seed, as far as names, sizes and times tell"
    F3 = 30, "the same recipe, other code"
    F3_WEAK = 31, "the same recipe, other code, as far as names, sizes and times tell"
    F4 = 40, "the same family"
    F4_WEAK = 41, "the same family, as far as names, sizes and times tell"
    # 50 and 51 had other keys: docs/adr/0012-store-leave-one-out-keys-contiguously.md
    LEFT_OUT = 55, "differs in one parameter at most"
    LEFT_OUT_WEAK = 56, "differs in one parameter at most, as far as names, sizes and times tell"
