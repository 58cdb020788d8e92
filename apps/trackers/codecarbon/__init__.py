"""CodeCarbon as a source: its API, its HTTP output and its file, as unmodified clients use them."""
