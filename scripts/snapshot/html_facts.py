"""Facts of a page: exact values in data attributes, charts, forms, links, visible text."""

import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

# Attributes that carry an exact value, or mark an element whose text is one.
EXACT = {
    f"data-{name}"
    for name in (
        "figure",
        "value",
        "embodied",
        "explain-value",
        "ug",
        "would",
        "range",
        "rate",
        "part",
        "factor",
        "coverage",
        "quoted",
        "total",
        "window",
        "entry",
        "scope",
        "profile",
        "pack",
    )
}
_VOID = {
    "area",
    "base",
    "br",
    "col",
    "embed",
    "hr",
    "img",
    "input",
    "link",
    "meta",
    "source",
    "track",
    "wbr",
}
_NUMBER = re.compile(r"\d+(?:[., ]\d+)*")
_SECRET = re.compile(r'(name="csrfmiddlewaretoken" value=")\w+|(nonce-)[\w+/=]+')


@dataclass
class PageFacts:
    """The facts of one page."""

    values: list[str] = field(default_factory=list)
    charts: dict[str, Any] = field(default_factory=dict)
    forms: list[dict[str, Any]] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    queries: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.facts = PageFacts()
        self._open: list[tuple[str, int | None, list[str]]] = []
        self._chart = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self._note_links(tag, attributes)
        self._note_forms(tag, attributes)
        exact = {name: value for name, value in attributes.items() if name in EXACT}
        place = None
        if exact:
            title = " ".join(numbers_in(attributes.get("title", "")))
            words = [
                f"{name[5:]}={value}" if value else name[5:]
                for name, value in sorted(exact.items())
            ]
            place = len(self.facts.values)
            self.facts.values.append(" ".join(words) + (f" title: {title}" if title else ""))
        if tag == "script" and attributes.get("type") == "application/json":
            self._chart = attributes.get("id", "script")
        if tag not in _VOID:
            self._open.append((tag, place, []))

    def _note_links(self, tag: str, attributes: dict[str, str]) -> None:
        self.facts.links += [
            attributes[name]
            for name in ("href", "hx-get")
            if attributes.get(name) and tag != "link"
        ]
        if attributes.get("href", "").startswith("/explain/?"):
            self.facts.queries.append(attributes["href"].partition("?")[2])

    def _note_forms(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "form":
            self.facts.forms.append(
                {
                    "action": attributes.get("action", ""),
                    "method": attributes.get("method", "get"),
                    "fields": [],
                }
            )
        elif (
            tag in ("input", "select", "textarea", "button")
            and attributes.get("name")
            and self.facts.forms
        ):
            kind = attributes.get("type", tag)
            fields = self.facts.forms[-1]["fields"]
            if (entry := [attributes["name"], kind]) not in fields:
                fields.append(entry)

    def handle_endtag(self, tag: str) -> None:
        if not any(name == tag for name, _, _ in self._open):
            return
        while self._open:
            name, place, words = self._open.pop()
            if place is not None and (numbers := " | ".join(numbers_in(" ".join(words)))):
                self.facts.values[place] += f" text: {numbers}"
            if name == tag:
                break
        self._chart = ""

    def handle_data(self, data: str) -> None:
        if self._chart:
            self.facts.charts[self._chart] = numbers_of(json.loads(data))
        elif not any(tag in ("script", "style") for tag, _, _ in self._open) and data.strip():
            self.facts.text.append(" ".join(data.split()))
            for _, place, words in self._open:
                if place is not None:
                    words.append(data)


def numbers_in(text: str) -> list[str]:
    """Return the numbers of a text. How a template is indented makes no difference."""
    return _NUMBER.findall(re.sub(r"\s+", " ", text))


def numbers_of(value: Any) -> list[Any]:
    """Return all numbers of a chart in their order; keys and labels may be renamed."""
    if isinstance(value, dict):
        return [number for key in sorted(value) for number in numbers_of(value[key])]
    if isinstance(value, list):
        return [number for part in value for number in numbers_of(part)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def facts_of(html: str) -> PageFacts:
    """Return the facts of a page."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.facts


def folded(html: str) -> str:
    """Return a page with whitespace folded and without random tokens, a tag a line."""
    html = _SECRET.sub(lambda match: (match[1] or match[2]) + "(random)", html)
    html = re.sub(r"\s+", " ", html)
    return re.sub(r" ?(<[^>]*>) ?", r"\n\1\n", html).replace("\n\n", "\n").strip()
