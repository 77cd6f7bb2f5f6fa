"""`shoal audit`: checks a folder of releases, against the truth or, with only OUT, as the public can."""

import json
import secrets
from pathlib import Path

import click

from shoal.streams.cli.event_format import choice_of, format_options
from shoal.streams.cli.secret import read_secret, secret_options
from shoal.streams.cli.terminal import Bar, bar


@click.command()
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--previous",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A policy that the table had before POLICY; repeat for several, oldest first.",
)
@click.option("--audit", type=click.Path(path_type=Path), help="Folder that `shoal replay --audit` wrote; private.")
@click.option(
    "--events",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Events that OUT was made from; repeat for several files, in order.",
)
@format_options("Each of the events files")
@click.option(
    "--external",
    multiple=True,
    type=click.Path(path_type=Path),
    help="What others had published before the first release, besides the external events in EVENTS: external events "
    "in lines, a folder of releases or a CSV of generalized rows.",
)
@secret_options("from which pseudonyms are made [default: SHOAL_KEY, else a new one every time]")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(
    policy: Path,
    out: Path,
    previous: tuple[Path, ...],
    audit: Path | None,
    events: tuple[Path, ...],
    external: tuple[Path, ...],
    seed: str | None,
    seed_file: Path | None,
    as_json: bool,
    event_format: str | None,
    mapping: Path | None,
) -> int:
    """Check that the releases in the folder OUT keep every promise, trusting nothing that made them.

    With --audit and --events the auditor knows the truth and who was published where. It recomputes every promise with
    exact fractions, says what an adversary learns, and runs the same attacks on naive releases of the same data. With
    only OUT it checks what anyone can check. No id and no value is printed; people have pseudonyms.

    The exit code is 0 if no promise is broken, and 1 if one is.
    """
    from shoal.core.audit import write_report
    from shoal.streams.files.audit import audit as run
    from shoal.streams.files.policy_yaml import load_policy
    from shoal.streams.files.verdict import write_verdict

    if (audit is None) != (not events):
        raise click.UsageError("--audit and --events go together")
    rules = load_policy(policy)
    if external and audit is None:
        raise click.UsageError(
            "--external goes with --audit and --events: the attack needs to know who was published where"
        )
    # Without a secret the pseudonyms are good for this one report only.
    key = read_secret(seed, seed_file) or secrets.token_bytes(32)
    with bar("auditing") as shown:
        choice = choice_of(event_format, mapping)
        earlier = [load_policy(path) for path in previous]
        shown_to = _Shown(shown)
        report = run(rules, out, audit, events, key, shown_to, external=external, choice=choice, previous=earlier)
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        for line in (*write_verdict(report), "", "In detail:", "", *write_report(report)):
            click.echo(line)
    return 0 if report.is_kept else 1


class _Shown:
    """Shows an audit's progress on a bar."""

    def __init__(self, shown: Bar) -> None:
        self._bar, self.begin = shown, shown.begin

    def audited(self, number: int) -> None:
        self._bar.advance(1)
        self._bar.say(f"release {number}")
