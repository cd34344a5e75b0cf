"""Helpers that several folders share: locked files, redacted secrets, plurals, bounded waits."""
