"""The recruiter in a coordinator, and in a process by itself."""

from collections.abc import Mapping, Sequence

from fastapi import APIRouter
from starlette.types import ASGIApp

from quarterdeck.capability.coordinator import CoordinatorHost, CoordinatorPart
from quarterdeck.recruiter.metering import RecruiterMeter, RecruiterMetrics, measured, scaling
from quarterdeck.recruiter.routes import RecruiterRoute, recruiter_router
from quarterdeck.recruiter.service import OwnRecruiter, RecruiterService


class RecruiterOnCoordinator(CoordinatorPart):
    def __init__(self, host: CoordinatorHost) -> None:
        metrics = RecruiterMetrics(host.registry)
        self._service = RecruiterService(host.clock, host.ids, RecruiterMeter(metrics.wait))
        self._route = RecruiterRoute(self._service)
        doors = host.doors
        metrics.read_figures_from(lambda: measured(self._service.figures(), doors.rejections(), doors.stalls()))
        host.offers.put(OwnRecruiter, OwnRecruiter(self._service))

    def routers(self) -> Sequence[APIRouter]:
        return (recruiter_router(self._service, self._route),)

    def raw_routes(self) -> Mapping[str, ASGIApp]:
        return self._route.by_path()

    def scaling(self) -> Mapping[str, float]:
        return scaling(self._service.figures())

    def close(self) -> None:
        """Registered workers are sent to another recruiter."""
        self._service.close()
