"""Reads gzip, zstd, bzip2 and xz, and UTF-16 as a Windows shell writes it, as a stream of plain bytes, whatever the file is called. Understands no content.

Bounded: a file that expands to far more than any log does is read up to a limit. What is cut off or damaged ends the stream early; `short` says why.
"""

import codecs
import io
import zlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

if TYPE_CHECKING:  # not at run time: most files are not compressed
    from bz2 import BZ2Decompressor
    from lzma import LZMADecompressor

CHUNK = 256 * 2**10  # bytes of text that are read at a time
PACKED = 16 * 2**10  # of compressed ones: where a member ends, the rest of them is copied, and a file may be nothing but empty members
MOST = 4 * 2**30  # bytes that any file may expand to
RATIO = 400  # beyond that, how many times its own size; a log of health checks compresses some hundred times
_WINDOW = 2**27  # bytes that a zstd or xz file may make us keep


class _Decompressor(Protocol):
    def into(self, view: memoryview) -> int:
        """Puts the next bytes there and gives how many; 0 at the end. Raises EOFError when the file is cut off, ValueError when it is damaged."""


class _Pieces:
    """A decompressor that gives its bytes in pieces."""

    def more(self, size: int) -> bytes:
        """At most `size` next bytes; none at the end. Raises like `into`."""
        raise NotImplementedError

    def into(self, view: memoryview) -> int:
        found = self.more(len(view))
        view[: len(found)] = found
        return len(found)


class _Gzip(_Pieces):
    """One or several gzip members, one after another."""

    def __init__(self, plain: BinaryIO) -> None:
        self._plain, self._member, self._waiting = plain, zlib.decompressobj(31), b""

    def more(self, size: int) -> bytes:
        while True:
            if not self._waiting:
                self._waiting = self._plain.read(PACKED)
                if not self._waiting and not self._member.eof:
                    raise EOFError("cut off")
            if self._member.eof:
                self._waiting = self._waiting.lstrip(b"\0") or self._plain.read(PACKED).lstrip(b"\0")  # files may be padded with zeros
                if not self._waiting.startswith(b"\x1f\x8b"):
                    return b""
                self._member = zlib.decompressobj(31)
            try:
                found = self._member.decompress(self._waiting, size)
            except zlib.error as wrong:
                raise ValueError(f"damaged: {wrong}") from None
            self._waiting = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if found:
                return found
            if self._member.eof and not self._waiting:
                self._waiting = self._plain.read(PACKED)
                if not self._waiting:
                    return b""


class _Zstd:
    """One or several zstd frames."""

    def __init__(self, plain: BinaryIO) -> None:
        import zstandard  # not at the top: most files are not compressed

        self._error = zstandard.ZstdError
        self._stream = zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(plain, read_across_frames=True, closefd=False)

    def into(self, view: memoryview) -> int:
        try:
            return int(self._stream.readinto(view))
        except self._error as wrong:
            raise ValueError(f"damaged: {wrong}") from None


class _Members(_Pieces):
    """One or several bzip2 or xz streams, one after another. `begin` makes the decompressor of one, `failure` is what it raises."""

    def __init__(self, plain: BinaryIO, begin: "Callable[[], BZ2Decompressor | LZMADecompressor]", failure: type[Exception]) -> None:
        self._plain, self._begin, self._failure = plain, begin, failure
        self._member = begin()

    def more(self, size: int) -> bytes:
        while True:
            waiting = b""
            if self._member.eof:
                waiting = self._member.unused_data.lstrip(b"\0") or self._plain.read(PACKED).lstrip(b"\0")
                if not waiting:
                    return b""
                self._member = self._begin()
            elif self._member.needs_input:
                waiting = self._plain.read(PACKED)
                if not waiting:
                    raise EOFError("cut off")
            try:
                found = self._member.decompress(waiting, size)
            except self._failure as wrong:
                raise ValueError(f"damaged: {wrong}") from None
            if found:
                return found


class _Utf16(_Pieces):
    """Text in two bytes a letter, as UTF-8 and without the mark in front. What is no text becomes a replacement mark."""

    def __init__(self, plain: BinaryIO, encoding: str) -> None:
        plain.seek(2)
        self._plain, self._decoder, self._waiting = plain, codecs.getincrementaldecoder(encoding)(errors="replace"), b""

    def more(self, size: int) -> bytes:
        while not self._waiting:
            pairs = self._plain.read(CHUNK)
            self._waiting = self._decoder.decode(pairs, final=not pairs).encode(errors="replace")
            if not pairs:
                break
        found, self._waiting = self._waiting[:size], self._waiting[size:]
        return found


def _bzip2(plain: BinaryIO) -> _Decompressor:
    import bz2

    return _Members(plain, bz2.BZ2Decompressor, OSError)


def _xz(plain: BinaryIO) -> _Decompressor:
    import lzma

    return _Members(plain, lambda: lzma.LZMADecompressor(memlimit=_WINDOW), lzma.LZMAError)


class Decompressed(io.RawIOBase):
    """The bytes inside a compressed file. `short`: why they end before the file says so; "" while nothing is missing."""

    def __init__(self, plain: BinaryIO, decompressor: _Decompressor, most: int) -> None:
        self._plain, self._decompressor, self._left = plain, decompressor, most
        self.short = ""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        if self.short or not len(view):
            return 0
        try:
            count = self._decompressor.into(view[: self._left])
        except (EOFError, ValueError) as wrong:
            self.short = str(wrong)
            return 0
        self._left -= count
        if not self._left:
            self.short = "expands without end"
        return count

    def read(self, size: int = -1, /) -> bytes:
        """As many bytes as asked for, if there are so many."""
        if size < 0:
            return self.readall()
        pieces: list[bytes] = []
        while size > 0:
            piece = super().read(size)
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        self._plain.close()
        super().close()


_FORMS: dict[bytes, Callable[[BinaryIO], _Decompressor]] = {
    b"\x1f\x8b": _Gzip,
    b"\x28\xb5\x2f\xfd": _Zstd,
    b"BZh": _bzip2,
    b"\xfd7zXZ\0": _xz,
    codecs.BOM_UTF16_LE: partial(_Utf16, encoding="utf-16-le"),
    codecs.BOM_UTF16_BE: partial(_Utf16, encoding="utf-16-be"),
}


def opened(plain: BinaryIO) -> BinaryIO:
    """The stream itself, or the bytes inside when it is compressed. Takes over closing it."""
    head = plain.read(6)
    size = plain.seek(0, io.SEEK_END)
    plain.seek(0)
    form = next((form for mark, form in _FORMS.items() if head.startswith(mark)), None)
    return plain if form is None else cast(BinaryIO, Decompressed(plain, form(plain), max(MOST, RATIO * size)))
