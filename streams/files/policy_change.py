"""Changes of policy between releases: which policy a release is made under, and the effects of a change."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from shoal.core.policy.difference import Difference, differences
from shoal.core.policy.meaning import meaning_of
from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.files.policy_yaml import load_policy

Changes = Mapping[int, Policy]
"""By release, the policy that takes the place of the one before, from this release on."""


def policy_at(release: int, first: Policy, changes: Changes) -> Policy:
    """The policy that holds after a release."""
    return next((changes[number] for number in sorted(changes, reverse=True) if number <= release), first)


def read_changes(first: Policy, given: tuple[str, ...]) -> Changes:
    """The changes that options name as RELEASE:POLICY. Raises InputError for one that is not allowed."""
    found: dict[int, Policy] = {}
    for option in given:
        number, _, path = option.partition(":")
        if not number.isdecimal() or int(number) < 1 or not path:
            raise InputError(f"{option} is not a change; write the release and the file, as in 12:policy.yaml.")
        if int(number) in found:
            raise InputError(f"--change names release {number} twice; a release can begin one policy only.")
        found[int(number)] = load_policy(Path(path))
    before = first
    for _, policy in sorted(found.items()):
        refuse(before, policy)
        before = policy
    return found


def refuse(old: Policy, new: Policy) -> None:
    """Raises InputError, a line for each difference that is refused, if there is one."""
    lines = [str(one) for one in differences(old, new) if not one.is_allowed]
    if lines:
        raise InputError("the policy cannot be changed like this:\n" + "\n".join(lines))


def describe(old: Policy, new: Policy) -> Iterator[str]:
    """Every difference and what becomes of it."""
    found: list[Difference] = differences(old, new)
    if not found:
        yield "Both files mean the same: nothing changes but the digest that manifests name."
    yield from map(str, found)
    if found and meaning_of(old) == meaning_of(new):
        yield "Both files mean the same but for the triggers, which need no change: restart the workers."
