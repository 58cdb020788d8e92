"""Providers of hourly grid intensity: one file each, all off until a lab adds one."""
