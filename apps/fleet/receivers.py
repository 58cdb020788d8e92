"""Fleet explains why the token of a node is refused."""

from typing import Any

from django.dispatch import receiver

from apps.accounts.models import Token
from apps.accounts.signals import node_token_refused
from apps.core.errors import NotAuthenticated
from apps.fleet.selectors import node_of
from apps.fleet.services.retirement import retired_error


@receiver(node_token_refused)
def explain_refusal(token: Token, **_: Any) -> NotAuthenticated | None:
    """Return the error of a retired node, else None."""
    assert token.node_uuid is not None
    node = node_of(token.lab, token.node_uuid)
    return retired_error(node) if node is not None and node.retired_us is not None else None
