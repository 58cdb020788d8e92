"""Likely secrets are masked, other text is unchanged."""

from __future__ import annotations

import base64
import re
import string
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from labcarbon_collect.redaction import (
    MASK,
    is_secret_name,
    is_secret_value,
    mask_argument,
    mask_arguments,
    mask_text,
)

AWS_ID = (
    "AKIA" + "IOSFODNN7EXAMPLE"
)  # the vendor's example, in two parts because of source code scanners
AWS_KEY = "wJalrXUtnFEMI/" + "K7MDENG/bPxRfiCYEXAMPLEKEY"
WANDB = "0f1e2d3c4b5a69788796a5b4c3d2e1f00112" + "beef"


@pytest.mark.parametrize(
    "name",
    [
    "password", "--db-password", "DB_PASSWORD", "dbpassword", "PGPASSWORD", "passwd", "passphrase",
    "secret", "client_secret", "token", "hf_token", "--hf-token", "HFToken", "accesstoken",
    "wandb_token", "api_key", "api-key", "apiKey", "APIKEY", "WANDB_API_KEY",
    "aws_secret_access_key", "private.key", "auth", "authorization", "cookie", "dsn", "credentials",
    "connection_string", "--pass",
],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
    "lr", "key", "keys", "max_tokens", "n_tokens", "pad_token", "eos_token_id", "tokenizer",
    "num_tokens", "pin_memory", "author", "passes", "second_pass", "keyframe", "monkey",
    "secretary", "authors", "epochs", "signature_dim", "", "--",
],
)  # fmt: skip
def test_names_without_secrets(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "text",
    [
    AWS_ID, AWS_KEY, WANDB, "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "github_pat_11ABCDEFG0abc",
    "glpat-abcDEF123456", "sk-proj-abc123DEF456", "sk_live_4eC39HqLyjWD", "hf_abcdef",
    "xoxb-123456789012-abc", "AIzaSyD-9tSrke72PouQMnMX", "npm_abcdefghij1234567890",
    "nvapi-abcDEF123", "lc_node_AAAAAAAA_" + "b" * 40, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc",
    "https://ana:hunter2@host/x", "postgresql+psycopg2://u:p@ss@db/x", "redis://:pw@cache:6379",
    "https://tok@host/repo.git", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc", "Bearer abcdef123456",
    "Authorization: Basic dXNlcjpwYXNz", "https://h/x?token=abc&y=1", "url=https://h/x?token=abc",
    "a=password=x", "9password=x", ".password=x", '{"api_key": "abc"}', "password: hunter2",
    "export TOKEN=abc", "zQ3v8KpL2xT9wR4mY7nB", "MTIzNDU2Nzg5MGFiY2RlZg5Zk0x1==",
    "a" * 100 + " password=x", "train --token hunter2", "curl -u ana:pw https://h/x",
],
)  # fmt: skip
def test_texts_with_secrets(text: str) -> None:
    assert is_secret_value(text)
    assert MASK in mask_argument(text)


@pytest.mark.parametrize(
    "text",
    [
    "", "train.py", "0.001", "1e-4", "resnet50_imagenet21k_bs256_lr1e4_seed42",
    "finetuneResNet50OnImageNet1k", "/data/imagenet2012/train/n01440764/n01440764_10026.JPEG",
    "s3://bucket/data/shard-00017.tar", "https://host/path?q=1",
    "meta-llama/Llama-3.1-70B-Instruct", "2026-11-21T03:20:19Z",
    "0e7b9c1a-0000-4000-8000-00000000000a", "true", "adam", "a b c", "host:29500",
    "--nproc_per_node=8", "max_tokens=4096", "pad_token=<pad>", "BASIC training", "10.0.0.1:6379",
    "sk-learn", "lc_ms_data_2024", "hf_train.py", "bert-base-uncased", "CUDA_VISIBLE_DEVICES=0,1",
    "GPU-5d1c6ad1-0000", "pytorch-2.4.0-cuda12.4-cudnn9-devel", "epoch=12-step=34567.ckpt", "🤗",
    "naïve", "x" * 5000,
],
)  # fmt: skip
def test_texts_without_secrets(text: str) -> None:
    assert not is_secret_value(text)


@pytest.mark.parametrize(
    ("given", "masked"),
    [
        ("train.py --password hunter2 --lr 0.1", f"train.py --password {MASK} --lr 0.1"),
        ("train.py --password=hunter2", f"train.py --password={MASK}"),
        ("train.py --hf-token -abc- --x", f"train.py --hf-token {MASK} --x"),
        ("train.py --use-auth --lr 3", "train.py --use-auth --lr 3"),
        ("train.py --api-key hunter2", f"train.py --api-key {MASK}"),
        (
            "env WANDB_API_KEY=short python -u train.py",
            f"env WANDB_API_KEY={MASK} python -u train.py",
        ),
        ("curl -u ana:pw https://h/x", f"curl -u {MASK} https://h/x"),
        ("/usr/bin/curl -uana:pw https://h/x", f"/usr/bin/curl -u{MASK} https://h/x"),
        ("mysql -phunter2 -h db", f"mysql -p{MASK} -h db"),
        ("sshpass -p hunter2 ssh h", f"sshpass -p {MASK} ssh h"),
        ("torchrun -p 8080 train.py", "torchrun -p 8080 train.py"),
        (f"aws --key {AWS_ID} {AWS_KEY}", f"aws --key {MASK} {MASK}"),
    ],
)
def test_command_lines(given: str, masked: str) -> None:
    assert " ".join(mask_arguments(given.split(" "))) == masked


