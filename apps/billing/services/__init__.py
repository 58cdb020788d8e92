"""Writes of billing exports: upload, reading, recording, and the hours of collectors."""
