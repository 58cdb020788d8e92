"""Search in the documents: sections that contain all words, best match first."""

from dataclasses import dataclass
from functools import cache

from apps.dashboard.help.documents import DEVELOPERS, Document, Section, chapters

_BEFORE, _LENGTH = 50, 180


@dataclass(frozen=True)
class HelpHit:
    """A section that matches. ``excerpt``: the text around the first word."""

    document: Document
    section: Section
    excerpt: str

    @property
    def href(self) -> str:
        return f"{self.document.href}#{self.section.anchor}"

    @property
    def title(self) -> str:
        return self.section.title


@cache
def _index() -> tuple[tuple[Document, Section, str, str, bool], ...]:
    """Return each section with its folded heading and text, and whether it is for developers."""
    return tuple(
        (
            document,
            section,
            section.title.casefold(),
            f"{document.title} {section.title} {section.text}".casefold(),
            chapter.title == DEVELOPERS,
        )
        for chapter in chapters()
        for document in chapter.documents
        for section in document.sections
    )


def search_help(text: str, limit: int) -> list[HelpHit]:
    """Return the sections that contain all words of ``text``: those with the words in their
    heading first, those for developers last.
    """
    words = text.casefold().split()
    if not words:
        return []
    ranked = [
        (for_developers, -sum(word in heading for word in words), i, document, section)
        for i, (document, section, heading, content, for_developers) in enumerate(_index())
        if all(word in content for word in words)
    ]
    return [
        HelpHit(document, section, _excerpt(section.text, words[0]))
        for _, _, _, document, section in sorted(ranked, key=lambda row: row[:3])[:limit]
    ]


def _excerpt(text: str, word: str) -> str:
    at = max(text.casefold().find(word), 0)
    start = text.rfind(" ", 0, max(at - _BEFORE, 0)) + 1 if at > _BEFORE else 0
    part = text[start : start + _LENGTH]
    return ("… " if start else "") + part + (" …" if start + _LENGTH < len(text) else "")
