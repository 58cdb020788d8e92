"""Enrol this machine: exchange the one-time code of the Nodes page for a token of this node.

The code is read from a prompt, from standard input or from a file. It is not an argument, because
other users could see it.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys

from labcarbon_collect.api.one_time_codes import code_url, read_code, redeem_code
from labcarbon_collect.config import Login, collector_dir, save_enrolment
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
        "--hostname", default=socket.gethostname(), help="display name of this node"
    )


def run(args: argparse.Namespace) -> int:
    try:
        home = collector_dir(os.environ)
        node = node_identity(home, os.environ)
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
    print(
        "A running daemon starts to upload within seconds. To start one: labcarbon-collect daemon",
        file=sys.stderr,
    )
    return 0
