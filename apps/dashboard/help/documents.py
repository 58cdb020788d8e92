"""The documents of ``docs/`` as HTML: anchors of headings, links between documents, sections.

Each document is read and rendered once per process. HTML within a document is displayed as text.
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from apps.trackers.registry import NAMES as TRACKERS

FOLDER = Path(settings.BASE_DIR) / "docs"
DEVELOPERS = "Developers"
_FOLDERS = ("", "development", "adr")
_CHAPTERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Set up", ("install", "collector", "nodes", "sites", "sign-in", "people")),
    (
        "Runs and duplicates",
        ("runs", "duplicates", "fingerprint", "slurm", "wandb", *TRACKERS),
    ),
    (
        "Figures",
        (
            "methodology",
            "change",
            "scopes",
            "market-based",
            "costs",
            "budgets",
            "statements",
            "factors",
            "factor-providers",
            "greener-hours",
            "planner",
            "attribution",
            "activities",
            "cloud-bills",
            "glossary",
        ),
    ),
    ("Hardware", ("assets", "asset-sources", "catalog", "replacement")),
    ("Artifacts", ("artifacts",)),
    ("Operation", ("sizing", "performance", "data-flow", "archive-format", "compatibility")),
)


@dataclass(frozen=True)
class Section:
    """A heading with its level and anchor, and the text up to the next heading."""

    title: str
    level: int
    anchor: str
    text: str


@dataclass(frozen=True)
class Document:
    """A rendered document. ``name``: its path below ``docs/`` without ``.md``. The first of
    ``sections`` is its title.
    """

    name: str
    title: str
    html: SafeString
    sections: tuple[Section, ...]
    pictures: frozenset[str]

    @property
    def href(self) -> str:
        return reverse("help-document", args=[self.name])

    @property
    def anchors(self) -> frozenset[str]:
        return frozenset(section.anchor for section in self.sections)

    @property
    def contents(self) -> list[Section]:
        """The sections of the table of contents."""
        return [section for section in self.sections if section.level == 2]


@dataclass(frozen=True)
class Chapter:
    """Documents of one subject."""

    title: str
    documents: list[Document]


@cache
def document_names() -> tuple[str, ...]:
    """Return the names of all documents, those for developers last."""
    return tuple(
        path.relative_to(FOLDER).with_suffix("").as_posix()
        for folder in _FOLDERS
        for path in sorted((FOLDER / folder).glob("*.md"))
    )


@cache
def document(name: str) -> Document | None:
    """Return a document, or None."""
    if name not in document_names():
        return None
    return _rendered(name, (FOLDER / f"{name}.md").read_text(encoding="utf-8"))


@cache
def chapters() -> tuple[Chapter, ...]:
    """Return all documents by chapter. A document without a chapter is for developers."""
    assigned = {name for _, names in _CHAPTERS for name in names}
    rest = tuple(name for name in document_names() if name not in assigned)
    return tuple(
        Chapter(title, [each for name in names if (each := document(name))])
        for title, names in (*_CHAPTERS, (DEVELOPERS, rest))
    )


@cache
def pictures() -> frozenset[str]:
    """Return the names of the pictures of all documents."""
    return frozenset().union(
        *(each.pictures for chapter in chapters() for each in chapter.documents)
    )


def slug(title: str, taken: Sequence[str] = ()) -> str:
    """Return the anchor of a heading, as GitHub forms it."""
    anchor = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
    number = 0
    unique = anchor
    while unique in taken:
        number += 1
        unique = f"{anchor}-{number}"
    return unique


_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


def _table_open(renderer: Any, tokens: Sequence[Token], i: int, options: Any, env: Any) -> str:
    label = renderer.renderAttrs(tokens[i])
    return f'<div class="wrap" tabindex="0" role="region"{label}><table>'


_MARKDOWN.add_render_rule("table_open", _table_open)
_MARKDOWN.add_render_rule("table_close", lambda *_: "</table></div>")


def _rendered(name: str, text: str) -> Document:
    tokens = _MARKDOWN.parse(text)
    sections = list(_sections(tokens))
    for heading, section in zip(_headings(tokens), sections, strict=True):
        heading.attrSet("id", section.anchor)
    linked: set[str] = set()
    title = sections[0].title if sections else name
    label = title
    for i, token in enumerate(tokens):
        if token.type == "heading_open":
            label = _plain(tokens[i + 1])
        elif token.type == "table_open":
            token.attrSet("aria-label", f"Table: {label}")
        elif token.type in {"fence", "code_block"}:
            token.attrSet("tabindex", "0")
        elif token.type == "inline":
            _rewrite(name, token.children or [], linked)
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    safe = mark_safe(html)  # noqa: S308  # rendered from our own documents, without their HTML
    return Document(name, title, safe, tuple(sections), frozenset(linked))


def html_of(text: str) -> SafeString:
    """Return Markdown of the program itself as HTML, with links to documents."""
    return _rendered("", text).html


def _headings(tokens: Sequence[Token]) -> list[Token]:
    return [token for token in tokens if token.type == "heading_open"]


def _sections(tokens: Sequence[Token]) -> Iterator[Section]:
    starts = [i for i, token in enumerate(tokens) if token.type == "heading_open"]
    taken: list[str] = []
    for start, end in zip(starts, [*starts[1:], len(tokens)]):
        title = _plain(tokens[start + 1])
        taken.append(slug(title, taken))
        text = " ".join(filter(None, map(_plain, tokens[start + 3 : end])))
        yield Section(title, int(tokens[start].tag[1:]), taken[-1], text)


def _plain(token: Token) -> str:
    """Return the text of a token."""
    if token.type in {"fence", "code_block"}:
        return token.content.strip()
    return "".join(
        part.content if part.type in {"text", "code_inline"} else " "
        for part in token.children or []
        if part.type in {"text", "code_inline", "softbreak", "hardbreak"}
    )


def _rewrite(name: str, parts: Sequence[Token], linked: set[str]) -> None:
    """Replace the addresses of documents and pictures. A link to another file of the repository
    becomes plain text.
    """
    is_text = False
    for part in parts:
        if part.type == "link_open":
            href = _href(name, str(part.attrGet("href") or ""))
            is_text = not href
            part.attrs = {"href": href} if href else {}
            part.tag = "a" if href else "span"
        elif part.type == "link_close" and is_text:
            part.tag, is_text = "span", False
        elif part.type == "image":
            picture = posixpath.basename(str(part.attrGet("src") or "")).removesuffix(".png")
            linked.add(picture)
            part.attrSet("src", reverse("help-picture", args=[picture]))
            part.attrSet("loading", "lazy")


def _href(name: str, target: str) -> str:
    """Return the address of a link in document ``name``; '' if its target is not served."""
    if re.match(r"https?:", target) or target.startswith("#"):
        return target
    path, hash_, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
    linked = path.removesuffix(".md")
    if path.endswith(".md") and linked in document_names():
        return reverse("help-document", args=[linked]) + hash_ + anchor
    return ""
