"""docs/people.md names every role, right, policy and option there is."""

import re
from pathlib import Path

import pytest
from django.core.management import load_command_class

from apps.accounts.choices import MAY_GRANT, PersonView, Role, Scope

TEXT = (Path(__file__).parents[2] / "docs" / "people.md").read_text(encoding="utf-8")


def _row(begins: str) -> list[bool]:
    line = next(line for line in TEXT.splitlines() if line.startswith(f"| {begins}"))
    return ["yes" in cell for cell in line.strip("|").split("|")[1:]]


def test_roles_are_the_columns_of_the_table() -> None:
    head = next(line for line in TEXT.splitlines() if line.startswith("| may |"))
    assert [cell.strip().lower() for cell in head.strip("|").split("|")[1:]] == Role.values


def test_who_may_invite_whom() -> None:
    assert _row("invite viewers and members") == [
        {"viewer", "member"} <= set(MAY_GRANT[role]) for role in Role
    ]
    assert _row("invite PIs and admins") == [
        {"pi", "admin"} <= set(MAY_GRANT[role]) for role in Role
    ]


@pytest.mark.parametrize("word", [*Scope.values, *PersonView.values])
def test_each_right_and_policy_is_named(word: str) -> None:
    assert f"`{word}`" in TEXT


@pytest.mark.parametrize(
    ("app", "name"), [("apps.dashboard", "create_lab"), ("apps.accounts", "verify_audit")]
)
def test_examples_use_options_that_exist(app: str, name: str) -> None:
    parser = load_command_class(app, name).create_parser("manage.py", name)
    known = {option for action in parser._actions for option in action.option_strings}
    used = {
        option
        for line in re.findall(rf"manage\.py {name}([^`\n]*)", TEXT)
        for option in re.findall(r"--[a-z-]+", line)
    }
    assert used
    assert used <= known
