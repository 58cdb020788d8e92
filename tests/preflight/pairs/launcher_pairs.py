"""Pairs of runs that a launcher starts as several processes."""

from tests.preflight.pairs.model import PairList, RunSpec, corpus, read_source, table

pairs = PairList("launcher")
same, different, replicate = pairs.same, pairs.different, pairs.replicate

PROGRAM = ("train.py", "--data", "data/train.csv", "--lr", "0.1", "--seed", "4")
TORCHRUN = RunSpec(
    {**read_source("distributed"), "data/train.csv": table("a,b,c,label", 21)},
    ("torchrun", "--nproc_per_node", "2", "--master_port", "29501", *PROGRAM),
    folder="distributed",
)
SINGLE = TORCHRUN.run("python", *PROGRAM)
BY_VARIABLES = SINGLE.env(RANK="0", LOCAL_RANK="0", WORLD_SIZE="4", MASTER_ADDR="node1")
BY_SCHEDULER = SINGLE.env(SLURM_PROCID="0", SLURM_NTASKS="2", SLURM_JOB_ID="1200")
ACCELERATE = RunSpec(
    {**read_source("vectors"), "corpus.txt": corpus(0, 1, 2, 3, 4, 5)},
    ("accelerate", "launch", "--num_processes", "2", "finetune.py", "settings.yaml"),
    folder="vectors",
)
ACCELERATE_FILE = "~/.cache/huggingface/accelerate/default_config.yaml"
ACCELERATE_DEFAULTS = ACCELERATE.run("accelerate", "launch", "finetune.py", "settings.yaml").write(
    ACCELERATE_FILE, "num_processes: 2\nmixed_precision: fp16\nmachine_rank: 0\n"
)
ACCELERATE_CONFIG = ACCELERATE.run(
    "accelerate", "launch", "--config_file", "two.yaml", "finetune.py", "settings.yaml"
).write("two.yaml", "num_processes: 2\nmixed_precision: bf16\n")

# ---- The same work ----

same("repeat-torchrun", TORCHRUN, TORCHRUN, "The command of torchrun is repeated.")
same("repeat-accelerate", ACCELERATE, ACCELERATE, "The command of accelerate is repeated.")
same(
    "launcher-port",
    TORCHRUN,
    TORCHRUN.option("--master_port", "29777"),
    "The processes of one run meet at another port.",
)
same(
    "launcher-address-and-number",
    TORCHRUN,
    TORCHRUN.run(
        "torchrun", "--nproc_per_node", "2", "--rdzv_id", "job88", "--rdzv_endpoint",
        "node3:29400", *PROGRAM,
    ),
    "Another meeting point and number of the job are used.",
)  # fmt: skip
same(
    "launcher-option-spelling",
    TORCHRUN,
    TORCHRUN.run("torchrun", "--nproc-per-node=2", "--standalone", *PROGRAM),
    "The options of the launcher are written in another way.",
)
same(
    "nodes-or-processes",
    TORCHRUN,
    TORCHRUN.run("torchrun", "--nnodes", "2", "--node_rank", "0", *PROGRAM),
    "Two processes: on one node, and on two nodes.",
)
same(
    "torchrun-or-python",
    TORCHRUN.run("torchrun", "--nproc_per_node", "1", *PROGRAM),
    SINGLE,
    "A launcher starts one process, and Python starts the same process directly.",
)
same(
    "torchrun-or-scheduler",
    TORCHRUN,
    BY_SCHEDULER,
    "The number of processes is from torchrun, and from the scheduler.",
)
same(
    "scheduler-job-number",
    BY_SCHEDULER,
    BY_SCHEDULER.env(SLURM_JOB_ID="1312"),
    "Only the number of the job differs.",
)
same(
    "module-or-file",
    TORCHRUN,
    TORCHRUN.run("torchrun", "--nproc_per_node", "2", "-m", "train", *PROGRAM[1:]),
    "The script is started as a file, and as a module.",
)
for name, variables, reason in (
    ("master-address", {"MASTER_ADDR": "node9"}, "Another node is the meeting point."),
    ("local-rank", {"LOCAL_RANK": "3"}, "The place of the process on its node differs."),
    ("visible-devices", {"CUDA_VISIBLE_DEVICES": "4,5,6,7"}, "Other GPUs are visible."),
    ("backend-logging", {"NCCL_DEBUG": "INFO"}, "The communication library prints more."),
):
    same(name, BY_VARIABLES, BY_VARIABLES.env(**variables), reason)
same(
    "save-folder",
    TORCHRUN,
    TORCHRUN.add("--save-dir", "saved/2"),
    "Only the output folder differs.",
)
same(
    "accumulation-for-processes",
    TORCHRUN.add("--accumulate", "1"),
    SINGLE.add("--accumulate", "2"),
    "One process accumulates two batches: the global batch is equal.",
)
same(
    "processes-with-global-batch",
    ACCELERATE,
    ACCELERATE.option("--num_processes", "4"),
    "The settings fix the global batch, whatever the number of processes.",
)
same(
    "accelerate-option-or-file",
    ACCELERATE_CONFIG,
    ACCELERATE.run(
        "accelerate", "launch", "--num_processes", "2", "--mixed_precision", "bf16",
        "finetune.py", "settings.yaml",
    ),
    "The precision is in the launcher's file, and an option of the launcher.",
)  # fmt: skip
same(
    "accelerate-machine-rank",
    ACCELERATE_DEFAULTS,
    ACCELERATE_DEFAULTS.edit(ACCELERATE_FILE, "machine_rank: 0\n", ""),
    "A line of the launcher's file that has no effect is missing.",
)

