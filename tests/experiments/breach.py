"""How many holders of permanent values are found out, with any publisher: `linkage` run by two adversaries at once."""

from collections.abc import Callable

from shoal.core.policy.policy import Policy
from tests.experiments.linkage import Adversary, Clues, breached
from tests.experiments.series import Figures, Table
from tests.experiments.sheet import Homes, Sheet, certainly_published, clues_of_list, clues_of_members, number_of


class Breaches:
    """Follows one publisher from release to release, with an adversary of each kind for each permanent value."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._since: dict[int, dict[int, int]] = {value: {} for value in sorted(policy.sensitive.permanent)}
        self._shown: dict[int, set[int]] = {value: set() for value in self._since}
        self._knowing = {knowledge: {value: Adversary() for value in self._since} for knowledge in ("list", "members")}

    def see(self, number: int, table: Table, homes: Homes, sheet: Sheet) -> Figures:
        """The holders shown so far, and of them the share that each adversary has found out by now."""
        self._hold(number, table, sheet)
        shown = sum(map(len, self._shown.values()))
        found: Figures = {"holders_shown": shown}
        there = certainly_published(sheet, homes)
        reads: dict[str, Callable[[int], Clues]] = {
            "list": lambda node: clues_of_list(sheet, node, homes, there),
            "members": lambda node: clues_of_members(sheet, node),
        }
        for knowledge, adversaries in self._knowing.items():
            count = 0
            for value, adversary in adversaries.items():
                adversary.see(number, reads[knowledge](self._node(value)))
                adversary.check_against(self._since[value])
                count += sum(1 for _ in breached(adversary, self._shown[value], self._policy.l))
            found |= {f"breached_{knowledge}": count, f"breached_{knowledge}_share": count / max(1, shown)}
        return found

    def _hold(self, number: int, table: Table, sheet: Sheet) -> None:
        """Remembers who holds what since when, and whose group has shown it."""
        holders: dict[int, set[int]] = {value: set() for value in self._since}
        for person, (_, values) in table.items():
            for value in self._policy.sensitive.permanent.intersection(values):
                holders[value].add(number_of(person))
                self._since[value].setdefault(number_of(person), number)
        for value, people in holders.items():
            showing = {group for group, (times, _) in sheet.shows(self._node(value)).items() if times}
            rows = zip(sheet.person.tolist(), sheet.group.tolist(), strict=True)
            self._shown[value].update(person for person, group in rows if group in showing and person in people)

    def _node(self, value: int) -> int:
        return self._policy.sensitive.hierarchy.leaf_node[value]
