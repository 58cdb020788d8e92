"""Words that identify nobody, although an account or a login can have them as its name. Pure.

Texts keep them when a person is erased: `admin` in a text is almost never a person.
"""

COMMON_WORDS = frozenset(
    [
        "admin",
        "administrator",
        "root",
        "user",
        "users",
        "guest",
        "test",
        "tester",
        "demo",
        "nobody",
        "system",
        "daemon",
        "service",
        "server",
        "ubuntu",
        "debian",
        "labcarbon",
        "viewer",
        "member",
        "pi",
        "person",
        "people",
        "owner",
        "unknown",
        "none",
        "null",
        "true",
        "false",
        "default",
        "other",
        "idle",
        "overhead",
        "run",
        "runs",
        "train",
        "eval",
        "test",
        "infer",
        "data",
        "lab",
        "project",
        "node",
        "site",
        "gpu",
        "cpu",
        "job",
        "token",
        "tokens",
        "password",
        "energy",
        "carbon",
        "model",
        "models",
        "name",
        "all",
        "shared",
    ]
)


def is_common(name: str) -> bool:
    """Return whether a name identifies nobody: a common word, a number, or one character."""
    text = name.strip().casefold()
    return len(text) < 2 or text.isdigit() or text in COMMON_WORDS
