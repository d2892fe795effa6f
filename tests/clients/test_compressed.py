"""Compressed files as streams: whole, in several members, cut off, damaged, and made to burst; and text in two bytes a letter."""

import bz2
import gzip
import io
import lzma
import random
from collections.abc import Callable

import pytest
import zstandard

from bot.clients import compressed
from bot.clients.compressed import Decompressed, opened

LOG = b"".join(b"INFO line %d of a log\n" % number for number in range(20_000))


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data)


def zstandardised(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def read(data: bytes) -> tuple[bytes, str]:
    stream = opened(io.BytesIO(data))
    return stream.read(), getattr(stream, "short", "")


@pytest.mark.parametrize("squeeze", [gzipped, zstandardised, bz2.compress, lzma.compress, bytes])
def test_the_bytes_inside_come_out_whatever_the_form(squeeze: Callable[[bytes], bytes]) -> None:
    assert read(squeeze(LOG)) == (LOG, "")
    assert read(squeeze(LOG) + squeeze(b"and more\n")) == (LOG + b"and more\n", "")


@pytest.mark.parametrize("squeeze", [gzipped, zstandardised, bz2.compress, lzma.compress])
def test_an_empty_file_inside_is_empty(squeeze: Callable[[bytes], bytes]) -> None:
    assert read(squeeze(b"")) == (b"", "")


@pytest.mark.parametrize("squeeze", [gzipped, bz2.compress, lzma.compress])
def test_what_stands_in_front_of_a_cut_is_read(squeeze: Callable[[bytes], bytes]) -> None:
    noise = random.Random(1).randbytes(8 * compressed.CHUNK)  # bzip2 gives nothing before a block of 900,000 bytes is whole
    found, short = read(squeeze(noise)[: 6 * compressed.CHUNK])
    assert short == "cut off"
    assert noise.startswith(found)
    assert len(found) > compressed.CHUNK


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ["", "INFO a line\r\n", "█ 显存不足 🔥\n" * 50_000])
def test_what_a_windows_shell_wrote_is_read_as_text(text: str, encoding: str) -> None:
    assert read(("\ufeff" + text).encode(encoding)) == (text.encode(), "")


def test_half_a_letter_at_the_end_is_no_harm() -> None:
    assert read("\ufeffab".encode("utf-16-le") + b"\x3d")[0] == "ab\ufffd".encode()


@pytest.mark.parametrize("squeeze", [gzipped, zstandardised, bz2.compress, lzma.compress])
def test_damage_ends_the_stream_with_its_reason(squeeze: Callable[[bytes], bytes]) -> None:
    data = bytearray(squeeze(random.Random(2).randbytes(100_000)))
    data[-6] ^= 0xFF  # a checksum
    _, short = read(bytes(data))
    assert short.startswith("damaged")


def test_zeros_behind_a_member_are_padding_and_other_bytes_end_it() -> None:
    assert read(gzipped(LOG) + b"\0" * 5000) == (LOG, "")
    assert read(gzipped(LOG) + b"rubbish") == (LOG, "")


def test_a_file_that_expands_without_end_is_read_up_to_a_limit() -> None:
    plain = io.BytesIO(gzip.compress(b"\0" * 10_000_000))
    bomb = Decompressed(plain, compressed._Gzip(plain), 1_000_000)
    assert len(bomb.read()) == 1_000_000
    assert bomb.short == "expands without end"


def test_memory_stays_flat_while_a_bomb_is_read() -> None:
    plain = io.BytesIO(gzip.compress(b"\0" * 50_000_000))
    bomb = Decompressed(plain, compressed._Gzip(plain), compressed.MOST)
    sizes = {len(piece) for piece in iter(lambda: bomb.read(65536), b"")}
    assert max(sizes) <= 65536


def test_closing_it_closes_the_file() -> None:
    plain = io.BytesIO(gzipped(LOG))
    with opened(plain) as stream:
        stream.read(10)
    assert plain.closed


def test_a_read_gives_as_much_as_was_asked_for() -> None:
    stream = opened(io.BytesIO(gzipped(LOG) + gzipped(LOG)))
    assert stream.read(len(LOG) + 10) == LOG + LOG[:10]
    assert stream.read(-1) == LOG[10:]
    assert stream.read(5) == b""


@pytest.mark.parametrize("empty", [gzip.compress(b""), bz2.compress(b""), lzma.compress(b"")], ids=["gzip", "bzip2", "xz"])
def test_members_that_hold_nothing_cost_what_they_are_long(empty: bytes) -> None:
    class Counted(io.BytesIO):
        asked = 0

        def read(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            self.asked = max(self.asked, size)  # what stands behind the end of a member is copied with each
            return super().read(size)

    source = Counted(empty * 3_000)
    assert opened(source).read() == b""
    assert 0 < source.asked <= 16 * 2**10
