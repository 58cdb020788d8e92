"""Hostile code and settings: a survey ends in its time, and no secret is hashed or sent."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tests.collector.fingerprint.support import TRAIN, Folder

SECONDS = 2.0
ALLOWED_S = 6.0  # the machine of the tests may be busy


def survey_s(folder: Folder, *command: str, **options: object) -> tuple[dict[str, object], float]:
    begun = time.monotonic()
    wire = folder.wire(*command, seconds=SECONDS, **options)
    return wire, time.monotonic() - begun


@pytest.mark.parametrize(
    "source",
    [
        "x = [" + "1, " * 3_000_000 + "]\n",
        "".join(f"v{n} = v{n - 1} + args.a{n}\n" for n in range(1, 150_000)),
        "x = " + "+".join(["a"] * 20_000) + "\n",
        "x = " + "f(" * 80 + ")" * 80 + "\n",
        "x = " + "[" * 190 + "]" * 190 + "\n",
        "".join(f"p.add_argument('--option-{n}', default={n})\n" for n in range(5000)),
        "".join(f"v{n} = [x for x in (v{n - 1}, v{n - 2})]\n" for n in range(2, 20_000)),
        "".join(f"c{n} = open(c{n - 1} + '/p{n}')\n" for n in range(1, 5000)),
    ],
    ids=["10 MB", "chain", "sum", "calls", "brackets", "options", "comprehensions", "paths"],
)
def test_large_sources_do_not_delay_the_start(folder: Folder, source: str) -> None:
    folder.write(train_py=source)
    wire, elapsed_s = survey_s(folder)
    assert elapsed_s < ALLOWED_S
    if "params" not in wire:
        assert wire["code"] in ({"state": "unknown"}, wire["code"])


def test_many_options_on_the_command_line_do_not_delay_the_start(folder: Folder) -> None:
    folder.write(
        train_py="".join(f"p.add_argument('--option-{n}', default={n})\n" for n in range(5000))
    )
    words = [word for n in range(2000) for word in (f"--option-{n % 5000}x", "1")]
    _, elapsed_s = survey_s(folder, "python", "train.py", *words)
    assert elapsed_s < ALLOWED_S


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(12)
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "a: !!python/object/apply:os.system ['touch owned']\n",
        "a: !!python/name:os.system\n",
        "a: &a [*a]\n",
        "a: &a {b: *a}\n",
        "[" * 100_000,
        "{a: " * 20_000,
        "_base_: config.yaml\nlr: 1\n",
        "_base_: [other.yaml, other.yaml, other.yaml, other.yaml]\n",
        "? {a: 1}\n: 2\n1: 3\nnull: 4\n2020-01-01: 2020-01-01\n",
        "lr: !!binary aGFsbG8=\ns: !!set {a, b}\n",
    ],
    ids=["bomb", "apply", "name", "list loop", "map loop", "brackets", "braces", "self", "fan",
         "keys", "types"],
)  # fmt: skip
def test_hostile_yaml_is_a_file_like_any_other(folder: Folder, text: str) -> None:
    folder.put("config.yaml", text)
    folder.put("other.yaml", "_base_: [other.yaml, other.yaml, other.yaml, other.yaml]\nx: 1\n")
    wire, elapsed_s = survey_s(folder, "python", "train.py", "--config", "config.yaml")
    assert elapsed_s < ALLOWED_S
    assert "params" in wire or "_base_: [" in text  # too many files: unknown
    assert not (folder.root / "owned").exists()


def test_deep_json_is_a_file_like_any_other(folder: Folder) -> None:
    folder.put("config.json", '{"a":' * 30_000 + "1" + "}" * 30_000)
    wire, elapsed_s = survey_s(folder, "python", "train.py", "--config", "config.json")
    assert elapsed_s < ALLOWED_S
    assert "config:config" in wire["params"]


@pytest.mark.parametrize("name", ["config.yaml", ".env"])
def test_a_pipe_that_the_code_names_is_never_opened(folder: Folder, name: str) -> None:
    folder.write(train_py=f"{TRAIN}\nload_dotenv()\nopen('{name}')\n")
    os.mkfifo(folder.root / name)
    wire, elapsed_s = survey_s(folder)
    assert elapsed_s < ALLOWED_S
    assert "params" in wire


@pytest.mark.parametrize("name", ["config.yaml", ".env"])
def test_a_file_of_a_gigabyte_that_the_code_names_is_not_read(folder: Folder, name: str) -> None:
    folder.write(train_py=f"{TRAIN}\nload_dotenv()\nopen('{name}')\n")
    with (folder.root / name).open("wb") as file:
        file.truncate(1 << 30)
    found = folder.survey(seconds=SECONDS)
    assert found.notes
    assert found.wire.get("code") == {"state": "unknown"} or "params" not in found.wire


def test_links_in_loops_that_the_code_names_are_no_files(folder: Folder) -> None:
    folder.write(train_py=f"{TRAIN}\nload_dotenv()\nopen('config.yaml')\n")
    (folder.root / "config.yaml").symlink_to("config.yaml")
    (folder.root / ".env").symlink_to(".env")
    assert folder.wire()["code"]["state"] == "verified"


HYDRA = "import hydra\n@hydra.main(config_path='.', config_name='a')\ndef main(c): pass\n"


@pytest.mark.parametrize(
    "body",
    [
        "sleep 30",
        'echo \'{"values": 3, "swept": 4}\'',
        'echo \'{"values": {"a": 1}, "swept": {"b": 4}}\'',
        "echo '[]'",
        "echo 'null'",
        "echo '\"values\"'",
        "(sleep 30 &) ; echo '{}'",
        "kill -9 $$",
        "trap '' TERM; sleep 30",
    ],
)
def test_an_interpreter_that_misbehaves_does_not_delay_the_start(
    folder: Folder, tmp_path: Path, body: str
) -> None:
    folder.write(train_py=HYDRA, a_yaml="lr: 1\n")
    interpreter = folder.put("bin/python", f"#!/bin/sh\n{body}\n")
    interpreter.chmod(0o755)
    wire, elapsed_s = survey_s(folder, str(interpreter), "train.py", "lr=2")
    assert elapsed_s < ALLOWED_S
    assert "params" in wire
    assert "lr" in wire["params"]


SECRET = "hunter2-9f8e7d6c5b4a3210"


def test_no_secret_is_sent_or_hashed(folder: Folder) -> None:
    from labcarbon_collect.lc1 import param_hash

    folder.write(
        train_py="import os\nload_dotenv()\nos.environ['DB_PASSWORD']\nos.getenv('HF_TOKEN')\n"
        "open('config.yaml')\np.add_argument('--tag')\np.add_argument('--api-key')\n"
    )
    folder.put(".env", f"DB_PASSWORD={SECRET}\nexport HF_TOKEN='{SECRET}'\n")
    folder.put("config.yaml", f"wandb:\n  api_key: {SECRET}\nlr: 1\nsecret_token: {SECRET}\n")
    wire = folder.wire(
        "python", "train.py", "--api-key", SECRET, f"--password={SECRET}",
        "--db-url", f"mysql://ana:{SECRET}@host/x", full_command=True,
    )  # fmt: skip
    text = json.dumps(wire)
    assert SECRET not in text
    for name in ("env.DB_PASSWORD", "env.HF_TOKEN", "api_key", "password"):
        assert wire["dropped"][name] == "", name
        assert param_hash(name, SECRET) not in text
    for name in ("wandb.api_key", "secret_token"):
        assert param_hash(name, SECRET) not in text
    assert param_hash("db_url", f"mysql://ana:{SECRET}@host/x") not in text
