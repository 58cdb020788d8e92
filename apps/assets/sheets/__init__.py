"""The register as a spreadsheet: read from CSV of several origins, written as CSV."""
