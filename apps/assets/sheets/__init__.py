"""The register as a spreadsheet: read from CSV of several origins, and written as CSV of our own."""
