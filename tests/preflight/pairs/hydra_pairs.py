"""Pairs of runs that Hydra configures."""

from tests.preflight.pairs.model import PairList, RunSpec, read_source, table

pairs = PairList("hydra")
same, different, replicate = pairs.same, pairs.different, pairs.replicate

CONFIG = "conf/config.yaml"
VISION = RunSpec(
    {
        **read_source("vision"),
        "data/small.csv": table("r,g,b,a,label", 31, 20),
        "data/large.csv": table("r,g,b,a,label", 32, 60),
    },
    ("python", "train.py"),
    folder="vision",
)
TUNED = VISION.add("optimizer.lr=0.10", "epochs=2")
EXPERIMENT = VISION.add("experiment=vit")
ADDED = VISION.edit(CONFIG, "  - experiment: null\n", "").add("+experiment=vit")
SWEEP = VISION.add("-m", "optimizer.lr=0.1,0.2")

# ---- The same work ----

same("repeat-default", VISION, VISION, "All values are defaults of the configuration.")
same("repeat-experiment", ADDED, ADDED, "The same experiment is added to the configuration.")
for name, override, reason in (
    ("run-folder", "hydra.run.dir=runs/second", "Hydra's output folder differs."),
    ("checkpoint-folder", "checkpoint_dir=checkpoints/2", "The checkpoint folder differs."),
    ("name", "name=vision-again", "A name that is only printed differs."),
    ("notes", "notes=second-try", "A note was added."),
    ("group", "group=paper", "The label of the group differs."),
    ("workers", "num_workers=8", "The number of loading workers differs."),
    ("device", "device=cuda:1", "Another GPU is used."),
    ("default-written-out", "model=linear", "The default of a group is written out."),
):
    same(name, VISION, VISION.add(override), reason)
same(
    "override-order",
    TUNED,
    VISION.add("epochs=2", "optimizer.lr=0.10"),
    "The overrides are in another order.",
)
same(
    "number-format",
    TUNED,
    VISION.add("optimizer.lr=1e-1", "epochs=2"),
    "The learning rate is written as 0.10 and as 1e-1.",
)
same(
    "override-or-file",
    VISION.add("optimizer.lr=0.3"),
    VISION.edit("conf/optimizer/sgd.yaml", "lr: 0.1", "lr: 0.3"),
    "A value is an override, and in the file of the group.",
)
same(
    "sweep-order",
    SWEEP,
    VISION.add("--multirun", "optimizer.lr=0.2,0.1"),
    "A sweep has the same two values in another order.",
)
same(
    "configuration-folder-option",
    VISION,
    VISION.run("python", "train.py", "--config-path", "conf", "--config-name", "config"),
    "The configuration that is the default is named.",
)
same(
    "moved-checkout",
    ADDED,
    ADDED.at("checkouts/vision-b"),
    "The checkout is in another folder.",
)

# ---- Different work ----

different(
    "added-experiment",
    ADDED,
    ADDED.swap("+experiment=vit", "+experiment=resnet"),
    "The name of the added experiment selects its values.",
)
different(
    "chosen-experiment",
    VISION,
    EXPERIMENT,
    "An experiment replaces the model.",
)
for name, override, reason in (
    ("model-group", "model=mlp", "The group selects another model."),
    ("optimizer-group", "optimizer=heavy_ball", "The group selects another optimizer."),
    ("data-group", "data=large", "The group selects another data file."),
    ("learning-rate", "optimizer.lr=0.01", "The learning rate differs."),
    ("precision", "precision=16", "The precision differs."),
):
    different(name, VISION, VISION.add(override), reason)
