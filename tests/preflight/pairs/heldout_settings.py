"""Held-out pairs: merged configuration files, dotted options, OmegaConf, files of variables."""

from tests.preflight.pairs.model import PairList, RunSpec, read_source, table

CORE = read_source("second_core")
TABLES = {
    "data/a.csv": table("x,y,z,label", 61),
    "data/b.csv": table("x,y,z,label", 62),
}
LIGHTNING = RunSpec(
    {**CORE, **read_source("second_trainer"), **TABLES},
    ("python", "main.py", "fit", "--config", "fit.yaml", "--trainer.max_epochs", "5"),
    folder="lightning",
)
MERGED = RunSpec(
    {**CORE, **read_source("second_files"), **TABLES},
    ("python", "train.py", "--config", "configs/slow.yaml", "configs/long.yaml"),
    folder="merged",
)
EXPANDED = MERGED.write("configs/slow.yaml", "rate: ${RATE}\nseed: 7\n").env(RATE="0.07")
DOTLIST = RunSpec(
    {**CORE, **read_source("second_dotlist"), **TABLES},
    ("python", "train.py", "optim.lr=0.2", "seed=3"),
    folder="dotlist",
)
SETTINGS = RunSpec(
    {
        **CORE,
        **read_source("second_settings"),
        **TABLES,
        ".env": "TRAIN_TABLE=data/a.csv\nTRAIN_LR=0.2\nTRAIN_SEED=7\nWANDB_API_KEY=abc\n",
    },
    ("python", "train.py"),
    folder="settings",
)

configuration = PairList("configuration")
same, different, replicate = configuration.same, configuration.different, configuration.replicate

same(
    "held-lightning-joined-option",
    LIGHTNING,
    LIGHTNING.run("python", "main.py", "fit", "--config=fit.yaml", "--trainer.max_epochs=5"),
    "Options and values are joined by an equals sign.",
)
same(
    "held-lightning-two-files",
    LIGHTNING.option("--trainer.max_epochs", "2"),
    LIGHTNING.run("python", "main.py", "fit", "--config", "fit.yaml", "--config", "fast.yaml"),
    "The epochs are an option, and in a second configuration file.",
)
same(
    "held-lightning-root",
    LIGHTNING,
    LIGHTNING.add("--trainer.default_root_dir", "logs/2"),
    "The folder of the logs differs.",
)
same(
    "held-lightning-workers",
    LIGHTNING,
    LIGHTNING.add("--data.num_workers", "8"),
    "The number of loading workers differs.",
)
same(
    "held-merged-comment",
    MERGED,
    MERGED.edit("configs/long.yaml", "comment: long", "comment: longer"),
    "A comment in the second file differs.",
)
same(
    "held-merged-set-equal",
    MERGED,
    MERGED.add("--set", "rate=0.05"),
    "An option repeats a value of a file.",
)
same(
    "held-merged-one-file",
    MERGED,
    MERGED.run("python", "train.py", "--config", "configs/both.yaml").write(
        "configs/both.yaml", "epochs: 5\nrate: 5.0e-2\ncomment: long\n"
    ),
    "Two files are merged into one.",
)
same(
    "held-hard-merged-order-without-effect",
    MERGED,
    MERGED.run("python", "train.py", "--config", "configs/long.yaml", "configs/slow.yaml"),
    "Two files that set different values are in another order.",
)
same(
    "held-expanded-repeat",
    EXPANDED,
    EXPANDED.env(RATE="0.070"),
    "A variable that a configuration file contains is written in another way.",
)
same(
    "held-default-configuration-value",
    MERGED,
    MERGED.write("configs/default.yaml", "table: data/a.csv\nrate: 0.4\nepochs: 2\n"),
    "A value of the default file, which another file replaces, differs.",
)
different(
    "held-lightning-option",
    LIGHTNING,
    LIGHTNING.option("--trainer.max_epochs", "6"),
    "The epochs differ.",
)
different(
    "held-lightning-command", LIGHTNING, LIGHTNING.swap("fit", "validate"), "Another command."
)
different(
    "held-lightning-file",
    LIGHTNING,
    LIGHTNING.edit("fit.yaml", "lr: 0.05", "lr: 0.06"),
    "The rate in the file differs.",
)
different(
    "held-lightning-precision",
    LIGHTNING,
    LIGHTNING.add("--trainer.precision", "16"),
    "The precision differs.",
)
different(
    "held-hard-files-in-other-order",
    LIGHTNING.run("python", "main.py", "fit", "--config", "fit.yaml", "--config", "fast.yaml"),
    LIGHTNING.run("python", "main.py", "fit", "--config", "fast.yaml", "--config", "fit.yaml"),
    "Both files set the epochs, and the last one counts.",
)
different(
    "held-hard-option-before-file",
    LIGHTNING.run("python", "main.py", "fit", "--config", "fit.yaml", "--trainer.max_epochs", "5"),
    LIGHTNING.run("python", "main.py", "fit", "--trainer.max_epochs", "5", "--config", "fit.yaml"),
    "The file comes after the option, and replaces it.",
)
different(
    "held-merged-set",
    MERGED,
    MERGED.add("--set", "rate=0.06"),
    "An option replaces a value of a file.",
)
different(
    "held-hard-merged-set-twice",
    MERGED.add("--set", "rate=0.06", "--set", "decay=0.1"),
    MERGED.add("--set", "rate=0.07", "--set", "decay=0.1"),
    "The first of two repeated options has another value.",
)
different(
    "held-hard-expanded-variable",
    EXPANDED,
    EXPANDED.env(RATE="0.09"),
    "A configuration file contains a variable, which has another value.",
)
different(
    "held-hard-default-file-too",
    MERGED.run("python", "train.py", "--config", "configs/slow.yaml"),
    MERGED.run("python", "train.py", "--config", "configs/slow.yaml").edit(
        "configs/default.yaml", "epochs: 2", "epochs: 3"
    ),
    "The code reads the default file although the command names another file.",
)
replicate(
    "held-lightning-seed",
    LIGHTNING,
    LIGHTNING.add("--seed_everything", "5"),
    "Only the seed differs.",
)
replicate(
    "held-merged-seed-default-edited",
    MERGED,
    MERGED.edit("train.py", "seed: int = 6", "seed: int = 16"),
    "The seed is the default of a field, which was edited.",
)

