"""A real daemon and a real server: why it does not start is on the overview until it uploads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from labcarbon_collect.config import Login, save_enrolment
from labcarbon_collect.node_identity import ensure_private_dir

from apps.accounts.services.labs import issue_node_token
from apps.core.clock import now_us
from tests.builders import small_lab
from tests.collector.collector_process import Collector, wait_for
from tests.dashboard.conftest import client_of
from tests.dashboard.support import text_of
from tests.serialized_server import serialize_requests

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_daemon_that_does_not_start_is_on_the_overview_until_it_uploads(
    live_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = serialize_requests(monkeypatch)
    lab = small_lab()
    client = client_of(lab.owner)
    node = Collector(tmp_path, node_id=str(lab.node.uuid))
    token = issue_node_token(lab=lab.lab, node_uuid=lab.node.uuid, now=now_us())
    node.home.parent.mkdir()
    ensure_private_dir(node.home)
    save_enrolment(node.home, Login(live_server.url, token, "cells"), node.node_id)

    node.settings["LABCARBON_SPOOL_MAX_MB"] = "much"
    assert node.call("daemon").returncode == 1
    page = text_of(client.get("/"))
    assert page.count('data-alert="start-problem"') == 1
    assert "LABCARBON_SPOOL_MAX_MB is &#x27;much&#x27;" in page

    del node.settings["LABCARBON_SPOOL_MAX_MB"]
    node.start()

    def is_solved() -> bool:
        with lock:
            lab.node.refresh_from_db()
        return lab.node.last_push_us is not None

    wait_for(is_solved, seconds=60)
    assert node.stop() == 0
    assert 'data-alert="start-problem"' not in text_of(client.get("/"))
