"""The HTTP interface, as an application that uvicorn, Ray Serve or a test can run."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import resources
from typing import Annotated

from fastapi import FastAPI, Query
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from normscope import __version__
from normscope.errors import NormscopeError
from normscope.images.folder import SUFFIXES
from normscope.images.notation import printable
from normscope.report.page import asset, heat_gradient
from normscope.report.words import in_words
from normscope.server import protocol
from normscope.server.batching import Load
from normscope.server.edge import Edge, error
from normscope.server.limits import RETRY, BusyError, Limits
from normscope.server.metrics import CONTENT_TYPE
from normscope.server.schema import FILES, Description, DriftState, ErrorAnswer, Recent, ScoredRow
from normscope.server.service import Result, Service
from normscope.server.uploads import received, spooled

__all__ = ["make_app"]

DESCRIPTION = 'Says how surprising images are to a model that knows normal ones. Errors are `{"error": "…"}`.'
ERRORS: dict[int | str, dict[str, object]] = {
    code: {"model": ErrorAnswer} for code in (400, 401, 404, 408, 413, 415, 422, 500, 503)
}


def make_app(load: Load, limits: Limits | None = None, token: str | None = None) -> FastAPI:
    """Serves the models that `load` returns by name; it is called once, in the scoring thread, when the server starts.

    `app.state.service` holds the state of the server. Docs pages are left out, as they would load scripts from
    elsewhere; the schema is at /openapi.json.
    """
    service = Service(load, limits or Limits(), token)
    app = FastAPI(
        title="normscope",
        version=__version__,
        description=DESCRIPTION,
        lifespan=running(service),
        docs_url=None,
        redoc_url=None,
        responses=ERRORS,
    )
    app.state.service = service
    app.add_middleware(Edge, service=service)
    app.include_router(protocol.routes(service))
    add_errors(app)
    add_scoring(app, service)
    add_page(app)
    return app


def running(service: Service):  # type: ignore[no-untyped-def]
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.batcher.thread.start()
        yield
        await asyncio.to_thread(service.batcher.close)

    return lifespan


def add_scoring(app: FastAPI, service: Service) -> None:
    @app.post("/score", openapi_extra=FILES, response_model_exclude_unset=True)
    async def score(
        request: Request,
        model: Annotated[str | None, Query(description="Name of a model; the first one if not given.")] = None,
        heatmaps: Annotated[bool, Query(description="Add `picture` and `heatmap`, data URLs, to each row.")] = False,
    ) -> list[ScoredRow]:
        """Score images: one row for each file, in order; one that cannot be read has an `error`."""
        name, _ = service.model(model)
        service.batcher.check_queue()  # before the images are read, which would be for nothing
        async with received(request) as files, spooled(files) as paths:
            rows = await service.rows(name, [file.filename or "" for file in files], paths, heatmaps)
        return [ScoredRow.model_validate(row) for row in rows]

    @app.get("/history", response_model_exclude_unset=True)
    async def history() -> list[Recent]:
        """What `/score` answered lately, the latest first; it is kept in memory alone."""
        return [Recent.model_validate(one) for one in service.history]

    @app.get("/models")
    async def models() -> Description:
        """The models in plain words, and the limits of this server."""
        return Description.model_validate(
            {"models": described(service), "limits": vars(service.limits), "suffixes": SUFFIXES, "version": __version__}
        )

    @app.get("/drift")
    async def drift() -> list[DriftState]:
        """Whether normal has moved since the server started, for each model with a calibration set."""
        return [
            DriftState(model=name, images=one.every.seen, flagged=one.flagged, message=one.message)
            for name, one in service.batcher.drifts.items()
        ]

    @app.get("/metrics", response_class=PlainTextResponse)
    async def metrics() -> Response:
        """For Prometheus."""
        moved = {name: one.message is not None for name, one in service.batcher.drifts.items()}
        return Response(service.metrics.text(*figures(service), moved), media_type=CONTENT_TYPE)


def described(service: Service) -> list[Result]:
    return [
        {
            "name": name,
            "words": in_words(model),
            "promise": model.calibration.promise if model.calibration else None,
            "note": model.calibration.note if model.calibration else None,
            "threshold": model.calibration.threshold if model.calibration else None,
            "heatmaps": model.method.scaled_heat,
            "card": model.card,
        }
        for name, model in service.models().items()
    ]


Figures = Mapping[str, tuple[str, float]]


def figures(service: Service) -> tuple[Figures, Figures]:
    """Gauges and counters."""
    batcher = service.batcher
    gauges = {
        "ready": ("Whether requests are taken.", float(service.ready)),
        "active_requests": ("Requests with work to do, in flight.", float(service.active)),
        "waiting_requests": ("Of these, the ones that wait to be scored.", float(len(batcher.waiting))),
    }
    counters = {
        "batches_total": ("Times that images were scored together.", float(batcher.batches)),
        "batched_images_total": ("Images in all of these batches.", float(batcher.images)),
    }
    return gauges, counters


def add_page(app: FastAPI) -> None:
    own = resources.files("normscope.server")
    texts = {
        "/": ("text/html", own.joinpath("page.html").read_text(encoding="utf-8")),
        "/page.css": ("text/css", asset("page.css") + heat_gradient() + own.joinpath("page.css").read_text("utf-8")),
        "/page.js": ("text/javascript", own.joinpath("page.js").read_text(encoding="utf-8")),
    }

    def add(path: str, kind: str, text: str) -> None:
        @app.get(path, include_in_schema=False)
        async def file() -> Response:
            return Response(text, media_type=kind)

    for path, (kind, text) in texts.items():
        add(path, kind, text)


def add_errors(app: FastAPI) -> None:
    """Every error is `{"error": "…"}`."""

    @app.exception_handler(HTTPException)
    async def known(request: Request, problem: HTTPException) -> JSONResponse:
        return error(problem.status_code, problem.detail, dict(problem.headers or {}))

    @app.exception_handler(BusyError)
    async def busy(request: Request, problem: BusyError) -> JSONResponse:
        return error(503, str(problem), RETRY)

    @app.exception_handler(NormscopeError)
    async def wrong(request: Request, problem: NormscopeError) -> JSONResponse:
        return error(400, str(problem))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, problem: RequestValidationError) -> JSONResponse:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return error(422, printable(f"{where}: {first['msg']}"))
