"""Pairs of runs whose parameters are in YAML and JSON files."""

import json

from tests.preflight.pairs.model import PairList, RunSpec, read_source, table

pairs = PairList("configuration")
same, different, replicate = pairs.same, pairs.different, pairs.replicate

CONFIG = "config.yaml"
SEGMENT = RunSpec(
    {**read_source("segment"), "data/pixels.csv": table("red,green,blue,label", 11)},
    ("python", "train.py"),
    folder="segmentation",
)
NAMED = SEGMENT.add("--config", "config.yaml")
SERIES = "\n".join(f"{(place * 37 % 23) / 23:.3f}" for place in range(50)) + "\n"
FORECAST = RunSpec(
    {**read_source("forecast"), "series/load.txt": SERIES},
    ("python", "forecast.py", "base.json"),
    folder="forecast",
)
SHORT = FORECAST.swap("base.json", "experiments/short.json")


def rewrite(spec: RunSpec, **values: object) -> RunSpec:
    """Replace values in base.json."""
    settings = {**json.loads(spec.files["base.json"]), **values}
    return spec.write("base.json", json.dumps(settings, indent=2) + "\n")


# ---- The same work ----

same("repeat-default-file", SEGMENT, SEGMENT, "The file beside the script is read by default.")
same("repeat-named-file", NAMED, NAMED, "The file is named on the command line.")
same("default-file-named", SEGMENT, NAMED, "The file read by default is named in one run.")
for name, old, new, reason in (
    ("output-folder", "folder: results", "folder: results/2", "The output folder differs."),
    ("run-name", "run_name: first", "run_name: second", "The name of the run differs."),
    ("tags", "[pixels, test]", "[pixels, paper]", "The tags differ."),
    ("log-level", "level: INFO", "level: DEBUG", "The log level differs."),
    ("device", "cuda:0", "cuda:1", "Another GPU is used."),
    ("workers", "workers: 4", "workers: 16", "The number of loading workers differs."),
    ("number-format", "rate: 0.2\n", "rate: 2.0e-1\n", "0.2 is written as 2.0e-1."),
    ("comment", "# Read by", "# The defaults, read by", "A comment of the file differs."),
    ("spelling-of-true", "normalise: true", "normalise: yes", "True is written as yes."),
):
    same(name, SEGMENT, SEGMENT.edit(CONFIG, old, new), reason)
same(
    "key-order",
    FORECAST,
    rewrite(FORECAST.write("base.json", '{"seed": 21, "rate": 0.05}'), lags=3, ridge=0.01, steps=60,
            series="series/load.txt", log_every=20, checkpoint_dir="checkpoints"),
    "The keys of the file are in another order.",
)  # fmt: skip
same(
    "renamed-file",
    FORECAST,
    FORECAST.move("base.json", "defaults.json").swap("base.json", "defaults.json"),
    "The configuration file has another name and equal content.",
)
same(
    "extended-written-out",
    SHORT,
    FORECAST.edit("base.json", '"lags": 3', '"lags": 2'),
    "One file extends another; the other run has the merged values in one file.",
)
same(
    "override-of-equal-value",
    FORECAST,
    FORECAST.add("rate=5e-2"),
    "An argument repeats a value of the file.",
)
same(
    "title",
    SHORT,
    SHORT.edit("experiments/short.json", "short memory", "two lags, for the meeting"),
    "The title of the experiment differs.",
)
same(
    "committed-or-not",
    SEGMENT.commit("Add configuration"),
    SEGMENT.commit("Start", config_yaml=None),
    "Equal files; in one run the configuration is not committed yet.",
)
same(
    "moved-checkout",
    SHORT,
    SHORT.at("scratch/user7/forecast"),
    "The checkout is in another folder.",
)

# ---- Different work ----

for name, old, new, reason in (
    ("default-file-edited", "rate: 0.2\n", "rate: 0.3\n", "The default file was edited."),
    ("network-name", "name: perceptron", "name: linear", "The name selects the network."),
    ("hidden-units", "hidden: 4", "hidden: 6", "The size of the network differs."),
    ("epochs", "epochs: 5", "epochs: 6", "The number of epochs differs."),
    ("precision", "precision: fp32", "precision: bf16", "The precision differs."),
    ("normalisation", "normalise: true", "normalise: false", "The data are not normalised."),
):
    different(name, SEGMENT, SEGMENT.edit(CONFIG, old, new), reason)
