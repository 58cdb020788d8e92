"""Words of the file that scans keep what they know in, for those who write it and those who read it."""

from __future__ import annotations

NOTHING, ARTIFACT, MEMBER, FOLDER = 0, 1, 2, 3  # looked at and of no format; a file; in a folder that is one; such a folder
PRESENT, CORRUPT = 0, 1
TOP = 0  # the folder that is in no other
