"""The executor half against scripted brokers: fetchers, recovery, reading."""
