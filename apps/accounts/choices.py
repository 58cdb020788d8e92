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
    """Visibility of energy by person in a lab. Everyone always sees their own."""

    OWN = "own", "Only the person themselves"
    PI = "pi", "PIs and admins"
    LAB = "lab", "Everyone in the lab"


class Profile(TextChoices):
    """How activities are assigned to scopes. All profiles have the same totals (docs/scopes.md)."""

    GHG_PROTOCOL = "ghg_protocol", "GHG Protocol"
    LESSON = "lesson", "Course scheme"


class TokenKind(TextChoices):
    NODE = "node", "Node"
    USER = "user", "Person"
    SERVICE = "service", "Service"
    TRACKER = "cc", "Tracker"


# Fleet tokens enrol new nodes. They are not in the table of access tokens, so that none of them can
# ever become a caller of the API.
FLEET_KIND = "fleet"

# Tokens without an owner. They expire when their creator leaves the lab.
SERVICE_KINDS = (TokenKind.SERVICE, TokenKind.TRACKER)


class CodePurpose(TextChoices):
    SETUP = "setup", "Setup"
    SIGN_IN = "sign_in", "Sign-in"
    ENROL = "enrol", "Enrolment of a node"
    LOGIN = "login", "Login of a terminal"


class Scope(TextChoices):
    INGEST_WRITE = "ingest:write", "Upload energy of its node"
    RUNS_WRITE = "runs:write", "Register runs"
    RUNS_READ = "runs:read", "Read runs"
    REPORTS_READ = "reports:read", "Read figures"
    ASSETS_WRITE = "assets:write", "Register assets and lifecycle events"


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


class SignInMethod(TextChoices):
    """How a person signs in, in the details of the audit log."""

    PASSWORD = "password"  # noqa: S105 - a method, no secret
    SECOND_FACTOR = "second factor"
    PROVIDER = "identity provider"
    LINK = "one-time link"
    INVITATION = "invitation"
    SETUP = "setup"
    TERMINAL = "terminal code"


class Act(TextChoices):
    """Actions that the audit log records. Other apps add their own."""

    LAB_CREATED = "lab.made", "Lab created"
    LAB_CHANGED = "lab.changed", "Lab settings changed"
    PROJECT_CREATED = "project.made", "Project created"
    MEMBER_ROLE = "member.role", "Role changed"
    MEMBER_REMOVED = "member.removed", "Person removed"
    PERSON_ERASED = "person.erased", "Person erased"
    AUDIT_RECHAINED = "audit.rechained", "Names replaced in the audit log"
    INVITATION_CREATED = "invitation.made", "Invitation created"
    INVITATION_ACCEPTED = "invitation.accepted", "Invitation accepted"
    INVITATION_REVOKED = "invitation.revoked", "Invitation revoked"
    TOKEN_CREATED = "token.made", "Token created"
    TOKEN_REVOKED = "token.revoked", "Token revoked"
    SIGNED_IN = "signin.made", "Signed in"
    SIGN_IN_FAILED = "signin.failed", "Sign-in failed"
    SITE_CREATED = "site.made", "Site created"
    SITE_RENAMED = "site.renamed", "Site renamed"
    SITE_DELETED = "site.deleted", "Site deleted"
    SITE_ZONE = "site.zone", "Grid zone chosen"
    SITE_PUE = "site.pue", "PUE recorded"
    SITE_PRICE = "site.price", "Electricity price recorded"
    SITE_CONTROL = "site.control", "Electricity control chosen"
    SITE_WITHDRAWN = "site.withdrawn", "Site record withdrawn"
    FACTORS_CHANGED = "factors.changed", "Emission factors changed"
    NODE_MOVED = "node.moved", "Node moved"
    NODE_MOVE_UNDONE = "node.move_undone", "Node move undone"
    NODE_STATIC_POWER = "node.static_power", "Node overhead set"
    NODE_ENROLLED = "node.enrolled", "Node enrolled"
    NODE_RENAMED = "node.renamed", "Node renamed"
    NODE_RETIRED = "node.retired", "Node retired"
    NODE_RESTORED = "node.restored", "Retired node used again"
    NODE_TOKENS_ROTATED = "node.tokens_rotated", "Node token rotated"
    NODE_REFUSED = "node.enrolment_refused", "Enrolment of a known node refused"
    NODE_REENROLMENT_ALLOWED = "node.reenrolment_allowed", "Enrolment of a known node allowed"
    NODE_REFUSAL_DISMISSED = "node.refusal_dismissed", "Refused enrolment dismissed"
    NODE_WAITING = "node.waiting", "Node waits for approval"
    NODE_APPROVED = "node.approved", "Node approved"
    NODE_DECLINED = "node.declined", "Node declined"
    FLEET_TOKEN_CREATED = "fleet_token.made", "Fleet token created"
    FLEET_TOKEN_ROTATED = "fleet_token.rotated", "Fleet token rotated"
    FLEET_TOKEN_ENDED = "fleet_token.ended", "Fleet token ended"
    DEVICE_MOVED = "device.moved", "Device moved"
    DEVICE_MOVE_WITHDRAWN = "device.move_withdrawn", "Device move withdrawn"
    WINDOWS_ACCEPTED = "windows.accepted", "Quarantined windows accepted"
    WINDOWS_DISCARDED = "windows.discarded", "Quarantined windows discarded"
    WINDOWS_UNDONE = "windows.undone", "Decision about quarantined windows undone"
    RUN_MESSAGES_ACCEPTED = "run_messages.accepted", "Refused run messages accepted"
    RUN_MESSAGES_DISCARDED = "run_messages.discarded", "Refused run messages discarded"
    RULE_CREATED = "rule.made", "Rule created"
    RULE_ENDED = "rule.ended", "Rule ended"
    RULE_WITHDRAWN = "rule.withdrawn", "Rule withdrawn"
    RULE_RESTORED = "rule.restored", "Rule restored"
    CLAIM_CREATED = "claim.made", "Energy claimed"
    CLAIM_UNDONE = "claim.undone", "Claim undone"
    CLAIM_REDONE = "claim.redone", "Claim redone"
    IDLE_POLICY_SET = "idle_policy.set", "Idle policy recorded"
    IDLE_POLICY_WITHDRAWN = "idle_policy.withdrawn", "Idle policy withdrawn"
    ASSET_ADDED = "asset.added", "Asset added"
    ATTACHMENT_ADDED = "asset.attached", "Attachment added"
    ATTACHMENT_DELETED = "asset.attachment_deleted", "Attachment deleted"
    ASSETS_IMPORTED = "assets.imported", "Assets imported"
    IMPORT_UNDONE = "assets.import_undone", "Import of assets undone"
    IMPORT_RESTORED = "assets.import_restored", "Undo of an import reversed"
    ASSET_REMOVED = "asset.removed", "Asset removed"
    ASSET_RESTORED = "asset.restored", "Removed asset restored"
    ASSET_CHANGED = "asset.changed", "Asset description changed"
    ASSET_EVENT = "asset.event", "Lifecycle event recorded"
    ASSET_REVERSED = "asset.reversed", "Lifecycle event reversed"
    ASSET_METER = "asset.meter", "Asset meter recorded"
    ASSET_VOLUME = "asset.volume", "Project storage recorded"
    MODEL_ADDED = "model.added", "Hardware model added"
    MODEL_RETIRED = "model.retired", "Hardware model retired"
    FIGURE_UPLOADED = "figure.uploaded", "Embodied carbon figure uploaded"
    FIGURE_WITHDRAWN = "figure.withdrawn", "Embodied carbon figure withdrawn"
