"""What every test shares."""

import pytest

from apps.accounts.authentication import forget_tokens


@pytest.fixture(autouse=True)
def _no_remembered_tokens() -> None:
    forget_tokens()
