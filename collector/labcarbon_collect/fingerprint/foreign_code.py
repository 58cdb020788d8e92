"""Facts of code in other languages than Python: variables that it reads, files that it names. By
patterns, because nothing parses these languages. Pure.
"""

from __future__ import annotations

import os
import re
from typing import Iterator

from labcarbon_collect.fingerprint.code_facts import CodeFacts
from labcarbon_collect.fingerprint.syntax.options import NO_DEFAULT
from labcarbon_collect.fingerprint.syntax.path_uses import READ

_SUFFIXES = (".R", ".r", ".jl", ".js", ".mjs", ".cjs", ".ts", ".pl", ".rb", ".lua", ".m")
_VARIABLE = re.compile(
    r"(?:Sys\.getenv|os\.getenv|getenv)\(\s*[\"'](\w+)[\"']|"
    r"\bENV\[\s*[\"'](\w+)[\"']|\bget\(\s*ENV\s*,\s*[\"'](\w+)[\"']|process\.env\.(\w+)|"
    r"process\.env\[\s*[\"'](\w+)[\"']|\$ENV\{[\"']?(\w+)[\"']?\}"
)
_ANY_VARIABLE = re.compile(r"Sys\.getenv|\bENV\b|process\.env|getenv|\$ENV|%ENV")
_SOURCED = re.compile(
    r"\b(?:source|include|sys\.source|require|import)\b[^\n\"']{0,80}[\"']([^\"'\n]{1,200})[\"']"
)
_TEXT = re.compile(r"[\"']([^\"'\n]{1,200})[\"']")
_STDIN = re.compile(r"\bstdin\b|\breadline\(|\breadLines\(|<STDIN>")
_MAX_TEXTS = 5000
_SHELL_SOURCE = re.compile(r"^\s*(?:source|\.)\s+([^\s;&|]+)", re.MULTILINE)
_SHELL_READ = re.compile(r"^\s*(?:while\s+)?(?:IFS=\S*\s+)?read\b|\bxargs\b", re.MULTILINE)
_SHELL_WORD = re.compile(r"(?<![\w$>{./-])(?!-)[\w./~+-]{2,200}")
_SHELL_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_SHELL_OUTPUT = re.compile(r"(>>?|\btee(\s+-a)?|\bmkdir(\s+-p)?|\brm(\s+-\w+)?)\s*$")


def scan_foreign(facts: CodeFacts, path: str, text: str) -> Iterator[str]:
    """Add the facts of a file and yield the names of files that it includes."""
    if not path.endswith(_SUFFIXES):
        return
    known = 0
    for match in _VARIABLE.finditer(text):
        known += 1
        facts.add_variable(next(group for group in match.groups() if group), NO_DEFAULT)
    facts.has_computed_variable |= len(_ANY_VARIABLE.findall(text)) > known
    facts.inputs.reads_stdin |= _STDIN.search(text) is not None
    for number, match in enumerate(_TEXT.finditer(text)):
        if number >= _MAX_TEXTS:
            break
        facts.inputs.add_path(match[1], READ)
    suffix = os.path.splitext(path)[1]
    for match in _SOURCED.finditer(text):
        yield match[1]
        yield f"{match[1]}{suffix}"


def scan_shell_inputs(facts: CodeFacts, text: str) -> Iterator[str]:
    """Add the files that a shell script may read, and standard input. Yield the scripts that it
    includes.
    """
    facts.inputs.reads_stdin |= _SHELL_READ.search(text) is not None
    for match in _SHELL_SOURCE.finditer(text):
        name = match[1].strip("\"'")
        if "$" in name:
            facts.has_computed_variable = True
        else:
            yield name
    code = _SHELL_COMMENT.sub("", text)
    for number, match in enumerate(_SHELL_WORD.finditer(code)):
        if number >= _MAX_TEXTS:
            break
        before = code[max(0, match.start() - 12) : match.start()]
        if not _SHELL_OUTPUT.search(before):
            facts.inputs.add_path(match[0], READ)
