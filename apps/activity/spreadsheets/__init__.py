"""Activities in spreadsheet files."""
