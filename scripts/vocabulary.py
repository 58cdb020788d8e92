"""Measure the vocabulary of code and texts, and the size of modules and templates.

  python scripts/vocabulary.py                        all figures, with their bounds and goals
  python scripts/vocabulary.py --list CHECK [PATH]    offenders of one check, all or below one path
  python scripts/vocabulary.py --words CHECK [PATH]   the same, counted by word
  python scripts/vocabulary.py --per-folder           names and their rate in each folder
  python scripts/vocabulary.py --docs PATH            text rate of a folder of .md, .rst, .html

How it is counted. The lists are text files in tests/vocabulary. limits.toml in the same folder
has a bound and a goal for each check; tests/test_vocabulary.py fails above the bound. A check
without a bound is reported only.

Code is every .py file of apps, labcarbon, collector, scripts, benchmarks and the test helpers
(modules of tests/ whose name does not start with test_). Migrations are left out.

names_assigned: every place that binds a name: assignments, annotations, targets of for, with,
  except, :=, match and comprehensions, class attributes, attributes of self and cls, arguments of
  functions and lambdas, import aliases. A name that is bound twice counts twice. self, cls, _ and
  names in double underscores do not count. A name is an offender if a part of it is in names.txt.
  Parts end at underscores and at the humps of CamelCase: "shower" does not contain "show". Names
  in allowed_names.txt are no offenders. In percent.
names_defined: the same for the names of functions, methods and classes. In percent.
names_tests: the same for functions and classes of test modules. In percent.
text_docs: words of all .md files. Code blocks, inline code, link targets, HTML tags and comments
  do not count.
text_templates: visible text, attributes that are shown or read aloud, and quoted texts inside
  template tags.
text_cli: strings given to argparse (help, description, epilog, usage, title), the help of
  management commands, and docstrings of modules that a parser shows.
text_messages: all other strings with a space in apps, labcarbon and collector. An f-string is one
  string with a gap for each expression. SQL does not count.
text: these four together. Reported only; each of them has its own bound.
text_docstrings, text_comments: docstrings and comments of all code.
  All text checks count words of text.txt per 10 000 words, in any case. Identifiers with an
  underscore, --options, paths, URLs, {placeholders} and `quoted code` are no words.
module_names: modules and packages of code that end in -ing or -ed, unless the last part is in
  module_names.txt.
module_lines: modules of more than 600 lines, tests included.
folder_modules: folders of more than 21 modules, without tests. __init__ does not count.
template_line_mean: mean length of the lines of all templates that are not blank.
template_long_lines: lines of templates of more than 240 characters.
template_links: href, src, action, formaction and hx-* attributes, and strings in template tags,
  that begin with a literal slash.
python_links: strings of apps/dashboard that begin with an internal path, such as "/runs/".
python_links_elsewhere: the same in the rest of apps and labcarbon, API addresses included.
request_post: uses of .POST outside modules named forms*.py and folders named forms.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

from scripts.vocabulary_python import Literal, PythonModule, name_parts
from scripts.vocabulary_texts import (
    READERS,
    Piece,
    document_pieces,
    template_links,
    template_pieces,
    words,
)

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "tests" / "vocabulary"
CODE = ("apps", "labcarbon", "collector", "scripts", "benchmarks", "tests")
MESSAGES = ("apps", "labcarbon", "collector")
MODULE_LINES = 600
FOLDER_MODULES = 21
TEMPLATE_LINE = 240

PERCENT = "%"
PER_10_000 = "per 10 000"
UNITS = {
    "names_assigned": PERCENT,
    "names_defined": PERCENT,
    "names_tests": PERCENT,
    "text": PER_10_000,
    "text_docs": PER_10_000,
    "text_templates": PER_10_000,
    "text_cli": PER_10_000,
    "text_messages": PER_10_000,
    "text_docstrings": PER_10_000,
    "text_comments": PER_10_000,
    "module_names": "modules",
    "module_lines": "modules",
    "folder_modules": "folders",
    "template_line_mean": "characters",
    "template_long_lines": "lines",
    "template_links": "links",
    "python_links": "links",
    "python_links_elsewhere": "links",
    "request_post": "uses",
}
_SCALES = {PERCENT: 100, PER_10_000: 10_000}
_TEXTS = ("text_docs", "text_templates", "text_cli", "text_messages")  # together the check "text"
_SKIPPED_FOLDERS = frozenset({"__pycache__", "build", "dist", "node_modules", "var"})


@dataclass(frozen=True, order=True)
class Offender:
    """One place to change."""

    path: str
    line: int
    word: str
    detail: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.detail}"


@dataclass
class Figure:
    """The result of one check."""

    check: str
    offenders: list[Offender] = field(default_factory=list)
    totals: Counter[str] = field(default_factory=Counter)  # names or words of each file
    mean: float | None = None

    @property
    def unit(self) -> str:
        return UNITS[self.check]

    @property
    def total(self) -> int:
        return self.totals.total()

    @property
    def value(self) -> float:
        if self.mean is not None:
            return self.mean
        return rate(len(self.offenders), self.total, self.unit)

    def offenders_below(self, path: str = "") -> list[Offender]:
        """Return the offenders of a file or folder, sorted by file and line."""
        return sorted(offender for offender in self.offenders if is_below(offender.path, path))

    def report(self, limit: Limit) -> str:
        """Return the figure and its offenders, grouped by file."""
        limits = f"limit {limit.bound:g}, goal {limit.goal:g}"
        lines = [f"{self.check} is {self.value:.2f} {self.unit}; {limits}"]
        if self.total:
            lines.append(f"{len(self.offenders)} of {self.total}:")
        for offender in self.offenders_below():
            if offender.path not in lines:
                lines.append(offender.path)
            lines.append(f"  {offender}")
        return "\n".join(lines)


def rate(count: int, total: int, unit: str) -> float:
    """Return a count in its unit; a share of nothing is 0."""
    if unit not in _SCALES:
        return float(count)
    return _SCALES[unit] * count / total if total else 0.0


def is_below(path: str, folder: str) -> bool:
    folder = folder.removeprefix("./").rstrip("/")
    return folder in {"", "."} or path == folder or path.startswith(f"{folder}/")


@dataclass(frozen=True)
class Limit:
    bound: float
    goal: float


def read_limits(folder: Path = LISTS) -> dict[str, Limit]:
    """Return the bound of today and the goal of each check."""
    tables = tomllib.loads((folder / "limits.toml").read_text(encoding="utf-8"))
    return {check: Limit(**table) for check, table in tables.items()}


def read_list(path: Path) -> dict[str, str]:
    """Return the entries of a list with their comments."""
    lines = (line.partition("#") for line in path.read_text(encoding="utf-8").splitlines())
    return {entry.strip(): comment.strip() for entry, _, comment in lines if entry.strip()}


class Lists:
    """The committed word lists."""

    def __init__(self, folder: Path = LISTS) -> None:
        self.names = read_list(folder / "names.txt")
        self.text = read_list(folder / "text.txt")
        self.allowed_names = read_list(folder / "allowed_names.txt")
        self.module_names = read_list(folder / "module_names.txt")

    def listed_part(self, name: str) -> str | None:
        """Return the part of a name for which it is an offender."""
        if name in self.allowed_names:
            return None
        return next((part for part in name_parts(name) if part in self.names), None)

    def is_participle(self, module: str) -> bool:
        """Say whether a module name ends in -ing or -ed and is not allowed."""
        return module.endswith(("ing", "ed")) and module.rpartition("_")[2] not in self.module_names


class Tree:
    """A checkout and the figures of its files."""

    def __init__(self, root: Path = ROOT, lists: Lists | None = None) -> None:
        self._root = root
        self._lists = lists or Lists()
        self._figures = {check: Figure(check) for check in UNITS}

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """Return the figure of every check."""
        for path in self._files(CODE, ".py"):
            if path.parent.name != "migrations":
                self._measure_module(path)
        self._measure_folders()
        for path in sorted(
            [*self._root.glob("*.md"), *self._files(("docs", "deploy", *CODE), ".md")]
        ):
            self._count_words("text_docs", path, document_pieces(path))
        self._measure_templates()
        total = self._figures["text"]
        for part in (self._figures[check] for check in _TEXTS):
            total.offenders += part.offenders
            total.totals += part.totals
        return self._figures

    def _files(self, folders: Iterable[str], *suffixes: str) -> Iterator[Path]:
        for folder in folders:
            for parent, subfolders, names in os.walk(self._root / folder):
                subfolders[:] = sorted(name for name in subfolders if _is_ours(name))
                yield from (
                    Path(parent) / name for name in sorted(names) if Path(name).suffix in suffixes
                )

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _is_in(self, path: Path, folders: Iterable[str]) -> bool:
        name = self._name(path)
        return any(is_below(name, folder) for folder in folders)

    def _add(self, check: str, path: Path, line: int, word: str, detail: str) -> None:
        self._figures[check].offenders.append(Offender(self._name(path), line, word, detail))

    def _measure_module(self, path: Path) -> None:
        source = path.read_text(encoding="utf-8")
        module = PythonModule(source)
        line_count = source.count("\n")
        if line_count > MODULE_LINES:
            self._add("module_lines", path, line_count, path.stem, f"{line_count} lines")
        if self._is_in(path, ["tests"]) and path.stem.startswith("test_"):
            self._count_names("names_tests", path, module.definitions())
            return
        self._count_names("names_assigned", path, module.bindings())
        self._count_names("names_defined", path, module.definitions())
        if self._lists.is_participle(path.stem):
            self._add("module_names", path, 1, path.stem, path.stem)
        self._count_words("text_comments", path, module.comments())
        self._count_literals(path, module.literals)
        is_form = path.stem.startswith("forms") or path.parent.name == "forms"
        if not is_form and self._is_in(path, ("apps", "labcarbon")):
            for line in module.post_uses():
                self._add("request_post", path, line, "POST", "request.POST")

    def _count_names(self, check: str, path: Path, names: Iterable[tuple[int, str]]) -> None:
        count = 0
        for line, name in names:
            count += 1
            part = self._lists.listed_part(name)
            if part is not None:
                self._add(check, path, line, part, name)
        self._figures[check].totals[self._name(path)] += count

    def _count_literals(self, path: Path, literals: Sequence[Literal]) -> None:
        for kind, check in (("docstring", "text_docstrings"), ("cli", "text_cli")):
            self._count_words(
                check, path, [(each.line, each.text) for each in literals if each.kind == kind]
            )
        if self._is_in(path, MESSAGES):
            messages = [(each.line, each.text) for each in literals if each.is_message()]
            self._count_words("text_messages", path, messages)
        if self._is_in(path, ("apps", "labcarbon")):
            check = (
                "python_links"
                if self._is_in(path, ["apps/dashboard"])
                else "python_links_elsewhere"
            )
            for literal in literals:
                if literal.is_internal_path():
                    self._add(check, path, literal.line, literal.text, literal.text[:TEMPLATE_LINE])

    def _count_words(self, check: str, path: Path, pieces: Iterable[Piece]) -> None:
        count = 0
        for first_line, text in pieces:
            for line, word in words(text):
                count += 1
                if word in self._lists.text:
                    excerpt = _excerpt(text.split("\n")[line], word)
                    self._add(check, path, first_line + line, word, f"{word}  «{excerpt}»")
        self._figures[check].totals[self._name(path)] += count

    def _measure_folders(self) -> None:
        modules: Counter[Path] = Counter()
        packages = set()
        for path in self._files(CODE, ".py"):
            if path.parent.name == "migrations":
                continue
            packages.add(path.parent)
            if path.stem != "__init__" and not self._is_in(path, ["tests"]):
                modules[path.parent] += 1
        for folder, count in modules.items():
            if count > FOLDER_MODULES:
                self._add("folder_modules", folder, count, folder.name, f"{count} modules")
        for folder in packages:
            if self._lists.is_participle(folder.name):
                self._add("module_names", folder, 1, folder.name, f"{folder.name}/")

    def _measure_templates(self) -> None:
        lengths = []
        for path in self._files(("templates", "apps"), ".html", ".txt"):
            if not self._is_in(path, ["templates"]) and "/templates/" not in self._name(path):
                continue
            self._count_words("text_templates", path, template_pieces(path))
            if path.suffix != ".html":
                continue
            source = path.read_text(encoding="utf-8")
            for line, link in template_links(source):
                self._add("template_links", path, line, link, link[:TEMPLATE_LINE])
            lines = source.splitlines()
            lengths += [len(line) for line in lines if line.strip()]
            for number, length in enumerate(map(len, lines), start=1):
                if length > TEMPLATE_LINE:
                    self._add(
                        "template_long_lines", path, number, path.name, f"{length} characters"
                    )
        self._figures["template_line_mean"].mean = sum(lengths) / len(lengths) if lengths else 0.0


def _is_ours(folder: str) -> bool:
    return (
        folder not in _SKIPPED_FOLDERS
        and not folder.startswith(".")
        and not folder.endswith(".egg-info")
    )


def _excerpt(line: str, word: str) -> str:
    start = max(line.lower().find(word) - 30, 0)
    return " ".join(line[start : start + 80].split())


# ---- Command line ----


def print_table(figures: dict[str, Figure]) -> None:
    limits = read_limits()
    print(f"{'check':24}{'value':>9} {'unit':12}{'bound':>8}{'goal':>7}{'offenders':>11}{'of':>9}")
    for check, figure in figures.items():
        limit = limits.get(check)
        bound, goal = (f"{limit.bound:g}", f"{limit.goal:g}") if limit else ("–", "–")
        counts = f"{len(figure.offenders):11}{figure.total or '':>9}"
        print(f"{check:24}{figure.value:9.2f} {figure.unit:12}{bound:>8}{goal:>7}{counts}")


def print_folders(figures: dict[str, Figure]) -> None:
    """Print listed names, all names and their rate in each folder, most first."""
    checks = ("names_assigned", "names_defined")
    bad = {
        check: Counter(_folder(offender.path) for offender in figures[check].offenders)
        for check in checks
    }
    totals: dict[str, Counter[str]] = {check: Counter() for check in checks}
    for check in checks:
        for path, count in figures[check].totals.items():
            totals[check][_folder(path)] += count
    print(f"{'assigned':>9}{'of':>7}{'%':>7}{'defined':>9}{'of':>7}{'%':>7}  folder")
    for folder in sorted(totals[checks[0]], key=lambda name: (-bad[checks[0]][name], name)):
        counts = [(bad[check][folder], totals[check][folder]) for check in checks]
        if not any(total for _, total in counts):
            continue
        cells = "".join(
            f"{some:9}{total:7}{rate(some, total, PERCENT):7.2f}" for some, total in counts
        )
        print(f"{cells}  {folder}")


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def print_words(offenders: Iterable[Offender]) -> None:
    for word, count in Counter(offender.word for offender in offenders).most_common():
        print(f"{count:6} {word}")


def print_docs(folder: Path) -> None:
    """Print the text rate of a folder of docs, or of one file."""
    listed = Lists().text
    paths = [folder] if folder.is_file() else sorted(folder.rglob("*"))
    paths = [path for path in paths if path.is_file() and path.suffix in READERS]
    counts: Counter[str] = Counter()
    for path in paths:
        for _, text in document_pieces(path):
            counts.update(word for _, word in words(text))
    hits = {word: count for word, count in counts.most_common() if word in listed}
    count, total = sum(hits.values()), counts.total()
    print(f"{rate(count, total, PER_10_000):.2f} {PER_10_000}: {count} of {total} words")
    print(f"{len(paths)} files; " + ", ".join(f"{word} {count}" for word, count in hits.items()))


def main() -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends quietly when its reader does, such as head
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument(
        "--list", choices=UNITS, metavar="CHECK", help="print the offenders of a check"
    )
    choice.add_argument(
        "--words", choices=UNITS, metavar="CHECK", help="count the offenders of a check by word"
    )
    choice.add_argument(
        "--per-folder", action="store_true", help="print the rate of names in each folder"
    )
    choice.add_argument(
        "--docs", type=Path, metavar="PATH", help="print the text rate of a folder of docs"
    )
    parser.add_argument(
        "path", nargs="?", default="", metavar="PATH", help="with --list and --words: only below it"
    )
    options = parser.parse_args()
    if options.docs:
        print_docs(options.docs)
        return
    figures = Tree().figures
    if options.list:
        print(*figures[options.list].offenders_below(options.path), sep="\n")
    elif options.words:
        print_words(figures[options.words].offenders_below(options.path))
    elif options.per_folder:
        print_folders(figures)
    else:
        print_table(figures)


if __name__ == "__main__":
    main()
