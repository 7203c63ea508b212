"""Small pictures by the thousand, in a temporary file once there are many of them."""

import tempfile

import numpy as np
import numpy.typing as npt

from normscope.errors import ImageFolderError
from normscope.images.reader import Pixels
from normscope.images.size import Size

__all__ = ["Thumbnails"]

IN_MEMORY = 2**20  # bytes


class Thumbnails:
    """Pictures of one size, appended one by one; what is asked for is read from the file, until this is closed.

    It is read and not mapped: pages that are mapped count as memory of the process.
    """

    def __init__(self, size: Size) -> None:
        self._shape = (*size, 3)
        self._bytes = int(np.prod(self._shape))
        self._file = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def close(self) -> None:
        self._file.close()

    def append(self, pixels: Pixels) -> None:
        """[h, w, 3]."""
        try:
            self._file.seek(self._count * self._bytes)
            self._file.write(pixels.tobytes())
        except OSError as error:
            raise ImageFolderError(
                f"thumbnails of {self._count} images do not fit into {tempfile.gettempdir()} ({error.strerror}); make "
                "room there"
            ) from error
        self._count += 1

    def __getitem__(self, which: slice | npt.NDArray[np.intp]) -> Pixels:
        """[n, h, w, 3]."""
        if isinstance(which, slice):
            begin, end, _ = which.indices(self._count)
            return self._read(begin, end - begin)
        found = np.empty((len(which), *self._shape), np.uint8)
        for row, position in enumerate(which.tolist()):
            found[row] = self._read(position, 1)
        return found

    def _read(self, begin: int, count: int) -> Pixels:
        self._file.seek(begin * self._bytes)
        return np.frombuffer(self._file.read(count * self._bytes), np.uint8).reshape(count, *self._shape)
