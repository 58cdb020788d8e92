"""An MLflow server as a source: polled, because it cannot send its runs itself."""
