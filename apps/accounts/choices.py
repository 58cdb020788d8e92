"""The closed lists of accounts."""

from django.db.models import TextChoices


class Role(TextChoices):
    VIEWER = "viewer", "Viewer"
    MEMBER = "member", "Member"
    PI = "pi", "PI"
    ADMIN = "admin", "Admin"


class Basis(TextChoices):
    LIFECYCLE = "lifecycle", "Lifecycle"
    DIRECT = "direct", "Direct"


class Profile(TextChoices):
    GHG_PROTOCOL = "ghg_protocol", "GHG Protocol"


class TokenKind(TextChoices):
    NODE = "node", "Node"
    USER = "user", "User"


class CodePurpose(TextChoices):
    SETUP = "setup", "Set-up"
    SIGN_IN = "sign_in", "Sign-in"
    ENROL = "enrol", "Enrolment of a node"
    LOGIN = "login", "Login of a terminal"


class Scope(TextChoices):
    INGEST_WRITE = "ingest:write", "Push energy of its own node"
    RUNS_WRITE = "runs:write", "Register runs"
    RUNS_READ = "runs:read", "Read runs"
    REPORTS_READ = "reports:read", "Read figures"


SCOPES_OF_NODE = (Scope.INGEST_WRITE, Scope.RUNS_WRITE)
SCOPES_OF_ROLE: dict[str, tuple[str, ...]] = {
    Role.VIEWER: (Scope.RUNS_READ, Scope.REPORTS_READ),
    Role.MEMBER: (Scope.RUNS_READ, Scope.RUNS_WRITE, Scope.REPORTS_READ),
    Role.PI: (Scope.RUNS_READ, Scope.RUNS_WRITE, Scope.REPORTS_READ),
    Role.ADMIN: (Scope.RUNS_READ, Scope.RUNS_WRITE, Scope.REPORTS_READ),
}