def test_a_script_in_one_argument_is_masked_word_by_word() -> None:
    masked = mask_arguments(["sh", "-c", "curl -u ana:pw https://h/x; train --token abc --lr 1"])
    assert masked == ["sh", "-c", f"curl -u {MASK} https://h/x; train --token {MASK} --lr 1"]


def test_value_with_blanks_is_masked_completely() -> None:
    assert mask_arguments(["x", "--passphrase=correct horse battery"]) == [
        "x",
        f"--passphrase={MASK}",
    ]
    assert (
        mask_arguments(["x", "--header", 'X-Key: 1; "password": "two words"'])[2]
        == f'X-Key: 1; "password": {MASK}'
    )


def test_truncated_secret_at_the_end_of_a_long_text_is_removed() -> None:
    text = "word " * 818 + "zQ3v8KpL2xT9wR4mY7nB"
    assert len(text) > 4096
    assert "zQ3v8" not in mask_text(text)


BASE62 = st.text(string.ascii_letters + string.digits, min_size=28, max_size=64)
QUIET = st.text(string.ascii_lowercase + "_-./ ", max_size=60)


# Prefixes of known secrets: random words may be `sk` and `abcdef`, which are joined with a hyphen.
BEGINNINGS = re.compile(
    r"(?<![a-z])(lc_[a-z]+_|gh[pousr]_|github_pat_|glpat-|sk-|[sr]k_(live|test)_|hf_|"
    r"xox[abeoprs]-|xapp-|npm_|nvapi-)"
)


def _is_random_part(text: str) -> bool:
    """Whether a secret generator could draw the text: hypothesis also draws ``000…``."""
    return (
        len(set(text)) > 14
        and sum(a.isdigit() != b.isdigit() for a, b in pairwise(text)) >= len(text) / 5
    )


@given(BASE62.filter(_is_random_part), QUIET, QUIET)
def test_random_string_is_masked_at_any_position(secret: str, before: str, after: str) -> None:
    assert secret not in mask_text(f"{before} {secret} {after}")
    assert all(secret not in part for part in mask_arguments([before, f"--x={secret}", after]))


@given(st.binary(min_size=24, max_size=64))
def test_hexadecimal_and_base64_of_random_bytes_are_masked(content: bytes) -> None:
    if len(set(content)) < 16:
        return
    if _has_all_kinds(content.hex(), str.isdigit, str.isalpha):
        assert is_secret_value(content.hex())
    padded = base64.b64encode(content).decode()
    if padded.endswith("=") and _has_all_kinds(padded, str.isdigit, str.islower, str.isupper):
        assert is_secret_value(padded)


def _has_all_kinds(text: str, *kinds: Callable[[str], bool]) -> bool:
    """Whether each kind of character occurs. Random bytes without one look like a number or a
    word.
    """
    return all(any(map(kind, text)) for kind in kinds)


@given(
    st.sampled_from(["--password", "--token", "--api-key", "--client-secret"]),
    st.text(min_size=1, max_size=40),
)
def test_value_after_a_secret_name_is_always_masked(option: str, value: str) -> None:
    if value.startswith("--"):
        return
    assert mask_arguments(["train.py", option, value, "--lr", "1"]) == [
        "train.py",
        option,
        MASK,
        "--lr",
        "1",
    ]
    assert mask_arguments([f"{option}={value}"]) == [f"{option}={MASK}"]


@pytest.mark.parametrize(
    "text",
    ["a" * 5000, "a=" * 3000, "--" * 3000, "aA1" * 2000, "://" * 2000, "a:'" * 2000, "é" * 9999],
)
def test_masking_is_fast(text: str) -> None:
    start = time.process_time()
    mask_arguments([text] * 10)
    assert time.process_time() - start < 2


@given(st.text(max_size=300))
def test_masking_is_idempotent(text: str) -> None:
    masked_once = mask_text(text)
    assert mask_text(masked_once) == masked_once


@given(
    st.lists(st.text(string.ascii_lowercase, min_size=1, max_size=14), min_size=1, max_size=8),
    st.sampled_from("_-./ "),
)
def test_plain_words_are_not_masked(words: list[str], by: str) -> None:
    text = by.join(word for word in words if not is_secret_name(word))
    assume(not BEGINNINGS.search(text))
    assert mask_text(text) == text
