"""The collector's daemon with windows shorter than its command line allows: ``python -m
tests.faults.quick_daemon S``.
"""

import os
import sys

from labcarbon_collect.daemon.daemon import Daemon, DaemonSettings
from labcarbon_collect.processes.consumers import ConsumerResolver

if __name__ == "__main__":
    Daemon(
        os.environ, DaemonSettings(interval_s=int(sys.argv[1])), consumers=ConsumerResolver()
    ).run()
