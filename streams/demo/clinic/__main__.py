"""`python -m shoal.streams.demo.clinic FOLDER` writes the clinic's policy, hierarchies and events into a folder."""

from pathlib import Path

import click

from shoal.streams.demo.clinic import Clinic, write_clinic


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--people", default=Clinic.people, show_default=True, help="People in the table on the first night.")
@click.option("--nights", default=Clinic.nights, show_default=True, help="Releases asked for, one a night.")
@click.option("--seed", default=Clinic.seed, show_default=True, help="Another number gives another clinic.")
def main(folder: Path, people: int, nights: int, seed: int) -> None:
    """Write the clinic's policy.yaml, its hierarchies and events.jsonl into FOLDER."""
    lines = write_clinic(folder, Clinic(people, nights, seed))
    click.echo(f"{lines:,} events in {folder / 'events.jsonl'}")


if __name__ == "__main__":
    main()
