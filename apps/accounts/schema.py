"""The authentication schemes of access tokens and sessions in the API schema."""

from drf_spectacular.authentication import SessionScheme
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema


class BearerTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "apps.accounts.authentication.BearerTokenAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": (
                "`lc_…`, from `labcarbon-collect login` (a person) or `labcarbon-collect "
                "enrol` (a node)."
            ),
        }


class ApiSessionScheme(SessionScheme):  # type: ignore[no-untyped-call]
    target_class = "apps.accounts.authentication.ApiSessionAuthentication"
