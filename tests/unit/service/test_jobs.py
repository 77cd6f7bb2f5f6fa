"""What each of several jobs is given: a port and a name of its own, and no more."""

import pytest

from shoal.streams.errors import InputError
from shoal.streams.settings import Settings
from shoal.streams.worker.instance import instance_of
from shoal.streams.worker.jobs import of_job


def test_each_job_has_its_own_port_and_name_and_otherwise_the_same_settings() -> None:
    settings = Settings(web_port=7000, instance="ward")
    jobs = [of_job(settings, number) for number in range(3)]
    assert [job.web_port for job in jobs] == [7000, 7001, 7002]
    assert [instance_of(job) for job in jobs] == ["ward-0", "ward-1", "ward-2"]
    same = {"web_port": 0, "instance": None}
    assert {repr(job.model_copy(update=same)) for job in jobs} == {repr(settings.model_copy(update=same))}


def test_without_a_name_the_host_and_the_port_are_one() -> None:
    jobs = [of_job(Settings(web_port=7000), number) for number in range(2)]
    names = [instance_of(job) for job in jobs]
    assert names[0] is not None
    assert names[0].endswith("-7000")
    assert len(set(names)) == 2
    assert instance_of(of_job(Settings(web_port=0), 1)) is None


def test_there_must_be_a_port_for_each_job() -> None:
    with pytest.raises(InputError, match="there is no port 65536 for job 1"):
        of_job(Settings(web_port=65535), 1)
