"""Seeded hostile requests for every address: bodies, forms, query strings, paths, headers and
cookies that a client can send.

The same seed yields the same requests for the same targets.
"""

# ruff: noqa: E501  (a table is read by its rows)
import gzip
import itertools
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote_from_bytes

DEEP = 2000
BODY_METHODS = ("POST", "PUT", "PATCH", "DELETE")
METHODS = (
    ("GET",) * 9 + ("POST",) * 8 + ("PUT", "PUT", "PATCH", "PATCH", "DELETE", "HEAD", "OPTIONS")
)
UUID = "7f1d3b52-2222-4333-8444-555566667777"

# Bytes as they are sent: a lone surrogate and bad UTF-8 are no text.
VALUES: tuple[bytes, ...] = (
    b"", b" ", b"\x00", b"a\x00b", b"\xed\xa0\x80", b"\xff\xfe", b"\xc3\x28", "²".encode(), "١٢".encode(),
    "\u202e".encode(), "ＮａＮ".encode(), b"0", b"-1", b"1", b"2", b"1.5", b"-0", b"1e5", b"1e400", b"NaN",
    b"Infinity", b"0x10", b"1_000", b"9" * 18, b"9" * 19, b"9" * 30, b"9" * 4500, b"1" * 700 + b".5",
    b"2147483648", b"9223372036854775807", b"9223372036854775808", b"0001-01-01", b"9999-12-31", b"1969-12-31",
    b"2300-01-01", b"2026-02-30", b"2026-11-02", b"2026-11-03", b"2026-W01-1", b"20261102",
    b"0001-01-01T00:00:00+14:00", b"9999-12-31T23:59:59-14:00", b"2026-11-02T00:00Z", b"2026-11-02T24:00",
    b"2026-11-02T00:00:00+99:99", b"24:00", b"23:59", b"lab", b"project:", b"project:ours-only", b"run:" + UUID.encode(),
    b"node:x", b"runs:,", b"person:1", b"asset:" + b"9" * 30, b"device:" + b"x" * 400, b"energy_mj", b"embodied_ug",
    b"emission_ug", b"true", b"on", b"yes", b"null", b"[]", b"{}", b"[" * DEEP, b"../../etc/passwd", b"//evil.example",
    b"javascript:x()", b"http://[::1", b"http://[v1.x]/", b"https://\xf0\x9f\x92\xa9/", b"http://a:99999/", b"' OR 1=1 --",
    b"%", b"_", b"\\", b"*(((", b"a=b", b"=", b",", b";", b".", b"-", b"a\r\nb: c", b"x" * 300, b"x" * 70_000,
    "ß".encode() * 200, UUID.encode(), UUID.replace("-", "").encode(), b"{" + UUID.encode() + b"}", b"csv", b"json",
    b"last_7_days", b"month", b"-started", b"ended", b"cD0x", b"cj0xJnA9MQ==", b"bz0xMDAwMDAwMDAwMDAwMDAw",
)  # fmt: skip
NAMES: tuple[bytes, ...] = (
    b"from", b"to", b"period", b"from_day", b"to_day", b"from_time", b"first_day", b"last_day", b"action", b"page",
    b"page_size", b"cursor", b"offset", b"before", b"sort", b"text", b"q", b"kind", b"state", b"node", b"project",
    b"person", b"run", b"id", b"metric", b"subject", b"basis", b"profile", b"group_by", b"quality", b"consumer",
    b"scope", b"device", b"hour", b"day", b"next", b"code", b"params", b"columns", b"param.lr", b"param.", b"name",
    b"shape", b"by", b"digest", b"site", b"model", b"search", b"done", b"claim", b"owner", b"ledger", b"both", b"x\x00",
    b"\xff", b"", b"a[]",
)  # fmt: skip
NUMBERS: tuple[str, ...] = (
    "0", "-0", "-1", "1", "1.5", "1e5", "1e400", "-1e400", "1e-400", "NaN", "Infinity", "9" * 19, "-" + "9" * 19,
    "9" * 30, "9" * 400, "9" * 5000, "9223372036854775807", "9223372036854775808", "2147483648", "true", "null",
)  # fmt: skip
STRINGS: tuple[str, ...] = (
    '""', '"\\ud800"', '"a\\udfffb"', '"\\u0000"', '"a\\u0000b"', '"' + "x" * 300 + '"', '"' + "x" * 70_000 + '"',
    '"\u202e"', '"0001-01-01T00:00:00+14:00"', '"9999-12-31T23:59:59-14:00"', '"2026-11-02T00:00:00Z"', '"²"',
    '"' + "9" * 5000 + '"', '"1e999999999"', '"NaN"', '"Infinity"', f'"{UUID}"', '"' + "0" * 64 + '"', '"ours-only"',
    '"running"', '"finished"',
)  # fmt: skip
CONTAINERS: tuple[str, ...] = (
    "[]", "{}", "[[]]", '{"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": 1}}}}}}}}}', '{"": ""}', '{"\\ud800": 1}',
    '{"a\\u0000": "\\u0000"}', '{"a": 1, "a": 2}', "[" * DEEP, "[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP,
    "[" * 40 + "]" * 40, "[null, null]", '[{"a": []}]', "[" + ",".join(["0"] * 3000) + "]",
)  # fmt: skip
HEADERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Cookie", (
        "sessionid=x", 'sessionid="\\000"', 'sessionid="a\\000b\\355\\240\\200"', "sessionid=" + "x" * 4000, "csrftoken=\xff",
        "=;=", "sessionid", 'messages="\\000"', "messages=" + "[" * DEEP, "messages=W10:abc:def", "sessionid=\xed\xa0\x80",
    )),
    ("Authorization", (
        "Bearer", "Bearer ", "Bearer \xff", "Bearer lc_node_" + "x" * 40, "bearer lc_user_a_b", "Basic dTpw", "Basic ===",
        "Bearer " + "x" * 4000, "Bearer lc_node_²²_x", "Token \xed\xa0\x80",
    )),
    ("Content-Type", (
        "", "application/json; charset=utf-7", "text/plain; charset=hex",
            "multipart/form-data; boundary=edge; charset=unicode_escape", "text/plain; charset=idna", "application/json; charset=nope", "application/json; charset=\xff",
        "application/json; charset=utf-16", "text/plain", "/", ";", "application/json;", "multipart/form-data",
        "multipart/form-data; boundary=", "multipart/form-data; boundary=\xff", "multipart/form-data; boundary=" + "x" * 300,
        "application/x-www-form-urlencoded; charset=utf-16", "application/x-www-form-urlencoded; charset=\x00nope", "*/*",
        "application/json; a*=utf-9''x", "application/octet-stream; charset*=x'y'z",
    )),
    ("Content-Encoding", ("gzip", "zstd", "deflate", "", "\xff", "gzip, gzip")),
    ("Accept", ("", "text/html", "application/xml", "*/*;q=x", "application/json; indent=99999999", "application/json; indent=x",
                ",", "application/*; \xff=1", "application/json; version=²")),
    ("Accept-Language", ("", "xx", "\xff", "de;q=nan", "x" * 600, "*;q=²")),
    ("Host", ("", "evil.example", "127.0.0.1:x", "[::1", "a" * 300, "testserver:99999999")),
    ("X-Forwarded-For", ("", "\xff", "x", "1.2.3.4, ::::", "a" * 3000)),
    ("X-Forwarded-Proto", ("", "http", "\xff")),
    ("HX-Request", ("true", "\xff", "")),
    ("HX-Current-URL", ("http://[", "\xff", "http://[::1/", "%ff", "x" * 3000)),
    ("HX-Current-URL-URI-AutoEncoded", ("true", "x")),
    ("HX-Target", ("\xff", "%", "x")),
    ("Referer", ("http://[", "\xff", "https://evil.example/", "x")),
    ("Origin", ("null", "http://[", "\xff", "http://evil.example:x")),
    ("If-Modified-Since", ("x", "Fri, 32 Foo 99999 99:99:99 GMT", "\xff")),
    ("If-None-Match", ('"', "W/", "\xff")),
    ("Range", ("bytes=0-", "bytes=-", "bytes=²-x")),
    ("x-api-token", ("\xff", "lc_tracker_x_y", "")),
    ("User-Agent", ("labcarbon-collect/1", "\xff", "")),
    ("X-HTTP-Method-Override", ("DELETE", "\xff")),
)  # fmt: skip


