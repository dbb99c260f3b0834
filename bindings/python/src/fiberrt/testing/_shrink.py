# SPDX-License-Identifier: MIT OR Apache-2.0
"""Looks for the fewest and smallest choices with which a run still fails."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple


class Choice(NamedTuple):
    """A choice that a run has made and that is not the ordinary one, 0."""

    position: int
    chosen: int
    possible: int
    site: str


class _Shrinking:
    def __init__(self, choices: list[Choice], fails: Callable[[list[Choice]], bool], most_runs: int) -> None:
        self.choices = choices
        self._fails = fails
        self.runs_left = most_runs

    def keep_if_it_fails(self, candidate: list[Choice]) -> bool:
        if self.runs_left <= 0 or candidate == self.choices:
            return False
        self.runs_left -= 1
        if not self._fails(candidate):
            return False
        self.choices = candidate
        return True

    def weight(self) -> int:
        return sum(1 + choice.chosen for choice in self.choices)

    def keep_only_preemptions(self) -> None:
        self.keep_if_it_fails([choice for choice in self.choices if choice.site == "program"])

    def keep_a_head(self) -> None:
        """Shorten the list from its end: choices after the failure are not needed."""
        low, high = 0, len(self.choices)  # no list shorter than low failed
        while low < high:
            middle = (low + high) // 2
            if self.keep_if_it_fails(self.choices[:middle]):
                high = middle
            else:
                low = middle + 1

    def drop_parts(self, size: int) -> None:
        end = len(self.choices)
        while end > 0:
            begin = max(end - size, 0)
            self.keep_if_it_fails(self.choices[:begin] + self.choices[end:])
            end = min(begin, len(self.choices))

    def make_smaller(self) -> None:
        for i, choice in enumerate(self.choices):
            for smaller in sorted({1, choice.chosen // 2, choice.chosen - 1}):
                if 1 <= smaller < self.choices[i].chosen:
                    changed = choice._replace(chosen=smaller)
                    self.keep_if_it_fails([*self.choices[:i], changed, *self.choices[i + 1 :]])


def fewest(
    positions: int, first_failing: Callable[[list[list[Choice]]], list[Choice] | None], most: int, most_runs: int
) -> list[Choice] | None:
    """Return one choice, or else two, with which a run fails, and at most `most`: most defects need no more
    preemptions. A list that is shrunk by leaving out choices often keeps more of them, as each moves the positions of
    the later ones. None: there are none among the lists that were tried, at most `most_runs` for each number."""
    singles = [[Choice(position, 1, 2, "")] for position in range(min(positions, most_runs))]
    found = first_failing(singles)
    if found is not None or most < 2:
        return found
    numbers = Random(positions)
    pairs = {tuple(sorted(numbers.sample(range(positions), 2))) for _ in range(most_runs)} if positions > 1 else set()
    return first_failing([[Choice(one, 1, 2, ""), Choice(two, 1, 2, "")] for one, two in sorted(pairs)])


def shrink(choices: list[Choice], fails: Callable[[list[Choice]], bool], most_runs: int) -> list[Choice]:
    """Return a shorter list for which fails() is true. It is called at most `most_runs` times."""
    work = _Shrinking(choices, fails, most_runs)
    work.keep_only_preemptions()
    while True:
        before = work.weight()
        work.keep_a_head()
        size = max(len(work.choices) // 2, 1)
        while True:
            work.drop_parts(size)
            if size == 1:
                break
            size //= 2
        work.make_smaller()
        if work.weight() >= before or work.runs_left <= 0:
            return work.choices