different(
    "other-file",
    NAMED,
    NAMED.option("--config", "configs/wide.yaml"),
    "Another configuration file is named.",
)
different(
    "named-file-edited",
    NAMED.option("--config", "configs/wide.yaml"),
    NAMED.option("--config", "configs/wide.yaml").edit("configs/wide.yaml", "0.2", "0.1"),
    "The file named on the command line has another learning rate.",
)
different(
    "data-content",
    SEGMENT,
    SEGMENT.write("data/pixels.csv", table("red,green,blue,label", 12)),
    "The data have another content under the same name.",
)
different(
    "network-code",
    SEGMENT,
    SEGMENT.edit("networks.py", "math.tanh(", "math.atan("),
    "The activation in the code differs.",
)
different(
    "extended-file-edited",
    SHORT,
    rewrite(SHORT, ridge=0.5),
    "The file that the named file extends was edited.",
)
different(
    "extending-file",
    FORECAST,
    SHORT,
    "The named file extends the other one and replaces one value.",
)
different(
    "override",
    FORECAST,
    FORECAST.add("ridge=0.1"),
    "An argument replaces a value of the file.",
)
different(
    "more-steps",
    FORECAST,
    rewrite(FORECAST, steps=61),
    "One step more is computed.",
)
different(
    "other-series",
    FORECAST,
    rewrite(FORECAST, series="series/wind.txt").write("series/wind.txt", SERIES[6:] + SERIES[:6]),
    "The file names another series.",
)
different(
    "start-values-in-code",
    FORECAST.add("lags=2"),
    FORECAST.add("lags=2").edit("forecast.py", "rng.gauss(0, 0.1)", "rng.gauss(0, 0.2)"),
    "The start values in the code differ.",
)
different(
    "uncommitted-configuration",
    SEGMENT.commit("Add training"),
    SEGMENT.edit(CONFIG, "rate: 0.2\n", "rate: 0.25\n").commit(
        "Add training", config_yaml=SEGMENT.files[CONFIG]
    ),
    "Equal commits; one run has an uncommitted edit of the configuration.",
)

# ---- Replicates ----

replicate(
    "other-seed",
    SEGMENT,
    SEGMENT.edit(CONFIG, "seed: 3", "seed: 4"),
    "Only the seed in the default file differs.",
)
replicate(
    "seed-override",
    FORECAST,
    FORECAST.add("seed=22"),
    "An argument replaces the seed of the file.",
)
replicate(
    "seed-null",
    rewrite(FORECAST, seed=None),
    rewrite(FORECAST, seed=None),
    "Both runs have no seed.",
    seed_known=False,
)
replicate(
    "seed-removed",
    SEGMENT,
    SEGMENT.edit(CONFIG, "  seed: 3\n", ""),
    "One of the files has no seed.",
    seed_known=False,
)

# ---- Easily misjudged ----

NAME_USED = SEGMENT.edit(
    "train.py",
    "    losses = []\n",
    '    if config["output"]["run_name"].endswith("-long"):\n'
    '        training["epochs"] *= 2\n'
    "    losses = []\n",
)
different(
    "hard-run-name-doubles-epochs",
    NAME_USED,
    NAME_USED.edit(CONFIG, "run_name: first", "run_name: first-long"),
    "The code doubles the epochs if the name of the run has an ending.",
)
WORKERS_USED = SEGMENT.edit(
    "train.py",
    "        random.shuffle(pixels)\n",
    '        random.shuffle(pixels)\n        pixels = pixels[:: config["hardware"]["workers"]]\n',
)
different(
    "hard-workers-split-data",
    WORKERS_USED,
    WORKERS_USED.edit(CONFIG, "workers: 4", "workers: 2"),
    "The number of workers selects which rows are used.",
)
LOCAL = SEGMENT.edit(
    "train.py",
    "    training = config",
    '    local = HERE / "local.yaml"\n'
    "    if local.exists():\n"
    "        for part, values in yaml.safe_load(local.read_text()).items():\n"
    "            config[part].update(values)\n"
    "    training = config",
)
different(
    "hard-local-overrides",
    LOCAL,
    LOCAL.write("local.yaml", "training: {learning_rate: 0.05}\n"),
    "A second file beside the script, which no argument names, replaces values.",
)
CACHED = FORECAST.edit(
    "forecast.py",
    'Path(settings["series"])',
    '(Path.home() / ".cache" / "series" / "load.txt")',
).move("series/load.txt", "~/.cache/series/load.txt")
different(
    "hard-cached-data",
    CACHED,
    CACHED.write("~/.cache/series/load.txt", SERIES[12:]),
    "The data are in a cache of the home folder and have another content.",
    data_known=False,
)
same(
    "hard-cached-data-repeat",
    CACHED,
    rewrite(CACHED, checkpoint_dir="checkpoints-2"),
    "The work is equal, and the data are in a cache of the home folder.",
    data_known=False,
)

PAIRS = tuple(pairs.pairs)
