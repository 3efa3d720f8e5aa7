"""Loops are made, changed and deleted, and scopes erased: commands for people, who have the role admin."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from driftbandit.serving.engine.keeping import Keeper
from driftbandit.serving.engine.messages import Arms, CatalogueRequest, Configuration, catalogued, check_name
from driftbandit.serving.engine.storage import configured, lacks_arms
from driftbandit.serving.loop import events as log
from driftbandit.serving.loop.config import LoopConfig, check, completed
from driftbandit.serving.loop.erasing import scope_hash
from driftbandit.serving.loop.events import Configured, Refused
from driftbandit.serving.loop.model import read_model
from driftbandit.serving.stores.base import Store, VersionConflict


class Administration:
    """Changes loops in the store, and lets the keeper take over what changed.

    Parameters
    ----------
    store : Store
        Where settings and catalogues are.
    clock : callable
        Milliseconds since 1970.
    keeper : Keeper
        Knows all loops. What it reads must be adopted after each change.
    """

    def __init__(self, store: Store, clock: Callable[[], int], keeper: Keeper) -> None:
        self._store = store
        self._clock = clock
        self._keeper = keeper

    def configuration(self, name: str) -> Configuration:
        """The settings of a loop, and their version."""
        parts = self._keeper.parts(name)
        row = parts.row
        return Configuration(name, row.version, row.arms_version, parts.config, configured(row).model is not None)

    def configure(
        self, name: str, config: LoopConfig, expected: int | None, arms: Arms | None = None
    ) -> tuple[bool, Configuration]:
        """Create or change a loop; says whether it is new.

        `expected` is the version that the settings replace. Without it, a loop that exists must have these settings.
        With `arms` the catalogue is replaced in the same step; a change of `dim` needs them if there is a catalogue.
        """
        check_name("loop", name)
        try:
            config = completed(config)
            check(config)
        except ValueError as error:
            raise Refused(422, str(error)) from error
        catalogue = None if arms is None else catalogued(config, arms, self._clock())
        parts = self._keeper.loops.get(name)
        if parts is not None and expected is None:
            if parts.config == config:
                return False, self.configuration(name) if arms is None else self.put_arms(name, CatalogueRequest(arms))
            raise Refused(409, f"loop {name!r} exists with other settings; give its version, {parts.row.version}")
        model = None
        if parts is not None:
            if parts.config.model_key == config.model_key:
                model = configured(parts.row).model
            if parts.config.dim != config.dim and parts.row.arms is not None and arms is None:
                raise Refused(422, "arms: a change of dim needs the arms too, since those of the loop no longer fit")
        version = self._put(name, expected or 0, config, model, catalogue)
        return version == 1, self.configuration(name)

    def put_model(self, name: str, file: bytes) -> Configuration:
        """Let all models of a loop start afresh, each as a copy of the policy in a file.

        The loop gets the file's encoder, and the file's items as its catalogue if it has no catalogue that fits.
        """
        parts = self._keeper.parts(name)
        try:
            config, model, arms = read_model(parts.config, file)
        except ValueError as error:
            raise Refused(422, str(error)) from error
        if model != configured(parts.row).model or config != parts.config:
            self._put(name, parts.row.version, config, model)
        if arms is not None and lacks_arms(parts.row, arms):
            self._store.put_arms(parts.row.number, log.encode(arms))
            self._keeper.read_settings()
        return self.configuration(name)

    def _put(self, name: str, expected: int, config: LoopConfig, model: bytes | None, arms: bytes | None = None) -> int:
        """Store settings, the model with which the loop begins, and new arms, if any; returns their version."""
        event = Configured(self._clock(), 0, msgspec.json.encode(config), model)
        try:
            row = self._store.put_loop(name, expected, log.encode(event), arms)
        except VersionConflict as error:
            raise Refused(409, f"loop {name!r}: expected version {expected}, found {error.version}") from error
        self._keeper.read_settings(name)
        return row.version

    def put_arms(self, name: str, arms: CatalogueRequest) -> Configuration:
        """Replace the catalogue."""
        parts = self._keeper.parts(name)
        self._store.put_arms(parts.row.number, catalogued(parts.config, arms.arms, self._clock()))
        self._keeper.read_settings()
        return self.configuration(name)

    def delete(self, name: str, who: str) -> None:
        """Delete a loop; its data is swept out of the store later."""
        self._keeper.parts(name)
        self._store.delete_loop(name, who, self._clock())
        self._keeper.read_settings()

    def erase(self, name: str, scope: str, who: str) -> str:
        """Have a scope erased from all shards of a loop; returns the hash of its name that the record keeps."""
        check_name("scope", scope)
        row = self._keeper.parts(name).row
        found = scope_hash(name, scope)
        self._store.erase_scope(row, scope, found, who, self._clock())
        return found
