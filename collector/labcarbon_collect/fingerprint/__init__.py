"""Builder of fingerprint ``lc1`` on the node of a run, as described in docs/fingerprint.md.

``survey`` examines a command. ``launchers``, ``arguments``, ``parameters`` and ``path_roles``
classify its arguments, ``code`` its code (``git``, ``imports``, ``normalise``), and ``digests`` its
data. ``hash_worker`` hashes large data in the background.
"""

from labcarbon_collect.fingerprint.builder import Survey, gather, survey

__all__ = ("Survey", "gather", "survey")
