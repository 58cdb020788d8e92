"""Bodies of API requests: limited in size, unpacked, and checked before an endpoint reads them."""

import json
import zlib
from typing import Any

from django.http import HttpRequest
from rest_framework.parsers import BaseParser

from apps.core.erasure.names import ErasedNames, erased_names
from apps.core.errors import InvalidInput, TooLarge
from apps.core.json_input import check_json, parse_json
from apps.core.text import has_unstorable

MAX_WIRE = 1 << 20
MAX_BODY = 8 << 20
_CHUNK = 64 << 10


class JsonBytesParser(BaseParser):
    """Return the checked bytes of a JSON body, for endpoints that decode them into types."""

    media_type = "*/*"

    def parse(  # type: ignore[override]
        self, stream: Any, media_type: str | None = None, parser_context: Any = None
    ) -> bytes:
        body = bounded_body(parser_context["request"], stream)
        check_json(body)
        return without_erased_names(parser_context["request"], body)


class BatchParser(JsonBytesParser):
    """Return the checked bytes of a batch of windows. Their digests cover the uploaded texts, so
    that names are replaced where they are stored.
    """

    def parse(  # type: ignore[override]
        self, stream: Any, media_type: str | None = None, parser_context: Any = None
    ) -> bytes:
        body = bounded_body(parser_context["request"], stream)
        check_json(body)
        return body


def without_erased_names(request: Any, body: bytes) -> bytes:
    """Return a body in which names of erased persons of the token's lab are replaced."""
    names = _names_for(request)
    if names is None:
        return body
    try:
        value = json.loads(body)
    except ValueError:
        return body  # the endpoint refuses it
    replaced = names.replace(value)
    return body if replaced == value else json.dumps(replaced).encode("ascii")


def _names_for(request: Any) -> ErasedNames | None:
    """Return the erased names of the lab of a token, None if there are none."""
    lab = getattr(getattr(request, "user", None), "lab", None)
    return erased_names(lab.pk) if lab is not None and lab.has_erased_names else None


class JsonParser(BaseParser):
    """Return the value of a JSON body. What no database can store is refused."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        value = parse_json(bounded_body(parser_context["request"], stream))
        refuse_unstorable(value)
        names = _names_for(parser_context["request"])
        return value if names is None else names.replace(value)


def refuse_unstorable(value: Any) -> None:
    """Raise InvalidInput, with the key of the body, for what no database can store."""
    parts = value.items() if isinstance(value, dict) else [("", value)]
    for key, part in parts:
        if has_unstorable([key, part]):
            raise InvalidInput(
                "Invalid value: a NUL, a lone surrogate, or a number beyond a double.",
                field=None if has_unstorable(key) else key or None,
                hint="Remove it and send the request again.",
            )


def bounded_body(request: HttpRequest, stream: Any = None) -> bytes:
    """Return the body, unpacked if it is gzip, within the size limits. ``stream``: source other
    than the request.
    """
    length = request.headers.get("Content-Length", "")
    if length.isdecimal() and int(length) > MAX_WIRE:
        raise _too_large()
    packed: bytes = (request if stream is None else stream).read(MAX_WIRE + 1)
    if len(packed) > MAX_WIRE:
        raise _too_large()
    encoding = request.headers.get("Content-Encoding", "identity").lower()
    if encoding == "identity":
        return packed
    if encoding != "gzip":
        raise InvalidInput(
            f"Unsupported Content-Encoding {encoding!r}.", hint="Use gzip, or no encoding."
        )
    return _unpack(packed)


def _too_large() -> TooLarge:
    return TooLarge(
        f"A batch is at most {MAX_WIRE >> 20} MiB on the wire and {MAX_BODY >> 20} MiB unpacked.",
        hint="Send fewer windows.",
    )


def _unpack(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    size = 0
    data = packed
    try:
        while data and not unpacker.eof:
            part = unpacker.decompress(data, _CHUNK)
            size += len(part)
            if size > MAX_BODY:
                raise _too_large()
            parts.append(part)
            data = unpacker.unconsumed_tail
            if not part and not data:
                break
    except zlib.error as error:
        raise InvalidInput(f"The body is not gzip: {error}", code="bad_batch") from error
    if not unpacker.eof or unpacker.unused_data:
        raise InvalidInput(
            "The gzip body is incomplete, or has additional data at its end.", code="bad_batch"
        )
    return b"".join(parts)
