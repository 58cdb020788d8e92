#!/usr/bin/env python
"""Django's command line for LabCarbon."""

import os
import sys

from labcarbon.command_aliases import replace_alias
from labcarbon.command_errors import exit_with_reason

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labcarbon.settings")
    from django.core.management import execute_from_command_line

    with exit_with_reason():
        execute_from_command_line(replace_alias(sys.argv))