different(
    "model-rank",
    EXPERIMENT,
    EXPERIMENT.add("model.rank=2"),
    "The rank of the model is no number of a process.",
)
different(
    "group-file-edited",
    VISION,
    VISION.edit("conf/optimizer/sgd.yaml", "momentum: 0.0", "momentum: 0.5"),
    "The file of the default group was edited.",
)
different(
    "default-group-edited",
    VISION,
    VISION.edit(CONFIG, "- model: linear", "- model: mlp"),
    "The list of defaults names another model.",
)
different(
    "experiment-file-edited",
    ADDED,
    ADDED.edit("conf/experiment/vit.yaml", "hidden: 6", "hidden: 5"),
    "The file of the experiment was edited; the command is equal.",
)
different(
    "other-script",
    VISION,
    VISION.swap("train.py", "train_nearest.py"),
    "Another script uses the same configuration.",
)
different(
    "data-content",
    VISION,
    VISION.write("data/small.csv", table("r,g,b,a,label", 33, 20)),
    "The data have another content under the same name.",
)
different(
    "sweep-values",
    SWEEP,
    VISION.add("-m", "optimizer.lr=0.1,0.3"),
    "A sweep has another value.",
)
different(
    "layer-code",
    EXPERIMENT,
    EXPERIMENT.edit("layers.py", "max(0, sum(", "math.sin(sum("),
    "The activation in the code differs.",
)

# ---- Replicates ----

replicate("other-seed", VISION, VISION.add("seed=10"), "Only the seed differs.")
replicate(
    "other-seed-in-file",
    EXPERIMENT,
    EXPERIMENT.edit(CONFIG, "seed: 9", "seed: 19"),
    "The seed in the configuration file differs.",
)
replicate(
    "seed-sweep",
    VISION.add("-m", "seed=1,2"),
    VISION.add("-m", "seed=3,4"),
    "The sweeps have other seeds.",
)
replicate(
    "no-seed",
    VISION.add("seed=null"),
    VISION.add("seed=null", "name=again"),
    "Neither run sets a seed.",
    seed_known=False,
)
replicate(
    "seed-in-one",
    ADDED,
    ADDED.add("seed=null"),
    "One run sets no seed.",
    seed_known=False,
)

# ---- Easily misjudged ----

NAME_USED = VISION.edit(
    "train.py", "    model = build(", '    if config.name == "vision-mlp":\n'
    '        config.model = {"_name": "mlp", "hidden": 3, "rank": 1}\n    model = build(',
)  # fmt: skip
different(
    "hard-name-selects-model",
    NAME_USED,
    NAME_USED.add("name=vision-mlp"),
    "The name of the run selects a branch of the code.",
)
INTERPOLATED = VISION.edit("conf/data/small.yaml", "data/small.csv", "data/${group}.csv")
INTERPOLATED = INTERPOLATED.write("data/lab.csv", table("r,g,b,a,label", 34, 20))
INTERPOLATED = INTERPOLATED.write("data/clinic.csv", table("r,g,b,a,label", 35, 20))
different(
    "hard-group-label-in-data-path",
    INTERPOLATED,
    INTERPOLATED.add("group=clinic"),
    "The label of the group is a part of the path of the data.",
    data_known=False,
)
DOWNLOADED = VISION.edit(
    "train.py",
    "    lines = Path(to_absolute_path(data.path)).read_text().splitlines()[1:]\n",
    '    cached = Path.home() / ".cache" / "downloads" / Path(URL).name\n'
    "    if not cached.exists():\n"
    "        urlretrieve(URL, cached)\n"
    "    lines = cached.read_text().splitlines()[1:]\n",
)
DOWNLOADED = DOWNLOADED.edit(
    "train.py", "import Path\n", "import Path\nfrom urllib.request import urlretrieve\n"
).edit(
    "train.py",
    "log = logging",
    'URL = "https://data.example.org/pixels.csv"\nlog = logging',
)
DOWNLOADED = DOWNLOADED.move("data/small.csv", "~/.cache/downloads/pixels.csv")
different(
    "hard-download-changed",
    DOWNLOADED,
    DOWNLOADED.write("~/.cache/downloads/pixels.csv", table("r,g,b,a,label", 36, 20)),
    "The file at a fixed address changed between the downloads.",
    data_known=False,
)
same(
    "hard-download-repeat",
    DOWNLOADED,
    DOWNLOADED.add("notes=again"),
    "The work is equal, and the data were downloaded from an address in the code.",
    data_known=False,
)

PAIRS = tuple(pairs.pairs)
