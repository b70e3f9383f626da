"""The recruiter: workers reserved for one caller until they are released."""

from typing import Final

from quarterdeck.capability import Capability
from quarterdeck.core.named import Named

RECRUITER: Final = Capability(
    name="recruiter",
    worker_settings=Named("quarterdeck.recruiter.settings:ReservationSettings"),
    metrics=Named("quarterdeck.recruiter.metering:METRICS_OF_RECRUITER"),
    on_coordinator=Named("quarterdeck.recruiter.on_coordinator:RecruiterOnCoordinator"),
    in_local_crew=Named("quarterdeck.recruiter.in_local_crew:recruited"),
    on_worker=Named("quarterdeck.recruiter.on_worker:reservations_on_worker"),
)
