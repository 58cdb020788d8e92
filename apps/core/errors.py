"""Expected errors. Each has a code, a message, and a hint how to fix it."""


class LabCarbonError(Exception):
    """An expected error. ``status``: HTTP status in API and pages."""

    status = 400
    code = "bad_request"

    def __init__(
        self, message: str, *, field: str | None = None, hint: str = "", code: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.hint = hint
        if code:
            self.code = code

    def body(self) -> dict[str, dict[str, str | None]]:
        """Return the error format of the API."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "field": self.field,
                "hint": self.hint,
            }
        }


class InvalidInput(LabCarbonError):
    code = "invalid"


class NotAuthenticated(LabCarbonError):
    status = 401
    code = "not_authenticated"


class Forbidden(LabCarbonError):
    status = 403
    code = "forbidden"


class NotFound(LabCarbonError):
    status = 404
    code = "not_found"


class Conflict(LabCarbonError):
    status = 409
    code = "conflict"


class TooLarge(LabCarbonError):
    status = 413
    code = "too_large"


class UpgradeRequired(LabCarbonError):
    status = 426
    code = "upgrade_required"
