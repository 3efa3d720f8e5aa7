"""LastFM: which artists users tagged, as a hybrid user whose taste shifts from user to user.

The data set is hetrec2011-lastfm-2k (Cantador, Brusilovsky and Kuflik, HetRec 2011), for non-commercial use; it is not
part of this package. Events follow the rule that reproduces the published logs of the dLinUCB authors: tag assignments
in file order, where a row equal to the one before in user, artist and time is dropped, unless its day is not the first
of a month.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from driftbandit.core import Ints
from driftbandit.environments.converted import Form
from driftbandit.environments.hetrec import (
    HybridUser,
    Interactions,
    Reduction,
    group_of,
    social_groups,
    tag_features,
)
from driftbandit.environments.tables import data_folder, read_names, read_numbers


class LastFM(HybridUser):
    """The LastFM streams of the paper's Figure 4; attributes as in `HybridUser`."""

    def interactions(self) -> Interactions:
        """Read LastFM."""
        return load(data_folder("lastfm", self.folder or None), self.reduction)

    def form(self) -> Form:
        """The files of LastFM."""
        return form(data_folder("lastfm", self.folder or None), self.reduction)


def form(folder: Path, reduction: Reduction = "svd", components: int = 25) -> Form:
    """What `driftbandit data lastfm` converts."""
    sources = ("user_taggedartists.dat", "user_friends.dat", "user_clusters_200.tsv")
    return Form("lastfm", folder, sources, f"{reduction}-{components}", packages=("scikit-learn",))


@lru_cache(maxsize=2)
def load(folder: Path, reduction: Reduction = "svd", components: int = 25) -> Interactions:
    """Take the data set from its converted file, if there is one, else from its own files."""
    kept = Interactions.recall(form(folder, reduction, components), components)
    return kept if kept is not None else read(folder, reduction, components)


def read(folder: Path, reduction: Reduction = "svd", components: int = 25) -> Interactions:
    """Read the data set and make the features."""
    table = read_numbers(folder / "user_taggedartists.dat", ("userID", "artistID", "tagID", "day", "month", "year"))
    _, rows = np.unique(table["artistID"], return_inverse=True)
    _, tags = np.unique(table["tagID"], return_inverse=True)
    people, users = np.unique(table["userID"], return_inverse=True)
    days = (table["year"] * 12 + table["month"]) * 31 + table["day"]
    pair = np.stack([users, rows, days])
    repeated = np.append(False, (pair[:, 1:] == pair[:, :-1]).all(axis=0))
    first = np.flatnonzero(~repeated | (table["day"] != 1))
    return Interactions(
        features=tag_features(rows, tags, np.ones(len(rows)), components, reduction),
        users=users[first],
        items=rows[first],
        times=days[first],
        tagged_users=users,
        tagged_items=rows,
        groups=_groups(folder, people),
    )


@dataclass(frozen=True, eq=False)
class Tagging:
    """Who gave which tag: one entry per tag assignment.

    Attributes
    ----------
    users, tags : arrays of shape (n,)
        Row number of the user, as in `Interactions`, and of the tag.
    names : tuple of str
        Name of each tag.
    """

    users: Ints
    tags: Ints
    names: tuple[str, ...]


def load_tagging(folder: Path) -> Tagging:
    """Read all tag assignments and the names of the tags; a tag without a name gets its number as name."""
    table = read_numbers(folder / "user_taggedartists.dat", ("userID", "tagID"), lenient=True)
    names = read_names(folder / "tags.dat", "tagID", "tagValue")
    known, tags = np.unique(table["tagID"], return_inverse=True)
    _, users = np.unique(table["userID"], return_inverse=True)
    return Tagging(users, tags, tuple(names.get(tag, f"tag {tag}") for tag in known.tolist()))


def _groups(folder: Path, people: Ints) -> Ints:
    """The published partition if its file is there, else our own."""
    published = folder / "user_clusters_200.tsv"
    if not published.exists():
        friends = read_numbers(folder / "user_friends.dat", ("userID", "friendID"))
        return social_groups(people, friends["userID"], friends["friendID"])
    table = read_numbers(published, ("userID", "cluster"))
    return group_of(people, table["userID"], table["cluster"])
