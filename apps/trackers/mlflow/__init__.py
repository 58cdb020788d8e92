"""An MLflow server as a source: polled, as it has no way to tell of its runs by itself."""
