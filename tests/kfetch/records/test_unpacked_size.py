"""How many bytes a compressed batch may unpack to, read from its frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kfetch.records.unpacked_size import gzip_claim, size_bound
from tests.kfetch.records.batch_builder import CODECS

BLOCK_BYTES_MAX = 4 << 20
"""The largest block of any codec: lz4's."""
BOUNDED = [name for name, (number, _) in CODECS.items() if number > 1]
DATA = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda piece, count: piece * count, st.binary(max_size=8), st.integers(0, 20_000)),
)


@pytest.mark.parametrize("codec", BOUNDED)
@given(data=DATA)
def test_intact_data_never_exceeds_the_bound(codec: str, data: bytes) -> None:
    """The bound of snappy, lz4 and zstd is at least the unpacked size, and at most two blocks more,
    because a frame may end with a small block."""
    number, pack = CODECS[codec]
    bound = size_bound(number, memoryview(pack(data)))

    assert bound is not None
    assert len(data) <= bound <= len(data) + 2 * BLOCK_BYTES_MAX


@given(data=DATA)
def test_snappy_states_its_size(data: bytes) -> None:
    """For snappy the bound is the size, raw and in Java's frame."""
    for name in ("snappy raw", "snappy xerial", "snappy xerial twice"):
        number, pack = CODECS[name]

        assert len(data) == size_bound(number, memoryview(pack(data)))


@given(data=DATA)
def test_gzip_claims_its_size(data: bytes) -> None:
    """A gzip stream of one member has no bound, but claims its size."""
    number, pack = CODECS["gzip"]
    packed = memoryview(pack(data))

    assert size_bound(number, packed) is None
    assert len(data) == gzip_claim(packed)


@pytest.mark.parametrize("codec", BOUNDED)
@given(data=DATA, damage=st.data())
def test_damaged_data_has_a_bound_or_none(codec: str, data: bytes, damage: st.DataObject) -> None:
    """Bytes that are cut or changed give some number or None, and no error."""
    number, pack = CODECS[codec]
    packed = bytearray(pack(data))
    for _ in range(3 if packed else 0):
        packed[damage.draw(st.integers(0, min(len(packed), 40) - 1))] = damage.draw(
            st.integers(0, 255)
        )
    bound = size_bound(number, memoryview(packed)[: damage.draw(st.integers(0, len(packed)))])

    assert bound is None or bound >= 0
