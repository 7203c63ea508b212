"""The Open Inference Protocol, version 2 (https://github.com/kserve/open-inference-protocol): JSON over HTTP."""

import base64
import binascii
import math
from collections.abc import Sequence

import numpy as np
from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from normscope import __version__
from normscope.images.notation import printable
from normscope.model import Model, Scored
from normscope.server.limits import MOST_FILES, RETRY, Limits
from normscope.server.schema import (
    InferAnswer,
    InferRequest,
    Input,
    Live,
    Metadata,
    Ready,
    ServerMetadata,
    Tensor,
    TensorDescription,
)
from normscope.server.service import Service
from normscope.server.uploads import spooled

__all__ = ["routes"]

HEATMAP = "heatmap"
TYPES = {"score": "FP64", "p_value": "FP64", "p_estimate": "FP64", "anomalous": "BOOL", HEATMAP: "FP64"}


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v2", tags=["Open Inference Protocol"])

    @router.get("/health/live")
    async def live() -> Live:
        return Live(live=True)

    @router.get("/health/ready")
    async def ready(response: Response) -> Ready:
        """503 until the models are loaded, and once the server is told to stop."""
        if not service.ready:
            response.status_code, response.headers["Retry-After"] = 503, RETRY["Retry-After"]
        return Ready(ready=service.ready)

    @router.get("")
    async def server() -> ServerMetadata:
        return ServerMetadata(name="normscope", version=__version__, extensions=[])

    @router.get("/models/{name}")
    async def metadata(name: str) -> Metadata:
        name, model = service.model(name)
        return described(name, model)

    @router.get("/models/{name}/ready")
    async def model_ready(name: str, response: Response) -> Ready:
        service.model(name)
        return await ready(response)

    @router.post("/models/{name}/infer", response_model_exclude_none=True)
    async def infer(name: str, request: InferRequest) -> InferAnswer:
        """One input: encoded images as BYTES [n] in base64, or pixels as UINT8 [n, h, w, 3].

        All images must be readable; `/score` gives rows in which some may not be."""
        name, model = service.model(name)
        wanted = outputs(request, model)
        if len(request.inputs) != 1:
            raise HTTPException(
                400, f"there are {len(request.inputs)} inputs; give one, BYTES [n] or UINT8 [n, h, w, 3]"
            )
        images = await run_in_threadpool(files_of, request.inputs[0], service.limits)
        async with spooled(images) as paths:
            scored = await service.scored(name, paths, HEATMAP in wanted)
        check_readable(scored, service)
        return InferAnswer(model_name=name, id=request.id, outputs=[tensor(one, scored) for one in wanted])

    return router


def described(name: str, model: Model) -> Metadata:
    """The two inputs are alternatives."""
    available = [TensorDescription(name=one, datatype=TYPES[one], shape=[-1]) for one in values_of(model)]
    if model.method.explains:
        available.append(TensorDescription(name=HEATMAP, datatype=TYPES[HEATMAP], shape=[-1, -1, -1]))
    inputs = [
        TensorDescription(name="images", datatype="BYTES", shape=[-1]),
        TensorDescription(name="images", datatype="UINT8", shape=[-1, -1, -1, 3]),
    ]
    return Metadata(name=name, versions=["1"], platform="normscope", inputs=inputs, outputs=available)


def values_of(model: Model) -> list[str]:
    if model.calibration is None:
        return ["score"]
    return ["score", "p_value", *(["p_estimate"] if model.calibration.tail else []), "anomalous"]


def outputs(request: InferRequest, model: Model) -> list[str]:
    """What is asked for; everything but heat maps if nothing is."""
    available = values_of(model)
    if request.outputs is None:
        return available
    allowed = [*available, HEATMAP] if model.method.explains else available
    wanted = [one.name for one in request.outputs]
    for name in wanted:
        if name not in allowed:
            raise HTTPException(400, f"no output {printable(name)}; choose from {', '.join(allowed)}")
    return wanted


def files_of(given: Input, limits: Limits) -> list[bytes]:
    """What would be in a file of each image."""
    if not 0 < given.shape[0] <= MOST_FILES if given.shape else True:
        raise HTTPException(400, f"the shape {given.shape} is not of 1 to {MOST_FILES} images")
    return decoded(given) if given.datatype == "BYTES" else pixel_files(given, limits)


def decoded(given: Input) -> list[bytes]:
    if given.shape != [len(given.data)]:
        raise HTTPException(400, f"{len(given.data)} BYTES do not have the shape {given.shape}")
    return [decoded_one(number, text) for number, text in enumerate(given.data)]


def decoded_one(number: int, text: object) -> bytes:
    try:
        return base64.b64decode(text if isinstance(text, str) else "?", validate=True)
    except (binascii.Error, ValueError):
        raise HTTPException(400, f"image {number} is not base64; give the bytes of an image file so encoded") from None


def pixel_files(given: Input, limits: Limits) -> list[bytes]:
    """Each as a PPM file, which holds the very pixels."""
    if len(given.shape) != 4 or given.shape[3] != 3 or min(given.shape) < 1:
        raise HTTPException(400, f"UINT8 of shape {given.shape}; give [n, h, w, 3]")
    n, height, width, _ = given.shape
    if height * width > limits.pixels:
        raise HTTPException(400, f"{height * width} pixels are too many; {limits.pixels_exceeded}")
    try:
        array = np.asarray(given.data)
    except ValueError:
        array = np.empty(0)
    if array.dtype.kind not in "iu" or array.size != math.prod(given.shape) or array.min() < 0 or array.max() > 255:
        raise HTTPException(400, f"the data are not {math.prod(given.shape)} integers from 0 to 255")
    header = b"P6 %d %d 255\n" % (width, height)
    return [header + image.tobytes() for image in array.astype(np.uint8).reshape(n, -1)]


def check_readable(scored: Sequence[Scored], service: Service) -> None:
    """A tensor has no room for an image without a score."""
    for number, one in enumerate(scored):
        if one.row["error"] is not None:
            raise HTTPException(400, f"image {number}: {service.explained(one.row['error'])}")


def tensor(name: str, scored: Sequence[Scored]) -> Tensor:
    if name == HEATMAP:
        maps = np.stack([one.heat for one in scored if one.heat is not None])
        return Tensor(name=name, datatype=TYPES[name], shape=list(maps.shape), data=maps.ravel().tolist())
    values: list[object] = [dict(one.row)[name] for one in scored]
    return Tensor(name=name, datatype=TYPES[name], shape=[len(values)], data=values)
