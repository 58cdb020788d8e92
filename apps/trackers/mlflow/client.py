"""Client of an MLflow server (REST API 2.0). Each error message contains a remedy."""

import base64
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from apps.core.http_client import HttpResponse, OutboundError, send_request
from apps.core.intervals import datetime_to_us
from apps.core.units import US_PER_S
from apps.core.url_allowlist import Address, Allowlist
from apps.trackers.mlflow.artifact_files import PROXY
from apps.trackers.mlflow.choices import SignIn

API = "/api/2.0/mlflow"
TIMEOUT_S = 8.0
FETCH_TIMEOUT_S = 20.0  # of one file
MAX_BYTES = 8 << 20
MAX_WAIT_S = 6 * 3600
PAGES = (100, 10, 1)  # runs per page; the next size is used if a page is too large
POINTS = 1000  # per page of a history and per transaction


class MlflowError(Exception):
    """An unusable response. ``message``: sentence for the page. ``wait_s``: requested waiting time.

    ``too_large``: a smaller request may work. ``is_single``: the requested item may be the cause,
    not the server.
    """

    def __init__(
        self, message: str, *, wait_s: int = 0, too_large: bool = False, is_single: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.wait_s = wait_s
        self.too_large = too_large
        self.is_single = is_single


class OutOfTime(Exception):
    """The time slice is over. The next one continues."""


@dataclass
class Server:
    """Sends requests to one server. ``until``: time.monotonic() after which no request starts."""

    address: Address
    sign_in: SignIn
    user: str
    secret: str = field(repr=False)
    inside: Allowlist
    until: float
    skew_us: int | None = None

    def version(self) -> str:
        """Return the version of the server, or ''."""
        reply = self._send("GET", "/version")
        text = reply.body[:40].decode("ascii", "replace").strip()
        return text if reply.status == 200 and re.fullmatch(r"[0-9][\w.+-]{0,30}", text) else ""

    def experiments(self) -> list[tuple[str, str]]:
        """Return (id, name) of all experiments except deleted ones."""
        pages = self._pages(
            "/experiments/search", {"max_results": 1000, "view_type": "ACTIVE_ONLY"}
        )
        rows = [
            row
            for page in pages
            for row in _list(page, "experiments")
            if row.get("experiment_id") is not None
        ]
        return [(str(row["experiment_id"]), str(row.get("name", ""))) for row in rows]

    def runs(self, experiments: list[str], condition: str) -> Iterator[list[dict[str, Any]]]:
        """Yield pages of runs that match a condition, by start, earliest first."""
        body = {
            "experiment_ids": experiments,
            "filter": condition,
            "run_view_type": "ACTIVE_ONLY",
            "order_by": ["attributes.start_time ASC", "attributes.run_id ASC"],
        }
        sizes = iter(PAGES)
        size, token = next(sizes), ""
        while True:
            try:
                page = self._call(
                    "POST", "/runs/search", {**body, "max_results": size, "page_token": token}
                )
            except MlflowError as problem:
                smaller = next(sizes, None) if problem.too_large else None
                if smaller is None:
                    raise
                size = smaller
                continue
            yield _list(page, "runs")
            token = _next(page, token)
            if not token:
                return

    def history(self, run_id: str, name: str, token: str) -> tuple[Any, str]:
        """Return one page of a metric's values from ``token`` on, and the next token ('' at the
        end).
        """
        query = {
            "run_id": run_id,
            "metric_key": name,
            "max_results": POINTS,
            **({"page_token": token} if token else {}),
        }
        page = self._call("GET", f"/metrics/get-history?{urlencode(query)}")
        return page.get("metrics", []), _next(page, token)

    def set_tag(self, run_id: str, name: str, text: str) -> None:
        """Write a tag of a run."""
        self._call("POST", "/runs/set-tag", {"run_id": run_id, "key": name, "value": text})

    def run(self, run_id: str) -> dict[str, Any]:
        """Return a run of MLflow with its inputs and outputs."""
        run = self._call("GET", f"/runs/get?{urlencode({'run_id': run_id})}").get("run")
        return run if isinstance(run, dict) else {}

    def listing(self, run_id: str, model: str, folder: str) -> tuple[str, list[dict[str, Any]]]:
        """Return the root of the files of a run (or of its logged ``model``) and the content of
        one folder.
        """
        if model:
            query = f"?{urlencode({'artifact_directory_path': folder})}" if folder else ""
            page = self._call("GET", f"/logged-models/{model}/artifacts/directories{query}")
        else:
            page = self._call(
                "GET",
                (
                    "/artifacts/list?"
                    f"{urlencode({'run_id': run_id, **({'path': folder} if folder else {})})}"
                ),
            )
        return str(page.get("root_uri") or ""), _list(page, "files")

    def address_of(self, path: str) -> str:
        """Return the address of a file at MLflow's file proxy. ``path``: below the proxy."""
        return f"{self.address}{PROXY}/{quote(path)}"

    def fetch(self, path: str, *, most_bytes: int, take: Callable[[bytes], None]) -> None:
        """Pass the content of a file to ``take`` in parts. ``path``: below the file proxy."""
        reply = self._send(
            "GET",
            f"{PROXY}/{quote(path)}",
            seconds=FETCH_TIMEOUT_S,
            most_bytes=most_bytes,
            take=take,
        )
        if reply.status != 200:
            raise self._status_error(reply)

    def _pages(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        token = ""
        while True:
            page = self._call("POST", path, {**body, "page_token": token})
            yield page
            token = _next(page, token)
            if not token:
                return

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        reply = self._send(method, API + path, None if body is None else json.dumps(body).encode())
        self._note_clock(reply)
        if reply.status != 200:
            raise self._status_error(reply)
        try:
            content = json.loads(reply.body)
        except (ValueError, RecursionError) as error:
            raise self._no_json(reply) from error
        if not isinstance(content, dict):
            raise self._no_json(reply)
        return content

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        seconds: float | None = None,
        most_bytes: int = MAX_BYTES,
        take: Callable[[bytes], None] | None = None,
    ) -> HttpResponse:
        if time.monotonic() >= self.until:
            raise OutOfTime
        headers = {"Accept": "application/json", "User-Agent": "LabCarbon"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self.sign_in == SignIn.PASSWORD:
            headers["Authorization"] = (
                "Basic " + base64.b64encode(f"{self.user}:{self.secret}".encode()).decode()
            )
        elif self.sign_in == SignIn.TOKEN:
            headers["Authorization"] = f"Bearer {self.secret}"
        options: dict[str, Any] = {
            "allowlist": self.inside,
            "headers": headers,
            "body": body,
            "on_chunk": take,
        }
        try:
            return send_request(
                self.address,
                method,
                path,
                timeout_s=seconds or TIMEOUT_S,
                max_bytes=most_bytes,
                **options,
            )
        except OutboundError as problem:
            raise MlflowError(problem.message, too_large=problem.too_large) from problem

    @property
    def where(self) -> str:
        return f"{self.address.host}:{self.address.port}"

    def _note_clock(self, reply: HttpResponse) -> None:
        """Record the difference between the server's clock and ours from its responses (to a
        second).
        """
        try:
            server_us = datetime_to_us(parsedate_to_datetime(reply.headers["date"]))
        except (KeyError, TypeError, ValueError):
            return
        self.skew_us = time.time_ns() // 1000 // US_PER_S * US_PER_S - server_us

    def _no_json(self, reply: HttpResponse) -> MlflowError:
        start = reply.body[:200].lstrip().lower()
        if start.startswith((b"<!doctype", b"<html")):
            return MlflowError(
                f"{self.where} answers with a web page, not with MLflow's API: is it the sign-in "
                "page of a proxy?"
            )
        return MlflowError(
            f"{self.where} answers with something that is not JSON: is this the address of MLflow?"
        )

    def _status_error(self, reply: HttpResponse) -> MlflowError:
        status, detail = reply.status, _message(reply.body)
        if 300 <= status < 400:
            location = urlsplit(reply.headers.get("location", ""))
            target = f" to {location.scheme}://{location.netloc}" if location.netloc else ""
            return MlflowError(
                f"{self.where} sends on{target}. Redirects are not followed: write that address "
                "here."
            )
        if status == 401:
            reason = (
                "it was given none"
                if self.sign_in == SignIn.NONE
                else "what it was given is wrong or has ended"
            )
            return MlflowError(
                f"{self.where} wants a user and password or a token: {reason} (401)."
            )
        if status == 403:
            return MlflowError(
                f"{self.where} refuses (403){detail}. May this user read all experiments? MLflow "
                "3.5 and newer also wants "
                "the host name of this address in its --allowed-hosts."
            )
        if status in (429, 503):
            wait_s = _wait_s(reply.headers.get("retry-after", ""))
            return MlflowError(f"{self.where} limits the request rate ({status}).", wait_s=wait_s)
        if status == 404:
            is_missing = b"RESOURCE_DOES_NOT_EXIST" in reply.body
            words = (
                f"It is not there{detail}."
                if is_missing
                else f"{self.where} has no MLflow API under this address (404)."
            )
            return MlflowError(words, is_single=is_missing)
        return MlflowError(
            f"{self.where} answers {status}{detail}.", is_single=status in (400, 500)
        )


def _list(page: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    rows = page.get(name, [])
    if not isinstance(rows, list):
        raise MlflowError(f"The server's list of {name} is not a list.")
    return [row for row in rows if isinstance(row, dict)]


def _next(page: Mapping[str, Any], token: str) -> str:
    """Return the token of the next page. Raises MlflowError for a repeated token."""
    following = str(page.get("next_page_token") or "")
    if following and (following == token or len(following) > 500):
        raise MlflowError("The server repeats the same page token.")
    return following


def _message(body: bytes) -> str:
    try:
        text = json.loads(body)["message"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return ""
    plain = " ".join(str(text).split())[:120]
    return f", “{plain}”" if plain.isprintable() and plain else ""


def _wait_s(text: str) -> int:
    """Return the seconds of a Retry-After header (seconds or a date); 0 if unusable."""
    if text.isascii() and text.isdigit():
        return min(int(text), MAX_WAIT_S)
    try:
        ahead = datetime_to_us(parsedate_to_datetime(text)) - time.time_ns() // 1000
    except (TypeError, ValueError):
        return 0
    return min(max(ahead // US_PER_S, 0), MAX_WAIT_S)
