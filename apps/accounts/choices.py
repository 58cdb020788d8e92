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


class PersonView(TextChoices):
    """Whose energy, person by person, may be seen in a lab. Everyone always sees their own."""

    OWN = "own", "Only one's own"
    PI = "pi", "PIs and admins see everyone's"
    LAB = "lab", "Everyone in the lab sees everyone's"


class Profile(TextChoices):
    """How activities are read as scopes: one ledger, the same totals (see docs/scopes.md)."""

    GHG_PROTOCOL = "ghg_protocol", "GHG Protocol"
    LESSON = "lesson", "Lesson"


class TokenKind(TextChoices):
    NODE = "node", "Node"
    USER = "user", "Person"
    SERVICE = "service", "Service"
    TRACKER = "cc", "Tracker"


# Tokens that belong to nobody: they end when their maker leaves the lab.
SERVICE_KINDS = (TokenKind.SERVICE, TokenKind.TRACKER)


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
    ASSETS_WRITE = "assets:write", "Register assets and record their lives"


SCOPES_OF_NODE = (Scope.INGEST_WRITE, Scope.RUNS_WRITE)
SCOPES_OF_ROLE: dict[str, tuple[str, ...]] = {
    Role.VIEWER: (Scope.RUNS_READ, Scope.REPORTS_READ),
    Role.MEMBER: (Scope.RUNS_READ, Scope.RUNS_WRITE, Scope.REPORTS_READ),
    Role.PI: (Scope.RUNS_READ, Scope.RUNS_WRITE, Scope.REPORTS_READ, Scope.ASSETS_WRITE),
    Role.ADMIN: (Scope.RUNS_READ, Scope.RUNS_WRITE, Scope.REPORTS_READ, Scope.ASSETS_WRITE),
}

MAY_GRANT: dict[str, tuple[str, ...]] = {
    Role.VIEWER: (),
    Role.MEMBER: (),
    Role.PI: (Role.VIEWER, Role.MEMBER),
    Role.ADMIN: (Role.VIEWER, Role.MEMBER, Role.PI, Role.ADMIN),
}


class Act(TextChoices):
    """What the audit log records. Other apps may add acts of their own."""

    LAB_CREATED = "lab.made", "Lab made"
    LAB_CHANGED = "lab.changed", "Lab settings changed"
    PROJECT_CREATED = "project.made", "Project made"
    MEMBER_ROLE = "member.role", "Role changed"
    MEMBER_REMOVED = "member.removed", "Person removed"
    INVITATION_CREATED = "invitation.made", "Invitation made"
    INVITATION_ACCEPTED = "invitation.accepted", "Invitation accepted"
    INVITATION_REVOKED = "invitation.revoked", "Invitation revoked"
    TOKEN_CREATED = "token.made", "Token made"
    TOKEN_REVOKED = "token.revoked", "Token revoked"
    SITE_CREATED = "site.made", "Site made"
    SITE_RENAMED = "site.renamed", "Site renamed"
    SITE_DELETED = "site.deleted", "Site deleted"
    SITE_ZONE = "site.zone", "Grid zone chosen"
    SITE_PUE = "site.pue", "PUE recorded"
    SITE_PRICE = "site.price", "Price of electricity recorded"
    SITE_CONTROL = "site.control", "Control of a site's electricity chosen"
    SITE_WITHDRAWN = "site.withdrawn", "Entry of a site withdrawn"
    NODE_MOVED = "node.moved", "Node moved"
    NODE_MOVE_UNDONE = "node.move_undone", "Move of a node undone"
    NODE_STATIC_POWER = "node.static_power", "Power of a node's rest set"
    NODE_ENROLLED = "node.enrolled", "Node enrolled"
    RULE_CREATED = "rule.made", "Rule made"
    RULE_ENDED = "rule.ended", "Rule ended"
    RULE_WITHDRAWN = "rule.withdrawn", "Rule withdrawn"
    RULE_RESTORED = "rule.restored", "Rule restored"
    CLAIM_CREATED = "claim.made", "Energy claimed"
    CLAIM_UNDONE = "claim.undone", "Claim undone"
    CLAIM_REDONE = "claim.redone", "Claim redone"
    IDLE_POLICY_SET = "idle_policy.set", "Idle policy recorded"
    IDLE_POLICY_WITHDRAWN = "idle_policy.withdrawn", "Idle policy withdrawn"
    ASSET_ADDED = "asset.added", "Asset added"
    ASSETS_IMPORTED = "assets.imported", "Assets imported"
    ASSET_CHANGED = "asset.changed", "Asset described anew"
    ASSET_EVENT = "asset.event", "Entry in an asset's life"
    ASSET_REVERSED = "asset.reversed", "Entry of an asset's life reversed"
    ASSET_METER = "asset.meter", "Meter of an asset recorded"
    ASSET_VOLUME = "asset.volume", "Storage of a project recorded"
    MODEL_ADDED = "model.added", "Hardware model added"
    MODEL_RETIRED = "model.retired", "Hardware model taken off the catalogue"
    FIGURE_UPLOADED = "figure.uploaded", "Embodied figure uploaded"
    FIGURE_WITHDRAWN = "figure.withdrawn", "Embodied figure withdrawn"
