"""Enrol this machine: exchange a one-time code or a fleet token of the Nodes page for a token of
this node.

The code is read from a prompt, from standard input or from a file. It is not an argument, because
other users could see it.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
from pathlib import Path

from labcarbon_collect.api.one_time_codes import code_url, read_code, redeem_code
from labcarbon_collect.api.transport import InvalidUrlError, ServerUnavailable, Transport
from labcarbon_collect.api.uploader import WAITING_FOR_APPROVAL
from labcarbon_collect.config import Login, collector_dir, read_enrolment, save_enrolment
from labcarbon_collect.errors import CommandError
from labcarbon_collect.node_facts import node_facts
from labcarbon_collect.node_identity import ConfigurationError, node_identity


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url", metavar="URL", help="URL of the server, such as https://labcarbon.example.org"
    )
    parser.add_argument(
        "--code-file", metavar="FILE", help="read the code from FILE ('-': standard input)"
    )
    parser.add_argument(
        "--if-needed",
        action="store_true",
        help="do nothing, and read no code, if the server accepts this node's token",
    )
    parser.add_argument(
        "--hostname", default=socket.gethostname(), help="display name of this node"
    )


def run(args: argparse.Namespace) -> int:
    try:
        home = collector_dir(os.environ)
        node = node_identity(home, os.environ)
        if args.if_needed and _is_enrolled(args.url, home, node.uuid):
            print(f"This machine is node {node.uuid} already.", file=sys.stderr)
            return 0
        body = {"node": node.uuid, "hostname": args.hostname, "facts": node_facts()}
        code = read_code(args.code_file, page=code_url(args.url, "enrol/"))
        response = redeem_code(args.url, "enrol/", code, body)
        login = Login(
            args.url.rstrip("/"), str(response["token"]), str(response.get("lab", "")), node.uuid
        )
        save_enrolment(home, login, node.uuid)
    except (ConfigurationError, OSError) as error:
        raise CommandError(str(error)) from error
    print(f"This machine is node {node.uuid} of lab {login.lab}.", file=sys.stderr)
    if response.get("waiting") is True:
        print(
            "A manager of the lab has to approve it. Until then the daemon measures and stores.",
            file=sys.stderr,
        )
    print(
        "A running daemon starts to upload within seconds. To start one: labcarbon-collect daemon",
        file=sys.stderr,
    )
    return 0


def _is_enrolled(url: str, home: Path, node: str) -> bool:
    """Whether the server at ``url`` accepts the stored token of this node. Raises CommandError if
    it does not answer.
    """
    try:
        login = read_enrolment(home, {}, node)
    except ConfigurationError:
        return False
    if login is None or login.url != url.rstrip("/"):
        return False
    try:
        transport = Transport(login.url, login.token)
        response = transport.call("GET", "config/")
        transport.close()
    except InvalidUrlError as error:
        raise CommandError(str(error)) from error
    except ServerUnavailable as error:
        raise CommandError(f"No response from the server. {error}. Try again") from error
    return response.status == 200 or response.error_code == WAITING_FOR_APPROVAL
