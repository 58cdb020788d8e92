"""``python -m labcarbon_collect``."""

from labcarbon_collect.cli import main

raise SystemExit(main())
