"""Command lines as they are sent: executable and script name, or on request the complete line
without secrets. Pure.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import List, Optional, Sequence

from labcarbon_collect.redaction import is_secret_value, mask_arguments

# Limits of the server: 64 parts of 256 characters, none of them empty.
MAX_PARTS, MAX_PART = 64, 256
# Interpreter options whose value is the next word.
_OPTIONS_WITH_VALUE = {
    "python": ("-W", "-X", "-Q", "--check-hash-based-pycs"),
    "shell": ("-o", "-O", "+o", "+O", "--rcfile", "--init-file"), "perl": ("-I", "-M"),
    "ruby": ("-I", "-r", "-C", "-E"), "node": ("-r", "--require", "--import", "--loader"),
    "julia": ("-J", "-H", "-t", "-p", "-L", "--project", "--threads"), "Rscript": (),
}  # fmt: skip
_INTERPRETERS = (
    (re.compile(r"^(python[\d.]*|pypy[\d.]*)$"), "python"),
    (re.compile(r"^(ba|z|da|k)?sh$"), "shell"), (re.compile(r"^perl[\d.]*$"), "perl"),
    (re.compile(r"^ruby[\d.]*$"), "ruby"), (re.compile(r"^node(js)?$"), "node"),
    (re.compile(r"^julia$"), "julia"), (re.compile(r"^Rscript$"), "Rscript"),
)  # fmt: skip
# Options followed by the program text, or for a program from standard input. Later words are not
# sent.
_INLINE_OPTIONS = {
    "python": re.compile(r"^-[A-Za-z]*c"), "shell": re.compile(r"^-[A-Za-z]*[cs]"),
    "perl": re.compile(r"^-[A-Za-z]*[eE]"), "ruby": re.compile(r"^-[A-Za-z]*e"),
    "node": re.compile(r"^(-[A-Za-z]*[ep]|--eval|--print)"),
    "julia": re.compile(r"^(-[A-Za-z]*[eE]|--eval|--print)"), "Rscript": re.compile(r"^-e"),
}  # fmt: skip
LAUNCHERS = frozenset(
    ("torchrun", "deepspeed", "accelerate", "horovodrun", "composer", "uv", "conda", "poetry")
)
SCRIPT = re.compile(r"^[\w.+-]+\.(py|pyw|sh|bash|zsh|R|r|jl|pl|rb|js|mjs|ts|lua|ipynb)$")
_NAME = re.compile(r"^[\w.+-]+$")
_MODULE = re.compile(r"^\w+(\.\w+)*$")


def reduce_command(command: Sequence[str]) -> List[str]:
    """Return executable and script name only. Paths and arguments stay on this machine.

    ``/opt/py/bin/python -u train.py --key k`` → ``python train.py``; ``python -m pkg.train x`` →
    ``python -m pkg.train``; ``python -c "…"`` → ``python -c``; ``bash -lc "…"`` → ``bash -c``.
    """
    executable = _executable_name(command[0])
    if executable in LAUNCHERS:
        script = next(
            (_basename(word) for word in command[1:] if SCRIPT.match(_basename(word))), ""
        )
        return [executable, script] if script and not is_secret_value(script) else [executable]
    interpreter = identify_interpreter(executable)
    return [executable, *_program_words(interpreter, command[1:])] if interpreter else [executable]


@dataclass(frozen=True)
class Program:
    """The program that an interpreter runs. ``kind``: script, module, inline, or "" for none."""

    kind: str
    text: str
    arguments: Sequence[str]


def identify_interpreter(executable: str) -> Optional[str]:
    """Return the kind of interpreter by the executable's name: python, shell, perl … None for any
    other program.
    """
    return next((name for pattern, name in _INTERPRETERS if pattern.match(executable)), None)


def parse_program(interpreter: str, words: Sequence[str]) -> Program:
    """Return the script, module or inline text among the arguments of an interpreter."""
    is_option_value = False
    for index, word in enumerate(words):
        if is_option_value:
            is_option_value = False
        elif interpreter == "python" and re.match(r"^-[A-Za-z]*m", word):
            return _program_of_option("module", word.partition("m")[2], words[index + 1 :])
        elif _INLINE_OPTIONS[interpreter].match(word):
            attached = word.partition("c")[2] if interpreter == "python" else ""
            return _program_of_option("inline", attached, words[index + 1 :])
        elif word in _OPTIONS_WITH_VALUE[interpreter]:
            is_option_value = True
        elif word == "-":
            break
        elif not word.startswith(("-", "+")):
            return Program("script", word, words[index + 1 :])
    return Program("", "", ())


def _program_of_option(kind: str, attached: str, following: Sequence[str]) -> Program:
    """Return the program whose value is attached to its option or in the next word."""
    return (
        Program(kind, attached, following)
        if attached
        else Program(kind, "".join(following[:1]), following[1:])
    )


def mask_command(command: Sequence[str]) -> List[str]:
    """Return the complete command line with secrets masked, limited to what the server accepts."""
    parts = [
        truncate_line(part, MAX_PART) or "''"
        for part in mask_arguments([str(word) for word in command])
    ]
    if len(parts) > MAX_PARTS:
        return [*parts[: MAX_PARTS - 1], f"… and {len(parts) - MAX_PARTS + 1} more"]
    return parts


def truncate_line(text: str, length: int) -> str:
    """Return one printable line of at most ``length`` characters."""
    line = "".join(letter if letter.isprintable() else " " for letter in text).strip()
    return line if len(line) <= length else line[: length - 1] + "…"


def _program_words(interpreter: str, words: Sequence[str]) -> List[str]:
    """Return the script or module of an interpreter if it is a plain name."""
    program = parse_program(interpreter, words)
    if program.kind == "module":
        return _module_words(program.text)
    if program.kind == "inline":
        return ["-e" if interpreter in ("perl", "ruby", "node", "julia", "Rscript") else "-c"]
    return _script_words(_basename(program.text)) if program.kind == "script" else []


def _module_words(name: str) -> List[str]:
    return ["-m", name[:MAX_PART]] if _MODULE.match(name) and not is_secret_value(name) else ["-m"]


def _script_words(name: str) -> List[str]:
    return [name[:MAX_PART]] if _NAME.match(name) and not is_secret_value(name) else []


def _executable_name(executable: str) -> str:
    """Return the executable's name, ``command`` if it is no plain name or looks like a secret."""
    name = truncate_line(_basename(executable), MAX_PART)
    return name if name and "=" not in name and not is_secret_value(name) else "command"


def _basename(path: str) -> str:
    return os.path.basename(path.rstrip("/"))
