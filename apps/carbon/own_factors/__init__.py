"""A lab's own emission factors: files with them, their import and their withdrawal."""
