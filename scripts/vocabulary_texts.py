"""Words of docs and templates without their markup, for scripts/vocabulary.py.

Markup is replaced by spaces, so that a word stays on its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

Piece = tuple[int, str]  # line of its first character, text

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_NO_WORD = re.compile(
    r"Authorization: Bearer\b|\bBearer (?=[{<…]|tokens?\b)"  # the scheme of HTTP
    r"|https?://\S+|(?<![\w-])--?[a-zA-Z][\w-]*|`[^`\n]*`|\{[^{}\n]*\}|\w*_\w*"
    r"|(?<![\w<])/[\w/.*?=&~-]+"
)

_FENCE = re.compile(r"^([ \t]*)(```+|~~~+).*?(?:^[ \t]*\2[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_MARKDOWN = re.compile(
    r"<!--.*?-->"
    r"|(?P<ticks>`+)(?:(?!\n[ \t]*\n).)+?(?P=ticks)"  # inline code, which never spans a blank line
    r"|(?<=\])\([^()\s]*(?:\s+\"[^\"]*\")?\)"  # the target of a link
    r"|^[ \t]*\[[^\]]+\]:\s.*?$"  # a reference
    r"|<[a-zA-Z/][^<>\n]*>",
    re.MULTILINE | re.DOTALL,
)
_RST = re.compile(
    r"^([ \t]*)\.\. (?:code|code-block|sourcecode|parsed-literal|math|literalinclude|highlight"
    r"|toctree|image|raw|index|module|currentmodule|productionlist)"
    r"::.*\n(?:(?:\1[ \t]+.*|[ \t]*)\n)*"
    r"|``[^`]+``"
    r"|^[ \t]*\.\. (?:_.*|\[.*|[\w-]+::)"
    r"|^[ \t]*:[\w -]+:(?=[ \t]|$)"
    r"|:[\w:.-]+:(?=`)(?:`[^`<]*`)?"  # a role, with its target unless it has a text of its own
    r"|<[^<>\n]*>`_*",
    re.MULTILINE,
)
_RST_LITERAL = re.compile(
    r"^([ \t]*)(\S[^\n]*)::[ \t]*\n(?:[ \t]*\n)+((?:\1[ \t]+.*\n|[ \t]*\n)+)", re.MULTILINE
)

_TEMPLATE_COMMENT = re.compile(
    r"\{% comment.*?%\}.*?\{% endcomment %\}|\{#.*?#\}|<!--.*?-->", re.DOTALL
)
_TEMPLATE_TAG = re.compile(r"\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
_QUOTED = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_URL_TAG = re.compile(r"\{%\s*(?:url|static|media|get_static_prefix)\b|\{\{")
_LINK = re.compile(r"""\b((?:form)?action|href|src|hx-[a-z]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_READ_ATTRIBUTES = frozenset({
    "alt", "aria-description", "aria-label", "aria-roledescription", "data-confirm", "data-label",
    "data-title", "hx-confirm", "hx-prompt", "label", "placeholder", "title",
})  # fmt: skip
_BUTTON_TYPES = frozenset({"submit", "button", "reset"})
_UNREAD_ELEMENTS = frozenset({"script", "style", "svg"})
_UNREAD_IN_DOCS = _UNREAD_ELEMENTS | {"code", "footer", "header", "nav", "pre"}
_MARK = "\x01"  # stands for a computed part of a link


def words(text: str) -> Iterator[tuple[int, str]]:
    """Return the words of a text in lower case, each with the number of line breaks before it."""
    prose = blank(_NO_WORD, text)
    for match in _WORD.finditer(prose):
        yield prose.count("\n", 0, match.start()), match[0].lower().replace("’", "'")


def blank(pattern: re.Pattern[str], text: str) -> str:
    """Replace what matches by spaces; line breaks stay."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def document_pieces(path: Path) -> list[Piece]:
    """Return the prose of a Markdown, reStructuredText or HTML file."""
    text = path.read_text(encoding="utf-8")
    return READERS[path.suffix](text)


def _markdown(text: str) -> list[Piece]:
    return [(1, blank(_MARKDOWN, blank(_FENCE, text)))]


def _rst(text: str) -> list[Piece]:
    def without_literal(match: re.Match[str]) -> str:
        return f"{match[1]}{match[2]}\n" + re.sub(r"[^\n]", " ", match[0].partition("\n")[2])

    text = blank(_RST, text)
    return [(1, _RST_LITERAL.sub(without_literal, text))]


def _html_page(text: str) -> list[Piece]:
    article = re.search(r"<article\b.*?</article>", text, re.DOTALL)
    start = article.start() if article else 0
    reader = _HtmlReader(_UNREAD_IN_DOCS)
    reader.feed("\n" * text.count("\n", 0, start) + (article[0] if article else text))
    reader.close()
    return reader.pieces


READERS: dict[str, Callable[[str], list[Piece]]] = {
    ".md": _markdown,
    ".rst": _rst,
    ".html": _html_page,
}


def template_pieces(path: Path) -> list[Piece]:
    """Return what a template shows, and the texts inside its tags."""
    source = blank(_TEMPLATE_COMMENT, path.read_text(encoding="utf-8"))
    pieces = [
        piece for piece in _quoted_in_tags(source) if " " in piece[1] or piece[1][:1].isupper()
    ]
    plain = blank(_TEMPLATE_TAG, source)
    if path.suffix != ".html":
        return [(1, plain), *pieces]
    reader = _HtmlReader(_UNREAD_ELEMENTS)
    reader.feed(plain)
    reader.close()
    return [*reader.pieces, *pieces]


def template_links(source: str) -> Iterator[tuple[int, str]]:
    """Return the internal links of a template that are not built by {% url %} or {% static %}."""
    source = blank(_TEMPLATE_COMMENT, source)
    for line, text in _quoted_in_tags(source):
        if re.match(r"/(?:[a-z]|$)", text):
            yield line, text

    def placeholder(match: re.Match[str]) -> str:
        return (_MARK if _URL_TAG.match(match[0]) else " ") + "\n" * match[0].count("\n")

    plain = _TEMPLATE_TAG.sub(placeholder, source)
    for match in _LINK.finditer(plain):
        value = match[2] if match[2] is not None else match[3]
        if re.search(r"(?:^|\s)/", value):
            yield (
                plain.count("\n", 0, match.start()) + 1,
                f'{match[1]}="{value.replace(_MARK, "…")}"',
            )


def _quoted_in_tags(source: str) -> Iterator[Piece]:
    for tag in _TEMPLATE_TAG.finditer(source):
        line = source.count("\n", 0, tag.start()) + 1
        for quoted in _QUOTED.finditer(tag[0]):
            yield line, quoted[1] if quoted[1] is not None else quoted[2]


class _HtmlReader(HTMLParser):
    """Collects visible text, and attributes that are shown or read aloud."""

    def __init__(self, unread: frozenset[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[Piece] = []
        self._unread = unread
        self._depth = 0  # inside elements that are not read

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self._unread:
            self._depth += 1
        self.handle_startendtag(tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        is_button = tag == "input" and dict(attrs).get("type") in _BUTTON_TYPES
        for name, value in attrs:
            if value and (name in _READ_ATTRIBUTES or (is_button and name == "value")):
                self.pieces.append((self.getpos()[0], value))

    def handle_endtag(self, tag: str) -> None:
        if tag in self._unread and self._depth:
            self._depth -= 1

    def handle_data(self, data: str) -> None:
        if not self._depth:
            self.pieces.append((self.getpos()[0], data))
