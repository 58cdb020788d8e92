"""Log in as a person: trade the one-time code that the server's page shows for your own token.

The token is kept in ~/.config/labcarbon/login.json, readable by you alone. LABCARBON_TOKEN goes before it.
"""

from __future__ import annotations

import argparse
import os
import sys

from labcarbon_collect.api.enrolment import code_page, read_code, trade
from labcarbon_collect.config import Login, save_user
from labcarbon_collect.errors import Failed
from labcarbon_collect.identity import Refused


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="address of the server, such as https://labcarbon.example.org")
    parser.add_argument("--code-file", metavar="FILE", help="read the code from FILE ('-': standard input)")


def carry_out(options: argparse.Namespace) -> int:
    code = read_code(options.code_file, page=code_page(options.url, "login/"))
    answer = trade(options.url, "login/", code, {})
    login = Login(options.url.rstrip("/"), str(answer["token"]), str(answer.get("lab", "")), str(answer.get("user", "")))
    try:
        path = save_user(os.environ, login)
    except (Refused, OSError) as error:
        raise Failed(str(error)) from error
    print(f"Logged in as {login.who} of lab {login.lab}; the token is in {path}.", file=sys.stderr)
    print("Now: labcarbon-collect run --project NAME -- COMMAND", file=sys.stderr)
    return 0
