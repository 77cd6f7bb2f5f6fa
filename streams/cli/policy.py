"""`shoal policy check`, `shoal policy init`, `shoal policy change` and `shoal policy schema`."""

import json
from pathlib import Path

import click

from shoal.streams.cli.event_format import choice_of, format_options
from shoal.streams.cli.terminal import bar, json_option, note, quiet_clients


@click.group()
def command() -> None:
    """Check or change a policy, or print the schemas."""


@command.command()
@click.argument("policy", type=click.Path(path_type=Path))
@click.option(
    "--sample",
    "samples",
    multiple=True,
    type=click.Path(allow_dash=True),
    help="File of events, or of a panel, to try the policy on; warns of what it cannot do well. Repeat for several.",
)
@format_options("The sample")
@json_option
def check(policy: Path, samples: tuple[str, ...], event_format: str | None, mapping: Path | None, as_json: bool) -> int:
    """Check a policy: list every mistake in it, or say what it promises.

    With --sample the exit code is 2 if more than half of the sample would be rejected: the policy or the mapping is not
    the sample's.
    """
    from shoal.streams.errors import InputError
    from shoal.streams.files.policy_summary import NO_TRIGGER, describe, warnings
    from shoal.streams.files.policy_yaml import load_policy

    rules = load_policy(policy)
    said: list[tuple[str, str]] = []
    for line in describe(rules):
        name, sentence = line.split(maxsplit=1)
        said.append((name, sentence))
    warned = list(warnings(rules))
    misfits = False
    if samples:
        from shoal.streams.files.formats import find_reader
        from shoal.streams.files.policy_sample import findings, read_sample

        with bar("reading the sample") as shown:
            sample = read_sample(rules, samples, choice_of(event_format, mapping), shown)
            found = list(findings(rules, sample))
        misfits = sample.is_mostly_rejected
        if find_reader(samples[0], rules, choice_of(event_format, mapping)).is_panel:  # its periods make releases
            warned = [sentence for sentence in warned if sentence != NO_TRIGGER]
        for finding in found:
            if finding.name is None:
                warned.append(finding.sentence)
            else:
                said.append((finding.name, finding.sentence))
    if as_json:
        lines = [{"name": name, "sentence": sentence} for name, sentence in said]
        click.echo(json.dumps({"policy": lines, "warnings": warned}, indent=2, ensure_ascii=False))
        return 2 if misfits else 0
    for name, sentence in said:
        click.echo(f"{name:<12}{sentence}")
    for warning in warned:
        note(warning if warning.startswith(" ") else f"warning: {warning}")
    if misfits:
        raise InputError("more than half of the sample would be rejected: is this its policy, and its mapping?")
    return 0


@command.command()
@click.option(
    "--from",
    "source",
    metavar="SOURCE",
    required=True,
    help="CSV file, address of a PostgreSQL database (postgresql://…), or Debezium topic.",
)
@click.option("--table", metavar="SCHEMA.NAME", help="With PostgreSQL: the table to look at.")
@click.option("--id", "id_column", metavar="COLUMN", help="Column of the person's id [default: the primary key].")
@click.option(
    "--sensitive", metavar="COLUMN", help="The sensitive column; without it, the command lists the candidates."
)
@click.option(
    "--period", metavar="COLUMN", help="In a CSV file with several rows per person: the column of the period."
)
@click.option("--name", default="people", show_default=True, help="The name of the published table.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="A new folder for the files."
)
def init(
    source: str,
    table: str | None,
    id_column: str | None,
    sensitive: str | None,
    period: str | None,
    name: str,
    out: Path,
) -> None:
    """Look at data and write a first policy and mapping, with a comment on every decision.

    A CSV file is read whole. If people have several rows, the command looks for the column of the period. Of a database
    it sees up to 10,000 rows.
    """
    from datetime import UTC, datetime

    from shoal.streams.errors import InputError
    from shoal.streams.files.fresh_file import write_fresh
    from shoal.streams.files.mapping.mapping import Reads, load_mapping
    from shoal.streams.files.policy_yaml import load_policy
    from shoal.streams.settings import load_settings
    from shoal.streams.source.first.draft import draft
    from shoal.streams.source.first.look import look_at

    quiet_clients()
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out} is not empty; name a new folder.")
    settings = load_settings()
    with bar("looking", in_bytes=True) as shown:
        look = look_at(source, table, settings, shown)
    made = draft(look, name, id_column, sensitive, period, datetime.now(UTC).date())
    out.mkdir(parents=True, exist_ok=True)
    for file, text in made.files.items():
        write_fresh(out / file, text.encode())
        click.echo(out / file)
    rules = load_policy(out / "policy.yaml")
    for sentence in made.notes:
        note(sentence)
    note("read every line of both files before you use them: nothing is decided.")
    if look.kind == "csv":
        load_mapping(out / "mapping.yaml", rules, Reads.FILES)
        first, mapping = out / "policy.yaml", out / "mapping.yaml"
        note(f"then: shoal policy check {first} --sample {source} --map {mapping}")
        note(f"and:  shoal replay {first} {source} --map {mapping} --out OUT")


@command.command()
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--policy", type=click.Path(path_type=Path), help="The table's current policy [default: SHOAL_POLICY].")
@click.option("--kafka", metavar="HOST:PORT", help="Broker [default: SHOAL_KAFKA].")
@click.option("--dry-run", is_flag=True, help="Only list the differences.")
def change(new: Path, policy: Path | None, kafka: str | None, dry_run: bool) -> None:
    """Ask for a release, with which the policy NEW takes over.

    Lists every difference and its effect. If one of them is refused, nothing is asked for. When the release is
    out, the workers end: start them again with NEW.
    """
    import asyncio

    from shoal.streams.files.policy_change import describe, refuse
    from shoal.streams.files.policy_record import pack_policy
    from shoal.streams.files.policy_yaml import load_policy
    from shoal.streams.files.produce import request_change
    from shoal.streams.settings import load_settings

    quiet_clients()
    settings = load_settings(required=["policy"], policy=None if policy is None else str(policy), kafka=kafka)
    old, rules = load_policy(settings.policy_path), load_policy(new)
    for line in describe(old, rules):
        click.echo(line)
    refuse(old, rules)
    if not dry_run:
        asyncio.run(request_change(settings, old, pack_policy(Path(settings.policy_path)), pack_policy(new)))
        click.echo(f"asked for the change of table {old.table}: start the workers with {new} when they have ended")


@command.command()
@click.argument("what", type=click.Choice(["policy", "event", "release", "mapping", "asyncapi"]), default="policy")
@click.option(
    "--to", type=click.Path(path_type=Path, file_okay=False), help="Write all schemas to this folder, by version."
)
def schema(what: str, to: Path | None) -> None:
    """Print the JSON Schema of WHAT: policy (the default), event, release (one record of it), or mapping.

    asyncapi prints the topics as AsyncAPI 3.
    """
    from shoal.streams.files.schemas import write_document, write_documents

    if to is None:
        click.echo(write_document(what), nl=False)
        return
    for path in write_documents(to):
        click.echo(path)
