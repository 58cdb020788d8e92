"""CodeCarbon as a source: API, HTTP output and file of unmodified clients."""
