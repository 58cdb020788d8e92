"""Former names of management commands run the current ones."""

import pytest
from django.core.management import get_commands

from labcarbon.command_aliases import _CURRENT_NAMES, replace_alias


@pytest.mark.parametrize(("former", "current"), _CURRENT_NAMES.items())
def test_a_former_name_runs_the_current_command(
    former: tuple[str, ...], current: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert replace_alias(["manage.py", *former, "--help"]) == ["manage.py", *current, "--help"]
    assert "deprecated" in capsys.readouterr().err
    assert current[0] in get_commands()


def test_other_commands_pass_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["migrate"], ["worker", "--once"]):
        assert replace_alias(["manage.py", *arguments]) == ["manage.py", *arguments]
    assert capsys.readouterr().err == ""


def test_a_former_command_without_its_subcommand_names_the_current_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert replace_alias(["manage.py", "audit", "--help"]) == ["manage.py", "audit", "--help"]
    assert "verify_audit" in capsys.readouterr().err
