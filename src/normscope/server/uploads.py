"""What a request holds → files with names of our own, in a folder that is gone with the request."""

import shutil
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from normscope.server.limits import MOST_FILES, RETRY

__all__ = ["received", "spooled"]

Kept = TypeVar("Kept")

FIELD = "files"
WANTED = f"send multipart/form-data with each image as a file under the name `{FIELD}`"


@asynccontextmanager
async def received(request: Request) -> AsyncIterator[list[UploadFile]]:
    """The files of a multipart form; whatever is wrong with it is a 4xx."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "multipart/form-data":
        raise HTTPException(415, f"the body is {kind or 'of no type'}; {WANTED}")
    try:
        form = await Parser(request.headers, request.stream()).parse()
    except (MultiPartException, ValueError) as error:  # a ValueError comes of odd character sets
        reason = error.message if isinstance(error, MultiPartException) else "not readable"
        raise HTTPException(400, f"the form could not be read ({reason.rstrip('.')}); {WANTED}") from error
    except OSError as error:
        raise not_kept(error) from error
    try:
        files = [one for one in form.getlist(FIELD) if isinstance(one, UploadFile)]
        if not files or len(files) < len(form.getlist(FIELD)):
            raise HTTPException(400, f"there is {'text' if form.getlist(FIELD) else 'nothing'} for files; {WANTED}")
        yield files
    finally:
        await form.close()


class Parser(MultiPartParser):
    """Starlette's, which would leave out a file that is cut off, and say nothing."""

    ended = False

    def __init__(self, headers: Headers, stream: AsyncIterator[bytes]) -> None:
        super().__init__(headers, self.checked(stream), max_files=MOST_FILES, max_fields=MOST_FILES)

    def on_end(self) -> None:
        self.ended = True

    async def checked(self, stream: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        async for part in stream:
            yield part
        if not self.ended:
            raise MultiPartException("it ends before its last boundary")


@asynccontextmanager
async def spooled(images: Sequence[UploadFile | bytes]) -> AsyncIterator[list[Path]]:
    """Paths of the images. What a client calls its files is no part of them."""
    folder = await kept(new_folder)
    try:
        yield await kept(partial(write_all, images, folder))
    finally:
        await run_in_threadpool(shutil.rmtree, folder, ignore_errors=True)


async def kept(write: Callable[[], Kept]) -> Kept:
    """What `write` returns."""
    try:
        return await run_in_threadpool(write)
    except OSError as error:
        raise not_kept(error) from error


def not_kept(error: OSError) -> HTTPException:
    """A full disk is the server's fault, and may pass."""
    return HTTPException(503, f"the images could not be kept for scoring ({error.strerror}); try again soon", RETRY)


def new_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="normscope-serve-"))


def write_all(images: Sequence[UploadFile | bytes], folder: Path) -> list[Path]:
    paths = [folder / str(index) for index in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        with path.open("xb") as file:
            if isinstance(image, bytes):
                file.write(image)
            else:
                shutil.copyfileobj(image.file, file)
    return paths
