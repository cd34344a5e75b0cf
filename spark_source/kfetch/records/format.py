"""The numbers of Kafka's record batch and message formats: positions, sizes and attribute bits.

The pure decoder, the compiled one and the tests import them from here. This module imports nothing,
because the compiled code depends on its bytes (``compiled.native``).
Layout: kafka.apache.org/documentation/#recordbatch.
"""

# The base offset and the length come first in every format. The length counts the bytes after them.
PREFIX_BYTES = 12
LENGTH_AT, MAGIC_AT = 8, 16

# The header of a v2 batch.
MAGIC_V2 = 2
HEADER_BYTES = 61
LEADER_EPOCH_AT, CRC_AT, ATTRIBUTES_AT, LAST_DELTA_AT = 12, 17, 21, 23
BASE_TIME_AT, MAX_TIME_AT, COUNT_AT = 27, 35, 57
CRC_FROM = ATTRIBUTES_AT  # brokers write the fields before the attributes
RECORD_BYTES_MIN = 7  # length, attributes, time, offset, key, value, headers: a byte each

# Attribute bits. That of the delete horizon, 0x40, changes no record's time.
CODEC = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

# Messages of v0 and v1 (before Kafka 0.11).
LEGACY_CRC_FROM = MAGIC_AT
LEGACY_LENGTH_MIN = {0: 14, 1: 22}  # the smallest length field, by magic

# Java's TimestampType. Format v0 has none.
NO_TIMESTAMP_TYPE, CREATE, LOG_APPEND = -1, 0, 1

OFFSET_MAX = 2**63 - 2  # the offset after it must fit into 64 bits too
NO_TIMESTAMP = -1
MILLISECONDS_MAX = (2**63 - 1) // 1000  # beyond it Spark's microseconds overflow
