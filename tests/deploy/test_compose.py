"""compose.yaml and .env.example say the same, and no secret has a default."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = (ROOT / "compose.yaml").read_text(encoding="utf-8")
CODE = re.sub(r"(?m)(^|\s)#.*$", "", TEXT)
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, Any] = COMPOSE["services"]
EXAMPLE = (ROOT / ".env.example").read_text(encoding="utf-8")
SECRETS = {"LABCARBON_SECRET_KEY", "LABCARBON_TOKEN_PEPPERS", "POSTGRES_PASSWORD"}
OURS = ("migrate", "web", "worker", "beat")


def variables() -> dict[str, str]:
    """Return {variable: what follows its name} of every ``${…}``."""
    return dict(re.findall(r"(?<!\$)\$\{([A-Z_]+)([^}]*)\}", CODE))


def example() -> dict[str, str]:
    return dict(re.findall(r"(?m)^([A-Z_]+)=(.*)$", EXAMPLE))


def test_every_variable_is_in_the_example_and_none_too_many() -> None:
    assert set(variables()) == set(example())


def test_every_variable_of_the_example_is_explained() -> None:
    for block in re.split(r"\n\n", EXAMPLE.strip()):
        assert block.startswith("#"), block


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_a_missing_secret_has_a_message_with_the_fix(name: str) -> None:
    assert variables()[name].startswith(":?")
    assert "openssl rand -hex 32" in variables()[name]
    assert example()[name] == ""


def test_a_default_in_compose_is_the_one_of_the_example() -> None:
    for name, rest in variables().items():
        if rest.startswith(":-"):
            assert example()[name] == rest[2:], name


def test_the_services_and_their_roles() -> None:
    assert set(SERVICES) == {*OURS, "postgres", "redis"}
    assert {name: SERVICES[name]["command"] for name in OURS} == {
        "migrate": ["migrate"],
        "web": ["web"],
        "worker": ["celery"],
        "beat": ["beat"],
    }
    assert SERVICES["postgres"]["image"] == "postgres:15"
    assert SERVICES["redis"]["image"] == "redis:7"


def test_containers_can_write_only_their_data() -> None:
    for name in OURS:
        service = SERVICES[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["volumes"] == ["data:/var/lib/labcarbon"]


def test_nothing_is_reachable_from_other_machines() -> None:
    assert SERVICES["web"]["ports"] == ["127.0.0.1:${LABCARBON_PORT:-8000}:8000"]
    assert [name for name in SERVICES if "ports" in SERVICES[name]] == ["web"]


def test_web_and_workers_wait_for_the_migration_and_beat_is_one() -> None:
    for name in ("web", "worker", "beat"):
        assert SERVICES[name]["depends_on"]["migrate"] == {
            "condition": "service_completed_successfully"
        }
    assert "deploy" not in SERVICES["beat"]


def test_only_variables_that_something_reads_are_set() -> None:
    readers = [ROOT / "labcarbon" / "env.py", ROOT / "docker" / "entrypoint.sh"]
    text = "".join(path.read_text(encoding="utf-8") for path in readers)
    for name in OURS:
        assert all(variable in text for variable in SERVICES[name]["environment"]), name
