"""Tests of files behind a location."""