hydra = PairList("hydra")
same, different = hydra.same, hydra.different
same(
    "held-dotlist-order",
    DOTLIST,
    DOTLIST.run("python", "train.py", "seed=3", "optim.lr=0.20"),
    "The values are in another order.",
)
same(
    "held-dotlist-experiment",
    DOTLIST,
    DOTLIST.add("experiment=second"),
    "The name of the experiment differs.",
)
same(
    "held-dotlist-file-or-words",
    DOTLIST.add("configs/long.yaml"),
    DOTLIST.add("optim.epochs=6"),
    "A value is in a second file, and in the command.",
)
different("held-dotlist-value", DOTLIST, DOTLIST.add("optim.decay=0.1"), "A value was added.")
different(
    "held-hard-dotlist-interpolation",
    DOTLIST.write("other/a.csv", table("x,y,z,label", 63)),
    DOTLIST.write("other/a.csv", table("x,y,z,label", 63)).add("data.root=other"),
    "A value is part of the path of the data, by interpolation.",
)
different(
    "held-hard-dotlist-base-edited",
    DOTLIST,
    DOTLIST.edit("configs/base.yaml", "epochs: 3", "epochs: 4"),
    "The file that the code always loads was edited.",
)
different(
    "held-hard-dotlist-data",
    DOTLIST,
    DOTLIST.write("data/a.csv", table("x,y,z,label", 64)),
    "The data, whose path is interpolated, have another content.",
)

environment = PairList("environment")
same, different, replicate = environment.same, environment.different, environment.replicate
same(
    "held-dotenv-export",
    SETTINGS,
    SETTINGS.edit(".env", "TRAIN_LR=0.2", 'export TRAIN_LR="0.2"'),
    "A variable is written with export and in quotes.",
)
same(
    "held-dotenv-or-environment",
    SETTINGS,
    SETTINGS.remove(".env").env(TRAIN_TABLE="data/a.csv", TRAIN_LR="0.2", TRAIN_SEED="7"),
    "The variables are in a file, and in the environment.",
)
same(
    "held-hard-dotenv-replaced-value",
    SETTINGS.env(TRAIN_LR="0.4"),
    SETTINGS.env(TRAIN_LR="0.4").edit(".env", "TRAIN_LR=0.2", "TRAIN_LR=0.3"),
    "A value of the file, which the environment replaces, differs.",
)
same(
    "held-dotenv-secret",
    SETTINGS,
    SETTINGS.edit(".env", "WANDB_API_KEY=abc", "WANDB_API_KEY=def"),
    "A secret in the file differs.",
)
same(
    "held-default-through-helper",
    SETTINGS,
    SETTINGS.env(TRAIN_EPOCHS="3"),
    "The default, which a helper function has, is written out.",
)
different(
    "held-hard-helper-variable",
    SETTINGS,
    SETTINGS.env(TRAIN_EPOCHS="5"),
    "A helper function reads a variable, which is set.",
)
different(
    "held-hard-dotenv-value",
    SETTINGS,
    SETTINGS.edit(".env", "TRAIN_LR=0.2", "TRAIN_LR=0.25"),
    "A value in the file differs.",
)
different(
    "held-hard-helper-flag",
    SETTINGS,
    SETTINGS.env(TRAIN_HALF="1"),
    "A variable that a helper function reads turns on rounding.",
)
different(
    "held-hard-default-table",
    SETTINGS.edit(".env", "TRAIN_TABLE=data/a.csv\n", ""),
    SETTINGS.edit(".env", "TRAIN_TABLE=data/a.csv\n", "").write(
        "data/a.csv", table("x,y,z,label", 65)
    ),
    "The table at the default path in the code has another content.",
    data_known=False,
)
replicate(
    "held-dotenv-seed",
    SETTINGS,
    SETTINGS.edit(".env", "TRAIN_SEED=7", "TRAIN_SEED=8"),
    "The seed in the file differs.",
)

PAIRS = (*configuration.pairs, *hydra.pairs, *environment.pairs)
