"""Hierarchies of labels, in ARX's format: which labels are leaves, and which labels stand above them.

Layout. Nodes are numbered depth-first, parents before children, the root "*" being node 0; children stand in the order
in which the file first names them. Leaves are numbered from 0 in the same walk, so that every node covers a
contiguous run [first, last) of leaf codes: "is s below v" is two comparisons, and a region of a category attribute is a
run like any other interval. `fewest_labels` is memoised per run; there are few runs, since regions are only ever nodes
or runs of siblings.
"""

import csv
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from shoal.core.errors import HierarchyError, LineMistake

ROOT = "*"
LONGEST_LABEL = 512
_UNSEEN = frozenset(("Cc", "Cs", "Zl", "Zp"))  # control characters, surrogates, line and paragraph separators


@dataclass(frozen=True)
class Hierarchy:
    """A tree of labels. Two hierarchies are equal if they have the same labels in the same places."""

    labels: tuple[str, ...]  # by node
    parent: tuple[int, ...]  # by node; the root's is -1
    first: tuple[int, ...] = field(compare=False, repr=False)  # by node: the run of leaf codes it covers is
    last: tuple[int, ...] = field(compare=False, repr=False)  # [first, last)
    leaves: tuple[str, ...] = field(compare=False, repr=False)  # by leaf code
    leaf_code: dict[str, int] = field(compare=False, repr=False)
    node_of: dict[str, int] = field(compare=False, repr=False)
    leaf_node: tuple[int, ...] = field(compare=False, repr=False)  # by leaf code
    _children: tuple[tuple[int, ...], ...] = field(compare=False, repr=False)
    _fewest: dict[tuple[int, int], tuple[str, ...]] = field(default_factory=dict, compare=False, repr=False)
    _parting: list[NDArray[np.int32]] = field(default_factory=list, compare=False, repr=False)

    def children(self, node: int) -> tuple[int, ...]:
        return self._children[node]

    def covering(self, lo: int, hi: int) -> int:
        """The smallest node that covers the leaf run [lo, hi); of a chain of nodes with one child each, the lowest."""
        node = 0
        while True:
            children = self._children[node]
            below = bisect_right(children, lo, key=self.first.__getitem__) - 1
            if below < 0 or self.last[children[below]] < hi:
                return node
            node = children[below]

    def parting_depths(self) -> NDArray[np.int32]:
        """For each leaf code but the first, the depth of the lowest node above both it and the one before; 0 there.

        A run may be cut where its leaves part highest: between the children of the smallest node that covers it. So
        every part that is cut from the whole domain down is one node or a run of siblings. Worked out once.
        """
        if not self._parting:
            depth = [0] * len(self.labels)
            found = np.zeros(len(self.leaves), dtype=np.int32)
            for node, children in enumerate(self._children):
                for child in children:
                    depth[child] = depth[node] + 1
                for child in children[1:]:
                    found[self.first[child]] = depth[node]
            self._parting.append(found)
        return self._parting[0]

    def fewest_labels(self, lo: int, hi: int) -> tuple[str, ...]:
        """The fewest labels that cover exactly [lo, hi), in the hierarchy's order. O(labels found)."""
        known = self._fewest.get((lo, hi))
        if known is None:
            found = []
            waiting = [0]
            while waiting:
                node = waiting.pop()
                if lo <= self.first[node] and self.last[node] <= hi:
                    found.append(self.labels[node])
                else:
                    children = self._children[node]
                    begin = bisect_right(children, lo, key=self.last.__getitem__)
                    end = bisect_left(children, hi, key=self.first.__getitem__)
                    waiting.extend(reversed(children[begin:end]))
            known = self._fewest[lo, hi] = tuple(found)
        return known

    def most_children(self) -> int:
        """Of any one node."""
        return max(map(len, self._children))

    def check_invariants(self) -> None:
        """Raise AssertionError unless the layout is as the module describes it. O(nodes)."""
        assert self.labels[0] == ROOT
        assert self.parent[0] == -1
        assert (self.first[0], self.last[0]) == (0, len(self.leaves))
        assert len(self.node_of) == len(self.labels) == len(self.parent) == len(self._children)
        for node, children in enumerate(self._children):
            assert self.node_of[self.labels[node]] == node
            assert all(self.parent[child] == node and child > node for child in children)
            if children:
                assert self.first[node] == self.first[children[0]]
                assert self.last[node] == self.last[children[-1]]
                assert all(self.last[left] == self.first[right] for left, right in pairwise(children))
            else:
                code = self.first[node]
                assert self.last[node] == code + 1
                assert self.leaf_node[code] == node
                assert self.leaves[code] == self.labels[node]
                assert self.leaf_code[self.labels[node]] == code


def wrong_label(label: str, noun: str = "label") -> str | None:
    """What is wrong with a label, or None. Labels that look alike must be equal, so nothing in them is invisible."""
    if not label:
        return f"a {noun} is empty"
    if len(label) > LONGEST_LABEL:
        return f"a {noun} has more than {LONGEST_LABEL} characters"
    if label != label.strip():
        return f"the {noun} {label!r} begins or ends with a blank"
    if not label.isprintable() and any(unicodedata.category(character) in _UNSEEN for character in label):
        return f"the {noun} {label!r} has a control character or half a surrogate pair in it"
    return None


