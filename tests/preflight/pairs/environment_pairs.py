"""Pairs of runs whose parameters are environment variables."""

from tests.preflight.pairs.model import PairList, RunSpec, read_source

pairs = PairList("environment")
same, different, replicate = pairs.same, pairs.different, pairs.replicate

SIGNAL = "\n".join(f"{(place * 29 % 31) / 31:.3f}" for place in range(60)) + "\n"
OTHER_SIGNAL = "\n".join(f"{(place * 23 % 31) / 31:.3f}" for place in range(60)) + "\n"
DENOISE = RunSpec(
    {**read_source("denoise"), "signals/a.txt": SIGNAL},
    ("python", "train.py"),
    {"DATA": "signals/a.txt", "LR": "0.1", "EPOCHS": "3", "SEED": "2"},
    folder="denoise",
)
BY_ENV = RunSpec(
    DENOISE.files,
    ("env", "DATA=signals/a.txt", "LR=0.1", "EPOCHS=3", "SEED=2", "python", "train.py"),
    folder="denoise",
)
BY_SHELL = RunSpec(
    DENOISE.files, ("sh", "run.sh"), {"DATA": "signals/a.txt", "SEED": "5"}, folder="denoise"
)
BANDIT = RunSpec(
    {**read_source("bandit"), "arms.txt": "0.2 0.5 0.9 0.4\n"},
    ("python", "learn.py"),
    {"AGENT_ARMS": "arms.txt", "AGENT_SEED": "6"},
    folder="bandit",
)
DOTENV = BANDIT.unset("AGENT_SEED").write(
    ".env", "# settings of this checkout\nAGENT_SEED=6\nAGENT_EPSILON=0.2\n"
)

# ---- The same work ----

same("repeat", DENOISE, DENOISE, "The variables are in the environment and equal.")
same("repeat-env-command", BY_ENV, BY_ENV, "The variables are set by the env command and equal.")
same("env-command-or-environment", DENOISE, BY_ENV, "Equal variables, set in two ways.")
for name, variables, reason in (
    ("output-folder", {"OUTPUT_DIR": "out/2"}, "Only the output folder differs."),
    ("run-name", {"RUN_NAME": "second"}, "Only the name of the run differs."),
    ("device", {"CUDA_VISIBLE_DEVICES": "2"}, "Another GPU is visible."),
    ("host-name", {"HOSTNAME": "node17"}, "The name of the node differs."),
    ("job-number", {"SLURM_JOB_ID": "48211"}, "A number of the scheduler is set."),
    ("user-and-shell", {"USER": "bea", "SHELL": "/bin/zsh"}, "User and shell differ."),
    ("tracker-run", {"WANDB_RUN_ID": "x81kq2"}, "A run number of a tracker is set."),
    ("unread-variable", {"LEARNING_RATE": "0.7"}, "The program never reads the variable."),
    ("threads", {"OMP_NUM_THREADS": "4"}, "The number of threads differs."),
    ("number-format", {"LR": "1e-1"}, "The learning rate is written as 0.1 and as 1e-1."),
    ("default-value", {"WIDTH": "3"}, "The default of a variable is written out."),
):
    same(name, DENOISE, DENOISE.env(**variables), reason)
same(
    "variable-order",
    BY_ENV,
    BY_ENV.run("env", "SEED=2", "EPOCHS=3", "LR=0.1", "DATA=signals/a.txt", "python", "train.py"),
    "The env command sets the variables in another order.",
)
same(
    "shell-or-python",
    BY_SHELL,
    DENOISE.env(LR="0.05", SEED="5").unset("EPOCHS"),
    "A shell script sets the variables that the other run has in its environment.",
)
same(
    "settings-file-or-environment",
    DOTENV,
    BANDIT.env(AGENT_EPSILON="0.20"),
    "The settings are in a file named .env, and in the environment of the other run.",
)
same(
    "comment-in-settings-file",
    DOTENV,
    DOTENV.edit(".env", "of this checkout", "of the group"),
    "A comment of the file named .env differs.",
)
same(
    "moved-checkout",
    BANDIT,
    BANDIT.at("data/projects/bandit-old"),
    "The checkout is in another folder.",
)

# ---- Different work ----

for name, variables, reason in (
    ("learning-rate", {"LR": "0.2"}, "The learning rate differs."),
    ("epochs", {"EPOCHS": "4"}, "The number of epochs differs."),
    ("filter-width", {"WIDTH": "5"}, "A variable with a default is set."),
    ("noise", {"NOISE": "0.3"}, "The strength of the noise differs."),
    ("mixed-precision", {"MIXED_PRECISION": "bf16"}, "The precision differs."),
):
    different(name, DENOISE, DENOISE.env(**variables), reason)
