"""Arguments, launchers, configuration files and paths, and the part to which each belongs."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from labcarbon_collect import lc1
from labcarbon_collect.fingerprint.arguments import group_arguments, name_arguments
from labcarbon_collect.fingerprint.launchers import parse_launch
from labcarbon_collect.runs.options import add_arguments, parse_spec

from tests.collector.fingerprint.support import Folder


def params(folder: Folder, *words: str, **said: Any) -> dict[str, str]:
    return dict(folder.wire("python", "train.py", *words, **said)["params"])


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--lr", "0.1", "--amp"], {"--lr": "0.1", "--amp": True}),
        (["--lr=0.1", "-b", "32", "-j8"], {"--lr": "0.1", "-b": "32", "j": "8"}),
        (["--shift", "-0.5", "--amp", "--x"], {"--shift": "-0.5", "--amp": True, "--x": True}),
        (["resnet50", "--lr", "1", "fast"], {"arg0": "resnet50", "--lr": "1", "arg1": "fast"}),
        (["model.depth=3", "+trainer.max=4", "++a/b@c=1", "x=[1,2]"], {
            "model.depth": "3", "trainer.max": "4", "a/b@c": "1", "x": "[1,2]"
        }),
        (["--layer", "1", "--layer", "2"], {"--layer": ["1", "2"]}),
        (["-m", "model=a,b", "lr=1"], {"-m": True, "model": "a,b", "lr": "1"}),
        (["lr=1,2", "--multirun", "+x=a"], {"lr": "1,2", "--multirun": True, "x": "a"}),
        (["-m", "0.9"], {"-m": "0.9"}),
        (["--", "--lr", "x=y"], {"arg0": "--lr", "x": "y"}),
        (["-"], {"arg0": "-"}),
        ([], {}),
    ],
)  # fmt: skip
def test_arguments_have_names_and_values(words: list[str], found: dict[str, Any]) -> None:
    assert group_arguments(name_arguments(words)) == found


@pytest.mark.parametrize(
    ("command", "kind", "entry", "rest", "size"),
    [
        ("python -u train.py --lr 1", "script", "train.py", "--lr 1", None),
        ("./train.py --lr 1", "script", "./train.py", "--lr 1", None),
        ("python -m pkg.train --lr 1", "module", "pkg.train", "--lr 1", None),
        (
            "torchrun --standalone --nproc_per_node=4 --nnodes 2 train.py --lr 1",
            "script",
            "train.py",
            "--lr 1",
            8,
        ),
        ("torchrun --nproc-per-node 2 -m pkg.train --lr 1", "module", "pkg.train", "--lr 1", 2),
        (
            "python -m torch.distributed.run --nproc_per_node 2 train.py",
            "script",
            "train.py",
            "",
            2,
        ),
        (
            "accelerate launch --num_processes 4 --mixed_precision bf16 train.py --lr 1",
            "script",
            "train.py",
            "--lr 1",
            4,
        ),
        (
            "deepspeed --num_gpus 2 train.py --deepspeed ds.json",
            "script",
            "train.py",
            "--deepspeed ds.json",
            2,
        ),
        ("uv run train.py --lr 1", "script", "train.py", "--lr 1", None),
        ("uv run --with x python train.py --lr 1", "script", "train.py", "--lr 1", None),
        ("conda run -n env python train.py", "script", "train.py", "", None),
        (
            "env CUDA_VISIBLE_DEVICES=0 nohup nice -n 5 python train.py",
            "script",
            "train.py",
            "",
            None,
        ),
        ("timeout 30m python train.py", "script", "train.py", "", None),
        ("mpirun -np 4 python train.py", "script", "train.py", "", 4),
        ("srun -n 8 python train.py", "script", "train.py", "", 8),
        ("bash go.sh fast", "script", "go.sh", "fast", None),
        (
            "papermill in.ipynb out.ipynb -p lr 0.1 -p seed 2",
            "notebook",
            "in.ipynb",
            "--lr=0.1 --seed=2",
            None,
        ),
        ("jupyter nbconvert --to notebook --execute in.ipynb", "notebook", "in.ipynb", "", None),
        ("blender scene.blend", "program", "blender", "scene.blend", None),
        (
            "nice nice nice nice nice nice nice nice nice nice python train.py",
            "program",
            "nice",
            None,
            None,
        ),
    ],
)
def test_launchers_lead_to_what_they_start(
    command: str, kind: str, entry: str, rest: str | None, size: int | None
) -> None:
    found = parse_launch(command.split(), {})
    assert (found.kind, found.entry, found.world_size) == (kind, entry, size)
    if rest is not None:
        assert " ".join(found.arguments) == rest


@given(st.lists(st.text(max_size=12), max_size=12))
def test_no_command_line_is_too_strange(words: list[str]) -> None:
    found = parse_launch(words, {})
    group_arguments(name_arguments(found.arguments))


def test_a_multirun_keeps_all_overrides(folder: Folder) -> None:
    grids = (("-m", "model=a,b", "lr=1"), ("model=a,b", "--multirun", "lr=1"))
    wires = [folder.wire("python", "train.py", *words) for words in grids]
    assert [set(wire["params"]) for wire in wires] == [{"model", "lr"}] * 2
    assert wires[0]["params"] == wires[1]["params"]
    other = folder.wire("python", "train.py", "-m", "model=c,d", "lr=1")
    assert other["params"]["model"] != wires[0]["params"]["model"]


def test_an_option_m_of_a_program_is_a_parameter(folder: Folder) -> None:
    one, two, flag = (
        folder.wire("python", "train.py", "-m", *words) for words in (["1"], ["2"], [])
    )
    assert one["params"]["m"] != two["params"]["m"]
    assert set(flag["params"]) == {"m"}


@pytest.mark.parametrize(
    ("words", "intent"),
    [
        ("-- python train.py -m model=a,b", "sweep"),
        ("-- torchrun --nproc_per_node 2 train.py lr=1,2 --multirun", "sweep"),
        ("--intent benchmark -- python train.py -m lr=1,2", "benchmark"),
        ("-- python -m pkg.train lr=1", "train"),
        ("-- python train.py -m 0.9", "train"),
        ("-- python train.py -m --lr 1", "train"),
    ],
)
def test_a_multirun_is_a_sweep(words: str, intent: str) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    assert parse_spec(parser.parse_args(words.split()), "").intent == intent


NAMES = st.sampled_from(["alpha", "beta", "gamma", "momentum", "width"])
VALUES = st.one_of(
    st.integers(-1000, 1000), st.floats(-10, 10).map(lambda number: round(number, 6)), st.booleans()
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None
)
@given(given=st.dictionaries(NAMES, VALUES, max_size=5), order=st.randoms(use_true_random=False))
def test_order_and_form_of_options_change_nothing(
    folder: Folder, given: dict[str, Any], order: Any
) -> None:
    pairs = list(given.items())
    order.shuffle(pairs)
    equals = [f"--{name}={value}" for name, value in given.items()]
    apart = [word for name, value in pairs for word in (f"--{name}", str(value))]
    overrides = [f"{name}={value}" for name, value in pairs]
    (folder.root / "all.json").write_text(json.dumps(dict(pairs)))
    found = [
        params(folder, *words) for words in (equals, apart, overrides, ["--config", "all.json"])
    ]
    assert found == [{name: lc1.param_hash(name, value) for name, value in given.items()}] * 4


def test_a_configuration_file_is_its_values_whatever_its_form_and_place(folder: Folder) -> None:
    folder.put("a.json", '{"optim": {"lr": 0.1, "betas": [0.9, 0.99]}, "epochs": 3}')
    folder.put("b.yaml", "epochs: 3\noptim:\n  betas: [0.9, 0.99]\n  lr: 1e-1\n")
    folder.put("c.toml", "epochs = 3\n[optim]\nlr = 0.1\nbetas = [0.9, 0.99]\n")
    folder.put("elsewhere/d.json", '{"epochs": 3, "optim": {"betas": [0.9, 0.99], "lr": 0.10}}')
    found = [
        params(folder, "--config", name)
        for name in ("a.json", "b.yaml", "c.toml", "elsewhere/d.json")
    ]
    assert found[0].keys() == {"optim.lr", "optim.betas", "epochs"}
    assert found == [found[0]] * 4
    over = params(folder, "--config", "a.json", "optim.lr=0.2")
    assert over["optim.lr"] == lc1.param_hash("optim.lr", 0.2)
    assert over != found[0]


def test_a_configuration_that_cannot_be_read_as_values_counts_by_its_content(
    folder: Folder,
) -> None:
    folder.put("a.ini", "[x]\nlr = 1\n")
    before = params(folder, "--config", "a.ini")
    folder.put("a.ini", "[x]\nlr = 2\n")
    assert before.keys() == params(folder, "--config", "a.ini").keys() == {"config:config"}
    assert before != params(folder, "--config", "a.ini")


MANY = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [*{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}]\n"
    for old, new in zip("abcdefg", "bcdefgh")
)


@pytest.mark.parametrize(
    "content",
    [
    MANY, "a: &a [*a]\n", "{" * 3000, "a:\n" + "- [" * 3000, "\0",
    "!!python/object/apply:os.system [touch sprung]\n",
],
    ids=["a thousand million values", "itself", "deep", "deeper", "nul", "code"],
)  # fmt: skip
def test_a_hostile_configuration_costs_nothing(folder: Folder, content: str) -> None:
    folder.put("evil.yaml", content)
    found = folder.survey("python", "train.py", "--config", "evil.yaml", seconds=10)
    assert set(found.wire["params"]) == {"config:config"}
    assert not (folder.root / "sprung").exists()


def test_a_path_in_a_configuration_is_data(folder: Folder) -> None:
    folder.put("cats/1.png", "cat")
    folder.put("a.json", '{"data": {"root": "cats"}, "lr": 0.1}')
    wire = folder.wire("python", "train.py", "--config", "a.json")
    assert [item["role"] for item in wire["data"]["items"]] == ["data.root"]
    assert wire["params"].keys() == {"lr"}


def test_a_renamed_output_folder_changes_nothing_whether_it_exists_or_not(folder: Folder) -> None:
    command = ["python", "train.py", "--lr", "1"]
    names = (
        ["--output_dir", "runs/1"],
        ["--out", "runs/2"],
        ["--save-dir", "x"],
        ["--save_model", "m.pt"],
        ["--logdir", "logs"],
    )
    wires = [folder.wire(*command, *name) for name in names]
    for name in ("runs/1/model.pt", "runs/2/model.pt", "x/m", "m.pt", "logs/events"):
        folder.put(name, "result")
    wires += [folder.wire(*command, *name) for name in names]
    plain = folder.wire(*command)
    for wire in wires:
        assert [wire[part] for part in ("params", "seeds", "start", "code")] == [
            plain[part] for part in ("params", "seeds", "start", "code")
        ]
        assert "data" not in wire
        assert wire["dropped"]


def test_seeds_are_apart_and_none_is_known_to_be_none(folder: Folder) -> None:
    one, two = (folder.wire("python", "train.py", "--seed", seed) for seed in ("1", "2"))
    assert one["seeds"] != two["seeds"]
    assert (one["params"], one["code"]) == (two["params"], two["code"])
    assert folder.wire()["seeds"] == {}


def test_processes_of_a_launcher_make_the_global_batch(folder: Folder) -> None:
    by_two = folder.wire("torchrun", "--nproc_per_node=2", "train.py", "--batch_size", "16")
    alone = folder.wire("python", "train.py", "--global_batch_size", "32")
    assert by_two["params"] == alone["params"]
    assert by_two["entry"] == alone["entry"]
    no_batch = folder.wire("torchrun", "--nproc_per_node=2", "train.py")
    assert no_batch["params"].keys() == {"world_size"}


def test_what_the_launcher_sets_counts(folder: Folder) -> None:
    half = folder.wire("accelerate", "launch", "--mixed_precision", "bf16", "train.py")
    assert half["params"].keys() == {"mixed_precision"}


def test_declared_parameters_take_precedence_and_are_sent_others_only_on_request(
    folder: Folder,
) -> None:
    command = ["python", "train.py", "--lr", "0.1", "--width", "8", "--seed", "4"]
    quiet = folder.wire(*command, declared_params={"lr": 0.2, "api_key": "(masked)"})
    assert quiet["told"] == {"lr": 0.2}
    assert quiet["params"]["lr"] == lc1.param_hash("lr", 0.2)
    told = folder.wire(*command, full_command=True)["told"]
    assert {name: lc1.parse_value(str(value)) for name, value in told.items()} == {
        "lr": 0.1,
        "width": 8,
        "seed": 4,
    }


def test_labels_are_sent_only_on_request_and_known_locally(folder: Folder) -> None:
    folder.write(
        train_py="import argparse\np = argparse.ArgumentParser()\np.add_argument('--out')\n"
        "a = p.parse_args()\nprint(open(a.out + '/state').read())\n"
    )
    command = ["python", "train.py", "--out", "runs/a", "--run-name", "vit", "--lr", "0.1"]
    quiet = folder.survey(*command)
    assert set(quiet.wire["labels"]) == {"out", "run_name"}
    assert quiet.wire["told"] == {}
    assert "vit" not in str(quiet.wire)
    assert {name: str(value) for name, value in quiet.local_values.items()} == {
        "out": "runs/a",
        "run_name": "vit",
        "lr": "0.1",
    }
    sent = folder.wire(*command, full_command=True)["told"]
    assert (sent["out"], sent["run_name"]) == ("runs/a", "vit")
    for secret in ("--password=hunter2", "--run-name=https://u:hunter2@h/x"):
        survey = folder.survey("python", "train.py", secret)
        assert "hunter2" not in str(survey.local_values)


def test_secrets_are_neither_hashed_nor_sent(folder: Folder) -> None:
    plain = folder.wire("python", "train.py", "--lr", "1")
    words = ["--lr", "1", "--wandb-key", "abc", "--password", "hunter2", "--api-key=1"]
    found = folder.wire("python", "train.py", *words, full_command=True)
    assert found["params"] == plain["params"]
    assert set(found["told"]) == {"lr"}
    urls = [
        folder.wire("python", "train.py", f"--db=https://u:{word}@h/x", full_command=True)
        for word in ("a", "b")
    ]
    assert urls[0]["params"] == urls[1]["params"]
    assert urls[0]["told"] == {}


def test_addresses_and_names_of_hubs_stay_parameters(folder: Folder) -> None:
    found = folder.wire(
        "python", "train.py", "--data", "s3://b/cats", "--model", "org/bert", "--dataset", "cifar10"
    )
    assert found["params"].keys() == {"data", "model", "dataset"}
    assert "data" not in found
    assert found["start"]["name"] == "scratch"


def test_a_bare_word_that_is_a_folder_as_well_stays_a_parameter(folder: Folder) -> None:
    before = folder.wire("python", "train.py", "--model", "resnet50")
    folder.put("resnet50/weights", "x")
    assert folder.wire("python", "train.py", "--model", "resnet50")["params"] == before["params"]


@pytest.mark.parametrize(
    ("words", "part", "name"),
    [
        (["--data", "cats"], "data", "cats"),
        (["cats"], "data", "cats"),
        (["--train_file", "cats/1.csv"], "data", "1.csv"),
        (["--annotations", "cats/a.json"], "data", "a.json"),
        (["data.root=cats"], "data", "cats"),
        (["--resume", "old.ckpt"], "start", "old.ckpt"),
        (["--ckpt_path", "old.ckpt"], "start", "old.ckpt"),
        (["--pretrained", "weights"], "start", "weights"),
        (["--model_name_or_path", "weights"], "start", "weights"),
        (["--backbone", "old.pth"], "start", "old.pth"),
    ],
)
def test_paths_that_exist_are_data_or_start(
    folder: Folder, words: list[str], part: str, name: str
) -> None:
    for path in ("cats/1.csv", "cats/a.json", "old.ckpt", "old.pth", "weights/w.safetensors"):
        folder.put(path, "{}")
    found = folder.wire("python", "train.py", *words)
    assert found["params"] == {}
    shown = found["data"]["items"][0]["name"] if part == "data" else found["start"]["name"]
    assert shown == name
    assert ("data" in found) is (part == "data")


def test_data_and_start_can_be_declared(folder: Folder) -> None:
    folder.put("cats/1", "cat")
    folder.put("old.bin", "w")
    by_words = folder.wire("python", "train.py", "--data", "cats", "--resume", "old.bin")
    said = folder.wire(
        "python", "train.py", declared_data={"data": "cats"}, declared_start="old.bin"
    )
    assert (said["data"], said["start"]) == (by_words["data"], by_words["start"])
    missing = folder.survey(declared_data={"train": "nowhere"})
    assert "data: the path for train does not exist" in missing.notes


def test_too_many_parameters_are_unknown_with_a_note(folder: Folder) -> None:
    found = folder.survey("python", "train.py", *[f"--p{number}={number}" for number in range(600)])
    assert "params" not in found.wire
    assert any("Parameters" in note for note in found.notes)
