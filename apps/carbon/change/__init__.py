"""The change of use between two periods, divided into parts."""
