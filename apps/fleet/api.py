"""Enrolment and login: one-time codes are exchanged for tokens."""

from typing import Any

from drf_spectacular.utils import extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle, SimpleRateThrottle
from rest_framework.views import APIView

from apps.accounts.choices import FLEET_KIND, CodePurpose, SignInMethod
from apps.accounts.credentials import parse_token
from apps.accounts.services.labs import issue_user_token, spend_code
from apps.accounts.services.sign_ins import record_failed_sign_in
from apps.core.api import StrictSerializer
from apps.core.clock import now_us
from apps.core.errors import InvalidInput
from apps.core.text import is_unstorable
from apps.fleet.services import PREFIX, enrol_node, enrol_with_fleet_token


class CodeThrottle(SimpleRateThrottle):
    """Thirty codes per minute and address: too few to guess 100 bits, enough for a rack."""

    scope = "codes"
    rate = "30/min"

    def get_cache_key(self, request: Request, view: APIView) -> str:
        return f"codes:{self.get_ident(request)}"


class FleetThrottle(SimpleRateThrottle):
    """Nodes of a cluster share one address and start together. A well-formed fleet token has 256
    random bits, so it is not counted as a guess of a code.
    """

    scope = "fleet"
    rate = "600/min"

    def get_cache_key(self, request: Request, view: APIView) -> str:
        return f"fleet:{self.get_ident(request)}"


class EnrolBody(StrictSerializer):
    code = serializers.CharField(
        max_length=80, help_text="a one-time code, or a fleet token (`lc_fleet_…`)"
    )
    node = serializers.UUIDField()
    hostname = serializers.CharField(max_length=255)
    facts = serializers.DictField(required=False, default=dict)

    def validate_facts(self, facts: dict[str, Any]) -> dict[str, Any]:
        if len(facts) > 64 or any(
            len(str(key)) > 64 or len(str(value)) > 1024 for key, value in facts.items()
        ):
            raise serializers.ValidationError("At most 64 facts of at most 1024 characters.")
        if is_unstorable("".join(f"{key}{value}" for key, value in facts.items())):
            raise serializers.ValidationError("Remove NUL characters and surrogates.")
        return facts


class LoginBody(StrictSerializer):
    code = serializers.CharField(max_length=64)


class EnrolView(APIView):
    authentication_classes = ()
    permission_classes = ()

    def get_throttles(self) -> list[BaseThrottle]:
        """Count requests with the form of a fleet token apart from one-time codes."""
        body = self.request.data if self.request.method == "POST" else None
        code = body.get("code") if isinstance(body, dict) else None
        parts = parse_token(code) if isinstance(code, str) else None
        return [FleetThrottle() if parts and parts.kind == FLEET_KIND else CodeThrottle()]

    @extend_schema(
        request=EnrolBody,
        responses=inline_serializer(
            "EnrolReply",
            {
                "token": serializers.CharField(),
                "node": serializers.UUIDField(),
                "lab": serializers.CharField(),
                "waiting": serializers.BooleanField(
                    help_text=(
                        "whether the node waits for the approval of a manager; until then its "
                        "token has no permission"
                    )
                ),
            },
        ),
    )
    def post(self, request: Request) -> Response:
        """Exchange a one-time enrolment code, or one use of a fleet token, for the token of a
        node. The token is returned only once.

        A fleet token enrols new UUIDs only: a known one is 409 with the code `known_node`.
        """
        body = EnrolBody(data=request.data)
        body.is_valid(raise_exception=True)
        data = body.validated_data
        if data["code"].strip().startswith(PREFIX):
            enrolled = enrol_with_fleet_token(
                text=data["code"].strip(),
                uuid=data["node"],
                hostname=data["hostname"],
                facts=data["facts"],
                now=now_us(),
            )
            return Response(
                {
                    "token": enrolled.token,
                    "node": str(enrolled.node_uuid),
                    "lab": enrolled.lab.slug,
                    "waiting": enrolled.is_waiting,
                },
                status=201,
            )
        node, token = enrol_node(
            code=data["code"],
            uuid=data["node"],
            hostname=data["hostname"],
            facts=data["facts"],
            now=now_us(),
        )
        return Response(
            {"token": token, "node": str(node.uuid), "lab": node.lab.slug, "waiting": False},
            status=201,
        )


class LoginView(APIView):
    authentication_classes = ()
    permission_classes = ()
    throttle_classes = (CodeThrottle,)

    @extend_schema(
        request=LoginBody,
        responses=inline_serializer(
            "LoginReply",
            {
                "token": serializers.CharField(),
                "user": serializers.CharField(),
                "lab": serializers.CharField(),
            },
        ),
    )
    def post(self, request: Request) -> Response:
        """Exchange a one-time code from the browser for the token of a person."""
        body = LoginBody(data=request.data)
        body.is_valid(raise_exception=True)
        now = now_us()
        try:
            spent = spend_code(purpose=CodePurpose.LOGIN, code=body.validated_data["code"], now=now)
        except InvalidInput:
            record_failed_sign_in(user=None, method=SignInMethod.TERMINAL, now=now)
            raise
        assert spent.lab is not None
        assert spent.user is not None
        token = issue_user_token(lab=spent.lab, user=spent.user, now=now, name="terminal")
        return Response(
            {"token": token, "user": spent.user.get_username(), "lab": spent.lab.slug}, status=201
        )
