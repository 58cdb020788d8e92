"""The fingerprint where the run is."""