EXTREME_DATES = (b"0001-01-01", b"9999-12-31")
DATES = tuple(value for value in VALUES if re.match(rb"\d{4}-|\d{8}$|\d\d:", value))
# Parts of names of fields that take a day, a time or a period.
OF_TIME = re.compile(rb"day|from$|to$|until|hour|_on|_at|since")


@dataclass(frozen=True)
class HtmlForm:
    """A form of a page: where it is sent, and the values it would send."""

    path: str
    method: str
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Targets:
    """What requests are sent to: addresses, the forms of pages, recorded bodies, visitors."""

    addresses: Sequence[str]
    forms: Sequence[HtmlForm]
    bodies: Sequence[tuple[str, str, Any]]  # method, address, JSON
    visitors: Sequence[str]


@dataclass(frozen=True)
class HostileRequest:
    """``target``: path and query in bytes, as on the request line. Header values are latin-1."""

    number: int
    visitor: str
    method: str
    target: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def __str__(self) -> str:
        return (
            f"#{self.number} {self.visitor} {self.method} {self.target[:300]!r} "
            f"{ {name: value[:80] for name, value in self.headers.items()} } {self.body[:300]!r}"
        )


class _FormReader(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.page = page
        self.forms: list[HtmlForm] = []
        self._form: tuple[str, str] | None = None
        self._fields: list[tuple[str, str]] = []
        self._select = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = (given.get("action") or self.page, given.get("method", "get").upper())
            self._fields = []
        elif self._form is None:
            return
        elif tag == "select":
            self._select = given.get("name", "")
            self._fields.append((self._select, ""))
        elif tag == "option" and self._select and given.get("value"):
            chosen = (self._select, given["value"])
            if "selected" in given or dict(self._fields).get(self._select) == "":
                self._fields = [part for part in self._fields if part[0] != self._select] + [chosen]
        elif (
            tag in {"input", "textarea", "button"}
            and given.get("name", "csrfmiddlewaretoken") != "csrfmiddlewaretoken"
        ):
            kinds_of_choice = {"checkbox": "on", "radio": "on"}
            value = given.get("value", kinds_of_choice.get(given.get("type", ""), ""))
            self._fields.append((given["name"], value))

    def handle_endtag(self, tag: str) -> None:
        if tag == "select":
            self._select = ""
        elif tag == "form" and self._form is not None:
            path, method = self._form
            self.forms.append(HtmlForm(path, method, tuple(self._fields)))
            self._form = None


def forms_of(page: str, html: str) -> list[HtmlForm]:
    """Return the forms of a page whose address is ``page``. Those of other sites are left out."""
    reader = _FormReader(page)
    reader.feed(html)
    base = page.partition("?")[0]
    return [
        HtmlForm(
            (base + form.path if form.path.startswith("?") else form.path).partition("#")[0],
            form.method,
            form.fields,
        )
        for form in reader.forms
        if form.path.startswith(("/", "?")) and form.method in {"GET", "POST"}
    ]


def hostile_requests(targets: Targets, *, seed: int, count: int) -> Iterator[HostileRequest]:
    """Yield ``count`` requests."""
    for number in range(count):
        yield _Generator(targets, random.Random(f"{seed}:{number}")).request(number)


def extreme_dates(targets: Targets, *, visitor: str) -> Iterator[HostileRequest]:
    """Yield each form with fields of times, and each address with such a query, with the first and
    the last day that Python knows.
    """
    requests = itertools.count()
    for value in EXTREME_DATES:
        for form in targets.forms:
            fields = [(name.encode(), text.encode()) for name, text in form.fields]
            if any(OF_TIME.search(name) for name, _ in fields):
                pairs = [(name, value if OF_TIME.search(name) else text) for name, text in fields]
                yield from _sent_twice(requests, visitor, form.path, pairs)
        for address in targets.addresses:
            path = address.partition("?")[0].encode()
            for names in ((b"first_day", b"last_day"), (b"from", b"to"), (b"day", b"hour")):
                query = encode_pairs(
                    [(b"metric", b"energy_mj"), *((name, value) for name in names)]
                )
                yield HostileRequest(next(requests), visitor, "GET", path + b"?" + query)


def nul_everywhere(targets: Targets, *, visitor: str, seed: int) -> Iterator[HostileRequest]:
    """Yield each form with a NUL in all of its fields, and each address with some of the parameters
    that any page knows.
    """
    rng = random.Random(seed)
    requests = itertools.count()
    for form in targets.forms:
        fields = [(name.encode(), text.encode()) for name, text in form.fields]
        pairs = [(name, text if name == b"action" else b"a\x00b") for name, text in fields]
        yield from _sent_twice(requests, visitor, form.path, pairs)
    for address in targets.addresses:
        path, _, query = address.partition("?")
        for name in rng.sample(NAMES, 5):
            pair = encode_pairs([(name, b"a\x00b")])
            target = path.encode() + b"?" + (query.encode() + b"&" if query else b"") + pair
            yield HostileRequest(next(requests), visitor, "GET", target)


def _sent_twice(
    requests: Iterator[int], visitor: str, address: str, pairs: Sequence[tuple[bytes, bytes]]
) -> Iterator[HostileRequest]:
    """Yield a form by GET, as pages preview it, and by POST."""
    path, query = address.partition("?")[0].encode(), encode_pairs(pairs)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    yield HostileRequest(next(requests), visitor, "GET", path + b"?" + query)
    yield HostileRequest(next(requests), visitor, "POST", path, headers, query)


def encode_pairs(pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return a query string or form."""
    return b"&".join(_quote(name) + b"=" + _quote(value) for name, value in pairs)


def _quote(raw: bytes) -> bytes:
    return quote_from_bytes(raw, safe="-_.~:,").encode()


class _Generator:
    def __init__(self, targets: Targets, rng: random.Random) -> None:
        self.targets = targets
        self.rng = rng

    def request(self, number: int) -> HostileRequest:
        make = self.rng.choice(
            [self._any] * 4 + [self._form] * 4 + [self._recorded] * 4 + [self._query] * 3
        )
        method, target, headers, body = make()
        if self.rng.random() < 0.2:
            for name, values in self.rng.sample(HEADERS, self.rng.choice((1, 1, 2))):
                headers[name] = self.rng.choice(values)
        if method in BODY_METHODS and self.rng.random() < 0.05:
            body = gzip.compress(body, mtime=0)
            headers["Content-Encoding"] = "gzip"
        if method not in BODY_METHODS:
            body = b""
        visitor = self.rng.choice(self.targets.visitors)
        return HostileRequest(number, visitor, method, target, headers, body)

    def _address(self) -> bytes:
        """Return an address, sometimes with hostile parts."""
        path = self.rng.choice(self.targets.addresses).partition("?")[0]
        parts = [part.encode() for part in path.split("/")]
        if self.rng.random() < 0.25:
            places = [place for place, part in enumerate(parts) if part] or [0]
            parts[self.rng.choice(places)] = _quote(self._value()[:3000])
        return b"/".join(parts)

    def _value(self) -> bytes:
        return self.rng.choice(VALUES)

    def _value_of(self, name: bytes) -> bytes:
        """Return a value for a field, for fields of times mostly a time."""
        if OF_TIME.search(name) and self.rng.random() < 0.7:
            return self.rng.choice(EXTREME_DATES if self.rng.random() < 0.5 else DATES)
        return self._value()

    def _any(self) -> tuple[str, bytes, dict[str, str], bytes]:
        """Any method and any body at any address."""
        method = self.rng.choice(METHODS)
        kind = self.rng.choice(
            ("application/json",) * 6 + ("text/csv", "application/x-www-form-urlencoded")
        )
        return method, self._address(), {"Content-Type": kind}, self._json(3).encode()

    def _query(self) -> tuple[str, bytes, dict[str, str], bytes]:
        """A query string: names that pages and API know, with any values."""
        address = self.rng.choice(self.targets.addresses)
        path, _, query = address.partition("?")
        known = [tuple(part.encode().split(b"=", 1)) for part in query.split("&") if "=" in part]
        pairs = [(name, value) for name, value in known]
        names = [
            *NAMES,
            *(
                name.encode()
                for form in self.targets.forms
                if form.path == path
                for name, _ in form.fields
            ),
        ]
        for _ in range(self.rng.choice((1, 1, 2, 3))):
            if pairs and self.rng.random() < 0.5:
                place = self.rng.randrange(len(pairs))
                pairs[place] = (pairs[place][0], self._value_of(pairs[place][0]))
            else:
                name = self.rng.choice(names)
                pairs.append((name, self._value_of(name)))
        target = path.encode() + b"?" + encode_pairs(pairs)[:7000]
        return self.rng.choice(("GET", "GET", "GET", "HEAD", "POST")), target, {}, b""

    def _form(self) -> tuple[str, bytes, dict[str, str], bytes]:
        """A form of a page with some values replaced."""
        if not self.targets.forms:
            return self._any()
        form = self.rng.choice(self.targets.forms)
        pairs = [(name.encode(), value.encode()) for name, value in form.fields]
        chance = self.rng.choice((0.0, 0.1, 0.3, 1.0))
        pairs = [
            (
                name,
                self._value_of(name) if self.rng.random() < chance and name != b"action" else value,
            )
            for name, value in pairs
            if self.rng.random() > 0.03
        ]
        path = form.path.encode()
        if form.method == "GET" or self.rng.random() < 0.25:  # pages preview some forms by GET
            return "GET", path.partition(b"?")[0] + b"?" + encode_pairs(pairs)[:7000], {}, b""
        if self.rng.random() < 0.3:
            return (
                "POST",
                path,
                {"Content-Type": "multipart/form-data; boundary=edge"},
                self._multipart(pairs),
            )
        return (
            "POST",
            path,
            {"Content-Type": "application/x-www-form-urlencoded"},
            encode_pairs(pairs),
        )

    def _multipart(self, pairs: Sequence[tuple[bytes, bytes]]) -> bytes:
        parts = []
        for name, value in pairs:
            file = self.rng.choice(
                (b"",) * 4
                + (
                    b'; filename="a\x00.csv"',
                    b'; filename="\xff"',
                    b"; filename*=x'y'z",
                    b'; filename=""',
                )
            )
            kind = self.rng.choice(
                (b"",) * 4
                + (
                    b"\r\nContent-Type: text/csv; charset=nope",
                    b"\r\nContent-Transfer-Encoding: base64",
                )
            )
            parts.append(
                b'--edge\r\nContent-Disposition: form-data; name="'
                + name
                + b'"'
                + file
                + kind
                + b"\r\n\r\n"
                + value
            )
        end = self.rng.choice((b"\r\n--edge--\r\n",) * 5 + (b"", b"\r\n--ed"))
        return b"\r\n".join(parts) + end

    def _recorded(self) -> tuple[str, bytes, dict[str, str], bytes]:
        """A valid body of the API with some of its values replaced, or damaged as bytes."""
        method, path, body = self.rng.choice(self.targets.bodies)
        text = self._encode(body, self.rng.choice((0.03, 0.1, 0.3)))
        raw = text.encode("utf-8")
        damage = self.rng.random()
        if damage < 0.1 and raw:
            place = self.rng.randrange(len(raw))
            raw = (
                raw[:place]
                + self.rng.choice((b"\xff", b"\xed\xa0\x80", b"\x00", b"", b"[" * DEEP))
                + raw[place + 1 :]
            )
        elif damage < 0.15:
            raw = self.rng.choice(
                (
                    b"\xef\xbb\xbf" + raw,
                    raw.decode().encode("utf-16"),
                    raw * 2,
                    raw[: len(raw) // 2],
                    b"",
                )
            )
        elif damage < 0.2:
            raw = b"[" * DEEP
        return method, path.encode(), {"Content-Type": "application/json"}, raw

    def _encode(self, value: Any, chance: float) -> str:
        """Return JSON, with values replaced, keys repeated and unknown keys added by chance."""
        if self.rng.random() < chance:
            return self._json(2)
        if isinstance(value, dict):
            pairs = [(json.dumps(name), self._encode(part, chance)) for name, part in value.items()]
            if pairs and self.rng.random() < chance:
                pairs.append((self.rng.choice(pairs)[0], self._json(1)))
            return "{" + ", ".join(f"{name}: {part}" for name, part in pairs) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(self._encode(part, chance) for part in value) + "]"
        return json.dumps(value)

    def _json(self, levels: int) -> str:
        choice = self.rng.random()
        if choice < 0.25:
            return self.rng.choice(NUMBERS)
        if choice < 0.55 or levels == 0:
            return self.rng.choice(STRINGS)
        if choice < 0.8:
            return self.rng.choice(CONTAINERS)
        if choice < 0.9:
            return (
                "[" + ", ".join(self._json(levels - 1) for _ in range(self.rng.randrange(4))) + "]"
            )
        names = [json.dumps(name.decode("latin-1")) for name in NAMES]
        pairs = (
            f"{self.rng.choice(names)}: {self._json(levels - 1)}"
            for _ in range(self.rng.randrange(4))
        )
        return "{" + ", ".join(pairs) + "}"
