"""Comparison of two snapshots, key by key."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

ABSENT = "(absent)"
TEXT = "text: "  # beginning of a line with a former and a new text
LONGEST = 160
# Files that are compared only on request, and what they hold.
OPTIONAL = {
    "text": (("text/*",), "visible text of pages"),
    "html": (("html/*",), "HTML of pages"),
    "headings": (("csv_headings.json",), "headings of CSV files"),
    "messages": (("api_messages.json",), "messages and hints of the API's errors"),
    "forms": (("forms.json",), "forms of pages: actions and field names"),
}
NEVER = ("addresses.json", "about.json")  # what was requested, and notes on the run


@dataclass(frozen=True)
class Difference:
    """A key whose values differ."""

    file: str
    key: str
    before: str
    after: str

    def __str__(self) -> str:
        return (
            f"{self.file}: {self.key}\n  before: {shortened(self.before)}\n  after:  "
            f"{shortened(self.after)}"
        )


def shortened(text: str) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} characters)"


def compare(
    before: Path,
    after: Path,
    *,
    allow: Path | None = None,
    only: Sequence[str] = ("*",),
    limit: int = 200,
    optional: Sequence[str] = (),
) -> int:
    """Print all differences that are not allowed, and their number; return 1 if there is one,
    else 0.
    """
    for folder in (before, after):
        if not (folder / "about.json").exists():  # written last
            sys.exit(f"{folder} holds no complete snapshot")
    allow_text = allow.read_text(encoding="utf-8") if allow else ""
    allowed, texts = allowed_keys(allow_text), allowed_texts(allow_text)
    all_differences = list(differences(before, after, only=only, optional=optional))
    listed = [
        difference
        for difference in all_differences
        if not any(pattern.fullmatch(f"{difference.file}: {difference.key}") for pattern in allowed)
        and replaced(difference.before, texts) != difference.after
    ]
    for difference in listed[:limit]:
        print(difference)
    if len(listed) > limit:
        print(f"… and {len(listed) - limit} more")
    by_file: dict[str, int] = {}
    for difference in listed:
        by_file[difference.file] = by_file.get(difference.file, 0) + 1
    for file, count in sorted(by_file.items(), key=lambda item: -item[1])[:30]:
        print(f"{count:8} {file}")
    print(f"{len(listed)} differences, {len(all_differences) - len(listed)} allowed")
    return 1 if listed else 0


def allowed_keys(text: str) -> list[re.Pattern[str]]:
    """Return the patterns of a list of allowed differences. Raises SystemExit where a line has
    no reason.
    """
    patterns = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith(TEXT):
            continue
        key, separator, reason = line.partition("  # ")
        if not separator or not reason.strip():
            sys.exit(
                f"line {number} of the allowed differences has no reason: {line!r} (form: 'file: "
                "key  # reason')"
            )
        patterns.append(re.compile(re.escape(key.strip()).replace(r"\*", ".*"), re.DOTALL))
    return patterns


def allowed_texts(text: str) -> list[tuple[str, str]]:
    """Return the pairs of former and new texts of a list of allowed differences.

    A line is ``text: FORMER => NEW``. A value that differs in these texts only is allowed. Raises
    SystemExit where a line has no new text.
    """
    pairs = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(TEXT):
            former, separator, new = line.removeprefix(TEXT).partition(" => ")
            if not separator or not former.strip():
                sys.exit(f"line {number} of the allowed differences: text: FORMER => NEW")
            pairs.append((former.strip(), new.strip()))
    return pairs


def replaced(value: str, texts: Sequence[tuple[str, str]]) -> str:
    """Return ``value`` with each former text replaced by the new one."""
    for former, new in texts:
        value = value.replace(former, new)
    return value


def differences(
    before: Path, after: Path, *, only: Sequence[str] = ("*",), optional: Sequence[str] = ()
) -> Iterator[Difference]:
    """Yield each key whose value differs, in files of both folders."""
    for name in sorted(files(before) | files(after)):
        if not is_compared(name, only, optional):
            continue
        one, other = entries_of(before / name), entries_of(after / name)
        for entry in [*one, *(entry for entry in other if entry not in one)]:
            if entry in one and entry in other:
                yield from _differing(name, one[entry], other[entry])
            else:
                yield Difference(name, entry, _counted(one.get(entry)), _counted(other.get(entry)))


def _differing(name: str, one: dict[str, str], other: dict[str, str]) -> Iterator[Difference]:
    befores, afters = _lists_of(one), _lists_of(other)
    for key in [*befores, *(key for key in afters if key not in befores)]:
        before, after = befores.get(key, []), afters.get(key, [])
        for first, last, start, end in _blocks(before, after):
            if before[first:last] != after[start:end]:
                shown = f"{key[:-1]}{first}]" if key.endswith("[]") else key
                yield Difference(
                    name,
                    shown,
                    ", ".join(before[first:last]) or ABSENT,
                    ", ".join(after[start:end]) or ABSENT,
                )


def _lists_of(leaves: dict[str, str]) -> dict[str, list[str]]:
    """Return the items of each list by its key and ``[]``, and other values as lists of one."""
    lists: dict[str, list[str]] = {}
    for key, value in leaves.items():
        lists.setdefault(f"{key[: key.rindex('[')]}[]" if key.endswith("]") else key, []).append(
            value
        )
    return lists


def _blocks(before: list[str], after: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield what is compared with what: by position, or where items were added or removed by the
    longest common parts.
    """
    if len(before) == len(after):
        return ((number, number + 1, number, number + 1) for number in range(len(before)))
    return (
        block[1:] for block in SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    )


def _counted(leaves: dict[str, str] | None) -> str:
    if leaves is None:
        return ABSENT
    return next(iter(leaves.values())) if len(leaves) == 1 else f"({len(leaves)} values)"


def files(folder: Path) -> set[str]:
    """Return the names of a snapshot's files."""
    if not folder.is_dir():
        sys.exit(f"{folder} is no folder")
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def is_compared(name: str, only: Sequence[str], optional: Sequence[str]) -> bool:
    """Return whether a file is compared."""
    for option, (patterns, _) in OPTIONAL.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            return option in optional
    return name not in NEVER and any(fnmatchcase(name, pattern) for pattern in only)


def entries_of(path: Path) -> dict[str, dict[str, str]]:
    """Return the values of each entry of a file by their keys: an entry is a first-level key, or
    a whole text.
    """
    if not path.exists():
        return {}
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        return {"": {f"line[{number}]": line for number, line in enumerate(text.splitlines(), 1)}}
    content = json.loads(text)
    return {
        name: dict(leaves(part, name))
        for name, part in (content if isinstance(content, dict) else {"": content}).items()
    }


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield (key, value as JSON) of each leaf; an empty list or object is one, and a list of
    values in a list.
    """
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from leaves(part, f"{key} › {name}" if key else name)
    elif (
        isinstance(value, list)
        and value
        and not (key.endswith("]") and not any(isinstance(part, dict | list) for part in value))
    ):
        for number, part in enumerate(value):
            yield from leaves(part, f"{key}[{number}]")
    else:
        yield key, json.dumps(value, ensure_ascii=False, sort_keys=True)
