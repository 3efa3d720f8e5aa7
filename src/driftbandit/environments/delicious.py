"""Delicious: which URLs users bookmarked, as a hybrid user whose taste shifts from user to user.

The data set is hetrec2011-delicious-2k (Cantador, Brusilovsky and Kuflik, HetRec 2011), for non-commercial use; it is
not part of this package. A bookmark is one event, whatever the number of tags it got.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from driftbandit.core import Floats, Ints
from driftbandit.environments.converted import Form
from driftbandit.environments.hetrec import HybridUser, Interactions, Reduction, social_groups, tag_features
from driftbandit.environments.tables import data_folder, read_numbers


class Delicious(HybridUser):
    """The Delicious streams of the paper's Figure 4; attributes as in `HybridUser`."""

    def interactions(self) -> Interactions:
        """Read Delicious."""
        return load(data_folder("delicious", self.folder or None), self.reduction, groups=self.by == "group")

    def form(self) -> Form:
        """The files of Delicious."""
        return form(data_folder("delicious", self.folder or None), self.reduction, groups=self.by == "group")


def form(folder: Path, reduction: Reduction = "svd", components: int = 25, groups: bool = False) -> Form:
    """What `driftbandit data delicious` converts."""
    sources: tuple[str, ...] = ("user_taggedbookmarks-timestamps.dat", "bookmark_tags.dat")
    settings = f"{reduction}-{components}"
    if groups:
        sources, settings = (*sources, "user_contacts.dat"), f"{settings}-groups"
    return Form("delicious", folder, sources, settings, packages=("scikit-learn",))


@lru_cache(maxsize=2)
def load(folder: Path, reduction: Reduction = "svd", components: int = 25, groups: bool = False) -> Interactions:
    """Take the data set from its converted file, if there is one, else from its own files."""
    for with_groups in (True,) if groups else (False, True):  # a file with groups will do if none are asked for
        kept = Interactions.recall(form(folder, reduction, components, with_groups), components)
        if kept is not None:
            return kept
    return read(folder, reduction, components, groups)


def read(folder: Path, reduction: Reduction = "svd", components: int = 25, groups: bool = False) -> Interactions:
    """Read the data set and make the features; `groups` also finds groups of users, which takes longer."""
    table = read_numbers(folder / "user_taggedbookmarks-timestamps.dat", ("userID", "bookmarkID", "tagID", "timestamp"))
    people, users = np.unique(table["userID"], return_inverse=True)
    items, rows = np.unique(table["bookmarkID"], return_inverse=True)
    event = np.stack([users, rows, table["timestamp"]])
    first = np.flatnonzero(np.append(True, (event[:, 1:] != event[:, :-1]).any(axis=0)))
    return Interactions(
        features=_features(folder, items, components, reduction),
        users=users[first],
        items=rows[first],
        times=table["timestamp"][first],
        tagged_users=users,
        tagged_items=rows,
        groups=_groups(folder, people) if groups else np.full(len(people), -1),
    )


def _features(folder: Path, items: Ints, components: int, reduction: Reduction) -> Floats:
    table = read_numbers(folder / "bookmark_tags.dat", ("bookmarkID", "tagID", "tagWeight"))
    known = np.isin(table["bookmarkID"], items)
    _, tags = np.unique(table["tagID"][known], return_inverse=True)
    rows = np.searchsorted(items, table["bookmarkID"][known])
    weights = table["tagWeight"][known].astype(np.float64)
    # A bookmark without a known tag keeps a row of zeros; this entry ensures that there is a row for the last item.
    rows, tags = np.append(rows, len(items) - 1), np.append(tags, 0)
    return tag_features(rows, tags, np.append(weights, 0.0), components, reduction)


def _groups(folder: Path, people: Ints) -> Ints:
    contacts = read_numbers(folder / "user_contacts.dat", ("userID", "contactID"), lenient=True)
    return social_groups(people, contacts["userID"], contacts["contactID"])
