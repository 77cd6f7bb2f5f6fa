"""`shoal worker`: runs the service."""

from pathlib import Path

import click


@click.command()
@click.option("--policy", type=click.Path(path_type=Path), help="The table's policy [default: SHOAL_POLICY].")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Workers side by side, each a process of its own.",
)
@click.option("--job", type=click.IntRange(0), hidden=True, help="Which of them this is.")
@click.pass_context
def command(ctx: click.Context, policy: Path | None, jobs: int, job: int | None) -> int:
    """Run the service: events from Kafka in, releases out.

    It needs Kafka, Redis, a policy and the secret SHOAL_KEY, and stops cleanly on Ctrl-C or SIGTERM. With --jobs each
    worker has a port of its own, from SHOAL_WEB_PORT upwards; if one of them ends, all do.
    """
    from shoal.streams.cli import is_debugging
    from shoal.streams.settings import load_settings

    named = None if policy is None else str(policy)
    settings = load_settings(required=["policy", "key"], policy=named)
    if jobs > 1 and job is None:
        from shoal.streams.worker.jobs import run_jobs

        options = [*(["--debug"] if is_debugging(ctx) else []), *([] if named is None else ["--policy", named])]
        return run_jobs(["worker", *options], jobs)
    from shoal.streams.memory import use_one_heap
    from shoal.streams.worker.app import run_worker

    use_one_heap()
    if job is not None:
        from shoal.streams.worker.jobs import end_with_parent, of_job

        settings = of_job(settings, job)
        end_with_parent()
    return run_worker(settings, debug=is_debugging(ctx))
