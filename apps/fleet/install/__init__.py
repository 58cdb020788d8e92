"""The install address: the script of the collector, and the files that it downloads."""
