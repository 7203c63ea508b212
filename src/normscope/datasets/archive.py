"""Takes the wanted files out of a .tar.gz, and nothing else."""

import tarfile
import zlib
from pathlib import Path, PurePosixPath
from shutil import copyfileobj

from normscope.errors import DatasetError
from normscope.files import write_atomically


def unpack(archive: Path, folder: Path, files: tuple[str, ...]) -> None:
    """Unpack `files` into `folder`; in the archive they are in a folder of the same name. Nothing else is unpacked."""
    try:
        with tarfile.open(archive, "r:gz") as tar:
            members = {PurePosixPath(member.name): member for member in tar}
            _refuse_escapes(archive, members)
            for file in files:
                _unpack_one(archive, tar, members.get(PurePosixPath(folder.name, file)), folder / file)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DatasetError(f"{archive} cannot be unpacked ({error}); delete it and fetch it again") from error


def _refuse_escapes(archive: Path, members: dict[PurePosixPath, tarfile.TarInfo]) -> None:
    for name in members:
        if name.is_absolute() or ".." in name.parts:
            raise DatasetError(f"{archive} has a member {str(name)!r} outside of its folder; do not use this archive")


def _unpack_one(archive: Path, tar: tarfile.TarFile, member: tarfile.TarInfo | None, path: Path) -> None:
    stream = tar.extractfile(member) if member and member.isreg() else None
    if stream is None:
        raise DatasetError(f"{archive} has no regular file {path.parent.name}/{path.name}; get the published archive")
    with stream:
        write_atomically(path, lambda file: copyfileobj(stream, file))
