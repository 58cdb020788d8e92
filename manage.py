#!/usr/bin/env python
"""Django's command line for LabCarbon."""

import os
import sys

from labcarbon.command_aliases import replace_alias

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "labcarbon.settings")
    from django.core.management import execute_from_command_line

    execute_from_command_line(replace_alias(sys.argv))
