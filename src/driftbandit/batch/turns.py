"""Teaching many policies in turns: compiled loops learn until something changes or more room is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from driftbandit.core import Change, Ints
from driftbandit.kernels import many


class Turns:
    """Policies of one kind, numbered from 0, that learn in a loop of `kernels.many`."""

    def teach(
        self,
        scopes: Ints,
        status: Ints,
        run: Callable[[Ints, slice], None],
        share: Callable[[Callable[[slice], None], Ints], None],
    ) -> Iterator[tuple[int, tuple[Change, ...]]]:
        """Learn until nothing is left: scopes in which something changed, or that need room, are served in between.

        Parameters
        ----------
        scopes : array of shape (n,)
            Whose reward each is.
        status : array of shape (n,)
            LEFT everywhere; becomes what `kernels.many` says of each reward.
        run : callable
            Runs the compiled loop on a part of an order.
        share : callable
            Calls that for all parts; see `threads.share_out`.

        Yields
        ------
        tuple of (int, tuple of Change)
            The place of every reward that revealed changes, and the changes, before its scope goes on.
        """
        order = by_scope(scopes)
        while len(order):
            turn = order
            share(partial(run, turn), scopes[turn])
            now = status[turn]
            for item in turn[now == many.CHANGED].tolist():
                yield item, self.review(int(scopes[item]))
            full = turn[now == many.FULL]
            if len(full):
                self.widen(scopes[full])
            order = turn[(now == many.FULL) | (now == many.LEFT)]
        self.finish(scopes)

    def review(self, scope: int) -> tuple[Change, ...]:
        """Deal with what the last reward of a scope revealed; only policies that detect changes have that to do."""
        raise NotImplementedError

    def widen(self, scopes: Ints) -> None:
        """Give more room to scopes that need it; they are all different."""
        raise NotImplementedError  # only for policies that may need it

    def finish(self, scopes: Ints) -> None:
        """Tidy up after rewards of these scopes were learned; most policies have nothing to do."""
        return


def by_scope(scopes: Ints) -> Ints:
    """Items scope by scope, in the order given within a scope."""
    if len(scopes) and (scopes[1:] > scopes[:-1]).all():
        return np.arange(len(scopes))
    return np.argsort(scopes, kind="stable")


def are_different(scopes: Ints) -> bool:
    """Whether no scope occurs twice; quick if they are in order."""
    return bool((scopes[1:] > scopes[:-1]).all()) or len(np.unique(scopes)) == len(scopes)
