"""Who may plan: everyone who may read or register runs of the lab, its nodes included."""

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from apps.accounts.choices import Scope
from apps.accounts.permissions import caller
from apps.core.errors import Forbidden


class CanPlan(BasePermission):
    """Callers who may register or read runs may plan one."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not request.user:
            return False
        if not caller(request).scopes & {Scope.RUNS_WRITE, Scope.RUNS_READ}:
            raise Forbidden(
                "This requires the scope 'runs:write' or 'runs:read'.",
                hint="Ask an admin of your lab.",
            )
        return True
