"""`shoal audit`: everything published against the truth or, with only OUT, what the public can check."""

import json
import secrets
from pathlib import Path

import click

from shoal.streams.cli.terminal import Bar, bar


@click.command()
@click.argument("policy", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--audit", type=click.Path(path_type=Path), help="Folder that `shoal replay --audit` wrote; private.")
@click.option(
    "--events", multiple=True, type=click.Path(path_type=Path), help="Events that led to OUT; several in their order."
)
@click.option(
    "--external",
    multiple=True,
    type=click.Path(path_type=Path),
    help="What others had published before the first release, beside what EVENTS says: external events in lines, "
    "a folder of releases or a CSV of generalized rows.",
)
@click.option("--seed", help="Secret that pseudonyms are made with [default: SHOAL_KEY, else a new one every time].")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(
    policy: Path,
    out: Path,
    audit: Path | None,
    events: tuple[Path, ...],
    external: tuple[Path, ...],
    seed: str | None,
    as_json: bool,
) -> int:
    """Check everything published in the folder OUT, trusting nobody.

    With --audit and --events, against who was where and what was true: every promise is recomputed with exact
    fractions, and the report says what an adversary learns and what would have worked on naive releases of the same
    data. With only OUT, what anyone can check. No id and no value is printed; people have pseudonyms.

    Ends with exit code 0 if no promise is broken, and 1 if one is.
    """
    from shoal.core.audit import write_report
    from shoal.streams.files.audit import audit as run
    from shoal.streams.files.policy_yaml import load_policy

    if (audit is None) != (not events):
        raise click.UsageError("--audit and --events go together")
    rules = load_policy(policy)
    if external and audit is None:
        raise click.UsageError("--external goes with --audit and --events: it takes who is where to run the attack")
    with bar("auditing") as shown:
        report = run(rules, out, audit, events, _key(seed), _Shown(shown), external)
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        for line in write_report(report):
            click.echo(line)
    return 0 if report.is_kept else 1


def _key(seed: str | None) -> bytes:
    """The seed, or SHOAL_KEY, or something new: pseudonyms then mean something in this one report only."""
    if seed is None:
        from shoal.streams.settings import load_settings

        key = load_settings().key
        return secrets.token_bytes(32) if key is None else key.get_secret_value().encode("utf-8", "surrogateescape")
    if not seed:
        raise click.BadParameter("an empty seed is no secret", param_hint="--seed")
    return seed.encode("utf-8", "surrogateescape")


class _Shown:
    """Shows an audit's progress on a bar."""

    def __init__(self, shown: Bar) -> None:
        self._bar, self.begin = shown, shown.begin

    def audited(self, number: int) -> None:
        self._bar.advance(1)
        self._bar.say(f"release {number}")
