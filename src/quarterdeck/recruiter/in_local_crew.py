"""Where the workers of a crew on this machine can be recruited."""

from collections.abc import Mapping

from quarterdeck.local_crew.worker_to_be import WorkerToBe
from quarterdeck.recruiter.settings import ReservationSettings


def recruited(worker: WorkerToBe) -> Mapping[str, str]:
    """At their own coordinator, unless somebody has set it. One that was left alone need not be a new process here: it
    registers again."""
    already = worker.settings.section(ReservationSettings).model_fields_set
    if worker.number < worker.keep_back:
        return {"recruiter.urls": ""} if "urls" in already else {}
    given = {"urls": worker.coordinator_url, "leave_when_abandoned": "false"}
    return {f"recruiter.{name}": value for name, value in given.items() if name not in already}