def parse_hierarchy(text: str) -> Hierarchy:
    """Read ARX's format: one line per leaf, `leaf;parent;…;*`, where a repeated label (`a;a;*`) is one step.

    Raises HierarchyError with every mistake and its line. Blank lines are skipped. O(size of the text).
    """
    mistakes: list[LineMistake] = []
    return _build(_chains(text, mistakes), mistakes, "there are no lines; write one per leaf, as in flu;respiratory;*")


def _chains(text: str, mistakes: list[LineMistake]) -> Iterator[tuple[int, list[str]]]:
    """The lines that have labels, one at a time: a list of millions of lists would keep Python looking for cycles."""
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line.strip():
            continue
        if '"' in line:
            try:
                labels = next(csv.reader([line], delimiter=";", strict=True))
            except csv.Error:
                mistakes.append(LineMistake(number, "a quotation mark is not closed or not where it can be"))
                continue
        else:
            labels = line.split(";")
        yield number, labels


def flat_hierarchy(labels: Iterable[str]) -> Hierarchy:
    """A hierarchy that has only leaves and "*". Raises HierarchyError; a mistake's line is the label's position."""
    chains = ((number, [label, ROOT]) for number, label in enumerate(labels, start=1))
    return _build(chains, [], "there are no values")


def _build(chains: Iterable[tuple[int, list[str]]], mistakes: list[LineMistake], if_none: str) -> Hierarchy:
    above: dict[str, tuple[str, int]] = {}  # label -> the label above it, and the first line that said so
    below: dict[str, list[str]] = {ROOT: []}  # inner label -> the labels under it, in order of appearance
    leaf_line: dict[str, int] = {}
    inner_line: dict[str, int] = {}
    for line, labels in chains:
        wrong = _wrong_chain(labels, above)
        if wrong:
            mistakes.extend(LineMistake(line, message) for message in wrong)
            continue
        chain = [label for at, label in enumerate(labels) if at == 0 or label != labels[at - 1]]
        leaf = chain[0]
        if leaf in leaf_line:
            mistakes.append(LineMistake(line, f"the leaf {leaf!r} was already on line {leaf_line[leaf]}"))
            continue
        leaf_line[leaf] = line
        for label, parent in pairwise(chain):
            said = above.setdefault(label, (parent, line))
            if said[1] == line and said[0] == parent:
                below.setdefault(parent, []).append(label)
            elif said[0] != parent:
                mistakes.append(
                    LineMistake(line, f"{label!r} stands under {parent!r} here and under {said[0]!r} on line {said[1]}")
                )
            inner_line.setdefault(parent, line)
    for leaf, line in leaf_line.items():
        if leaf in inner_line:
            other = inner_line[leaf]
            mistakes.append(
                LineMistake(max(line, other), f"{leaf!r} is a leaf on line {line} and above one on {other}")
            )
    if not leaf_line and not mistakes:
        mistakes.append(LineMistake(1, if_none))
    if mistakes:
        raise HierarchyError(tuple(sorted(mistakes)))
    return _number(below)


def _wrong_chain(labels: Sequence[str], known: dict[str, tuple[str, int]]) -> list[str]:
    """What is wrong with one line, taken by itself. Labels that are known were on a line before, and are in order."""
    wrong = [message for label in labels if label not in known and label != ROOT and (message := wrong_label(label))]
    if labels[0] == ROOT:
        wrong.append('"*" stands for everything and cannot be a leaf')
    elif labels[-1] != ROOT:
        wrong.append('the line does not end in "*"')
    else:
        end = labels.index(ROOT)
        if any(label != ROOT for label in labels[end:]):
            wrong.append('"*" can only stand at the end')
        steps = [label for at, label in enumerate(labels) if at == 0 or label != labels[at - 1]]
        if not wrong and len(set(steps)) < len(steps):
            wrong.append("a label stands above itself")
    return wrong


def _number(below: dict[str, list[str]]) -> Hierarchy:
    """Lay out a tree that is known to be one. Iterative: a chain may be as long as a line."""
    labels: list[str] = []
    parent: list[int] = []
    children: list[list[int]] = []
    first: list[int] = []
    leaf_node: list[int] = []
    nothing: list[int] = []  # below a leaf; one list for all of them
    waiting = [(ROOT, -1)]
    while waiting:
        label, above = waiting.pop()
        node = len(labels)
        labels.append(label)
        parent.append(above)
        children.append([] if label in below else nothing)
        first.append(len(leaf_node))
        if above >= 0:
            children[above].append(node)
        if label in below:
            waiting.extend((child, node) for child in reversed(below[label]))
        else:
            leaf_node.append(node)
    last = [0] * len(labels)
    for node in reversed(range(len(labels))):
        last[node] = last[children[node][-1]] if children[node] else first[node] + 1
    leaves = tuple(labels[node] for node in leaf_node)
    return Hierarchy(
        labels=tuple(labels),
        parent=tuple(parent),
        first=tuple(first),
        last=tuple(last),
        leaves=leaves,
        leaf_code={label: code for code, label in enumerate(leaves)},
        node_of={label: node for node, label in enumerate(labels)},
        leaf_node=tuple(leaf_node),
        _children=tuple(tuple(under) for under in children),
    )
