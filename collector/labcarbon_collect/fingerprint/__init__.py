"""Gathering a run's fingerprint ``lc1`` where the run is. docs/fingerprint.md says what is in it.

``survey`` looks at a command; ``words`` sorts its arguments, ``code`` its code (``git``, ``imports``, ``normal``),
``manifests`` and ``digests`` its data; ``digest_child`` hashes large data beside the work.
"""

from labcarbon_collect.fingerprint.builder import Survey, gather, survey

__all__ = ("Survey", "gather", "survey")