# ---- Different work ----

different(
    "world-size",
    TORCHRUN,
    TORCHRUN.option("--nproc_per_node", "4"),
    "More processes make the global batch larger.",
)
different(
    "number-of-nodes",
    TORCHRUN,
    TORCHRUN.run("torchrun", "--nnodes", "2", "--nproc_per_node", "2", *PROGRAM),
    "Another node makes the global batch larger.",
)
different("one-process", TORCHRUN, SINGLE, "Without a launcher the global batch is smaller.")
different(
    "world-size-variable",
    BY_VARIABLES,
    BY_VARIABLES.env(WORLD_SIZE="2"),
    "The number of processes is an environment variable.",
)
different(
    "scheduler-tasks",
    BY_SCHEDULER,
    BY_SCHEDULER.env(SLURM_NTASKS="8"),
    "The scheduler starts more tasks.",
)
different("learning-rate", TORCHRUN, TORCHRUN.option("--lr", "0.2"), "The learning rate differs.")
different(
    "batch-of-process",
    TORCHRUN,
    TORCHRUN.add("--batch-size", "3"),
    "The batch of each process differs.",
)
different(
    "accumulation",
    TORCHRUN,
    TORCHRUN.add("--accumulate", "2"),
    "Accumulation makes the global batch larger.",
)
different("mixed-precision", TORCHRUN, TORCHRUN.add("--amp"), "A flag turns on mixed precision.")
different(
    "other-script",
    TORCHRUN,
    TORCHRUN.swap("train.py", "train_local_steps.py"),
    "The launcher starts another script with equal arguments.",
)
different(
    "data-content",
    TORCHRUN,
    TORCHRUN.write("data/train.csv", table("a,b,c,label", 22)),
    "The data have another content under the same name.",
)
different(
    "gradient-code",
    TORCHRUN,
    TORCHRUN.edit("train.py", "error * x / len(batch)", "error * x"),
    "The code adds the gradients instead of averaging them.",
)
for name, line, other, reason in (
    ("settings-rate", "rate: 0.1", "rate: 0.3", "The learning rate in the settings differs."),
    ("settings-size", "size: 3", "size: 4", "The size of the vectors differs."),
    ("settings-batch", "global_batch: 8", "global_batch: 16", "The global batch differs."),
):
    different(name, ACCELERATE, ACCELERATE.edit("settings.yaml", line, other), reason)
different(
    "launcher-precision",
    ACCELERATE,
    ACCELERATE.run(
        "accelerate", "launch", "--num_processes", "2", "--mixed_precision", "fp16",
        "finetune.py", "settings.yaml",
    ),
    "An option of the launcher turns on half precision.",
)  # fmt: skip
different(
    "launcher-file-edited",
    ACCELERATE_CONFIG,
    ACCELERATE_CONFIG.edit("two.yaml", "bf16", "fp16"),
    "The launcher's file, named on the command line, has another precision.",
)

# ---- Replicates ----

replicate("other-seed", TORCHRUN, TORCHRUN.option("--seed", "5"), "Only the seed differs.")
replicate(
    "other-seed-and-port",
    TORCHRUN,
    TORCHRUN.option("--seed", "6").option("--master_port", "29600"),
    "The seed and the launcher's port differ.",
)
replicate(
    "settings-seed",
    ACCELERATE,
    ACCELERATE.edit("settings.yaml", "seed: 17", "seed: 18"),
    "Only the seed in the settings differs.",
)
replicate(
    "no-seed",
    TORCHRUN.swap("--seed").swap("4"),
    TORCHRUN.swap("--seed").swap("4").add("--save-dir", "saved/3"),
    "Neither run sets a seed.",
    seed_known=False,
)
replicate(
    "seed-in-one",
    BY_VARIABLES,
    BY_VARIABLES.swap("--seed").swap("4"),
    "One run sets no seed.",
    seed_known=False,
)

# ---- Easily misjudged ----

different(
    "hard-launcher-default-file",
    ACCELERATE_DEFAULTS,
    ACCELERATE_DEFAULTS.edit(ACCELERATE_FILE, "fp16", "'no'"),
    "The launcher reads the precision from a file in the home folder.",
)
RANK_USED = BY_VARIABLES.edit("train.py", "    if RANK != 0:\n        return\n", "").edit(
    "train.py", "rng = random.Random(args.seed)", "rows = rows[RANK::WORLD_SIZE]\n"
    "    rng = random.Random(args.seed)",
).edit("train.py", " * WORLD_SIZE\n", "\n")  # fmt: skip
different(
    "hard-rank-selects-data",
    RANK_USED,
    RANK_USED.env(RANK="1"),
    "Each process trains its own model on its own part of the data.",
)
PORT_USED = TORCHRUN.edit(
    "train.py", "rng = random.Random(args.seed)", 'port = int(os.environ["MASTER_PORT"])\n'
    "    rows = rows[port % 7 :]\n    rng = random.Random(args.seed)",
)  # fmt: skip
different(
    "hard-port-selects-data",
    PORT_USED,
    PORT_USED.option("--master_port", "29502"),
    "The code uses the launcher's port to select rows.",
)
STAGED = TORCHRUN.edit("train.py", "Path(args.data)", 'Path("../scratch", args.data)').option(
    "--data", "train.csv"
)
STAGED = STAGED.move("data/train.csv", "../scratch/train.csv")
same(
    "hard-staged-data-repeat",
    STAGED,
    STAGED.option("--master_port", "29503"),
    "The work is equal; the code adds the folder of the data to the name in the arguments.",
    data_known=False,
)

PAIRS = tuple(pairs.pairs)