different(
    "env-command-value",
    BY_ENV,
    BY_ENV.swap("LR=0.1", "LR=0.01"),
    "The env command sets another learning rate.",
)
different(
    "env-command-overrides",
    DENOISE,
    DENOISE.run("env", "EPOCHS=6", "python", "train.py"),
    "The env command replaces a variable of the environment.",
)
different(
    "other-script",
    DENOISE,
    DENOISE.swap("train.py", "train_median.py"),
    "Another script runs with equal variables.",
)
different(
    "data-content",
    DENOISE,
    DENOISE.write("signals/a.txt", OTHER_SIGNAL),
    "The data have another content under the same name.",
)
different(
    "other-data",
    DENOISE.write("signals/b.txt", OTHER_SIGNAL),
    DENOISE.write("signals/b.txt", OTHER_SIGNAL).env(DATA="signals/b.txt"),
    "A variable names another data file.",
)
different(
    "shell-script-edited",
    BY_SHELL,
    BY_SHELL.edit("run.sh", "LR=0.05", "LR=0.5"),
    "The shell script sets another learning rate.",
)
different(
    "code-edited",
    DENOISE,
    DENOISE.edit("train.py", "[1 / WIDTH] * WIDTH", "[0.0] * WIDTH"),
    "The start values in the code differ.",
)
different(
    "default-in-code",
    BANDIT,
    BANDIT.edit("learn.py", '"AGENT_EPSILON": "0.1"', '"AGENT_EPSILON": "0.3"'),
    "The default of a variable that is not set was edited.",
)
for name, variables, reason in (
    ("policy", {"AGENT_POLICY": "regular"}, "A name selects another policy."),
    ("steps", {"AGENT_STEPS": "120"}, "More steps are computed."),
    ("exploration", {"AGENT_EPSILON": "0.4"}, "The program reads all variables of a prefix."),
):
    different(name, BANDIT, BANDIT.env(**variables), reason)
different(
    "settings-file-edited",
    DOTENV,
    DOTENV.edit(".env", "EPSILON=0.2", "EPSILON=0.5"),
    "A value in the file named .env differs.",
)
different(
    "settings-file-overridden",
    DOTENV,
    DOTENV.env(AGENT_EPSILON="0.6"),
    "A variable replaces a value of the file named .env.",
)

# ---- Replicates ----

replicate("other-seed", DENOISE, DENOISE.env(SEED="3"), "Only the seed differs.")
replicate(
    "other-seed-env-command",
    BY_ENV,
    BY_ENV.swap("SEED=2", "SEED=9"),
    "The env command sets another seed.",
)
replicate(
    "no-seed",
    DENOISE.unset("SEED"),
    DENOISE.unset("SEED").env(RUN_NAME="again"),
    "Neither run sets a seed.",
    seed_known=False,
)
replicate(
    "empty-seed",
    BANDIT,
    BANDIT.env(AGENT_SEED=""),
    "The seed of one run is empty, which means no seed.",
    seed_known=False,
)

# ---- Easily misjudged ----

NAME_USED = DENOISE.edit(
    "train.py",
    'RUN_NAME = os.environ.get("RUN_NAME", "denoise")',
    'RUN_NAME = os.environ["RUN_NAME"]\nif RUN_NAME.startswith("wide"):\n    WIDTH = 7',
).env(RUN_NAME="narrow")
different(
    "hard-run-name-selects-width",
    NAME_USED,
    NAME_USED.env(RUN_NAME="wide-2"),
    "The beginning of the name of the run selects the width of the filter.",
)
BY_HOST = DENOISE.edit(
    "train.py", 'os.environ["DATA"]', '"signals/" + os.environ["HOSTNAME"] + ".txt"'
)
BY_HOST = BY_HOST.move("signals/a.txt", "signals/node1.txt").unset("DATA")
BY_HOST = BY_HOST.write("signals/node2.txt", OTHER_SIGNAL).env(HOSTNAME="node1")
different(
    "hard-host-selects-data",
    BY_HOST,
    BY_HOST.env(HOSTNAME="node2"),
    "The name of the node selects the data file.",
    data_known=False,
)
HOME_DATA = BANDIT.edit("learn.py", 'Path(settings["AGENT_ARMS"])', '(Path.home() / "arms.txt")')
HOME_DATA = HOME_DATA.move("arms.txt", "~/arms.txt").unset("AGENT_ARMS")
different(
    "hard-home-folder-data",
    HOME_DATA,
    HOME_DATA.write("~/arms.txt", "0.9 0.1 0.2 0.3\n"),
    "The data are in the home folder, whose path only the code has.",
    data_known=False,
)
same(
    "hard-home-folder-data-repeat",
    HOME_DATA,
    HOME_DATA.at("bandit-copy"),
    "The work is equal, and only the code has the path of the data.",
    data_known=False,
)

PAIRS = tuple(pairs.pairs)
