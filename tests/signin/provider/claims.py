"""What the provider says of a person."""

from typing import Any

from oauth2_provider.oauth2_validators import OAuth2Validator

from tests.signin.provider.people import PEOPLE


class Claims(OAuth2Validator):
    oidc_claim_scope = None

    def get_additional_claims(self, request: Any) -> dict[str, Any]:
        person = PEOPLE[request.user.get_username()]
        return {
            "email": person.mail,
            "email_verified": person.verified,
            "preferred_username": person.name,
            "name": person.name.title() + " of the Provider",
        }
