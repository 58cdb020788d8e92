"""Names of the encodings that a person can choose for a CSV file."""

ENCODING_NAMES = (
    ("utf-8", "UTF-8"), ("utf-16", "UTF-16"), ("cp1252", "Windows, Western (1252)"),
    ("cp1250", "Windows, Central European (1250)"), ("mac-roman", "Mac Roman"),
    ("cp850", "DOS (850)"),
)  # fmt: skip
