"""Log in as a person: exchange the one-time code of the server's page for a token of your own.

The token is stored in ~/.config/labcarbon/login.json, readable by you only. LABCARBON_TOKEN takes
precedence over it.
"""

from __future__ import annotations

import argparse
import os
import sys

from labcarbon_collect.api.one_time_codes import code_url, read_code, redeem_code
from labcarbon_collect.config import Login, save_login
from labcarbon_collect.errors import CommandError
from labcarbon_collect.node_identity import ConfigurationError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "url", metavar="URL", help="URL of the server, such as https://labcarbon.example.org"
    )
    parser.add_argument(
        "--code-file", metavar="FILE", help="read the code from FILE ('-': standard input)"
    )


def run(args: argparse.Namespace) -> int:
    code = read_code(args.code_file, page=code_url(args.url, "login/"))
    response = redeem_code(args.url, "login/", code, {})
    login = Login(
        args.url.rstrip("/"),
        str(response["token"]),
        str(response.get("lab", "")),
        str(response.get("user", "")),
    )
    try:
        path = save_login(os.environ, login)
    except (ConfigurationError, OSError) as error:
        raise CommandError(str(error)) from error
    print(f"Logged in as {login.name} of lab {login.lab}; the token is in {path}.", file=sys.stderr)
    print("Next: labcarbon-collect run --project NAME -- COMMAND", file=sys.stderr)
    return 0
