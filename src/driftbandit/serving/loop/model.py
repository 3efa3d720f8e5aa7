"""A policy's file as the beginning of a loop: every model of the loop starts as a copy of that policy.

The file is read once, when it comes. From then on the loop's log holds the policy's packed state, and the settings hold
its encoder, so repeating the log needs neither the file nor the format it had.
"""

from __future__ import annotations

import io
import json
from typing import Any, NamedTuple

import msgspec

from driftbandit.features import Encoder
from driftbandit.policies.saving import load, reading
from driftbandit.policies.scoped.per_scope import SavedPolicy
from driftbandit.policies.untold import different_settings, name_and_settings
from driftbandit.recommender import Note, read_note
from driftbandit.serving.loop.arms import MAX_ARMS, check_different
from driftbandit.serving.loop.config import LoopConfig, Plan, builder, check, completed
from driftbandit.serving.loop.encoding import Named, NamedFeatures
from driftbandit.serving.loop.events import Catalogued, NamedArms
from driftbandit.serving.loop.slab import pack, unpack

_LONGEST_NAME = 200


class Beginning(NamedTuple):
    """What a loop begins with.

    Attributes
    ----------
    config : LoopConfig
        Its settings, with the file's encoder.
    state : bytes
        The policy's packed state.
    arms : Catalogued or None
        The catalogue: the file's items, if it has between 1 and 10,000.
    """

    config: LoopConfig
    state: bytes
    arms: Catalogued | None


def read_model(config: LoopConfig, file: bytes) -> Beginning:
    """What a loop begins with that has these settings and is given a policy's file.

    Parameters
    ----------
    config : LoopConfig
        Settings of the loop. If the file has an encoder, the loop gets it.
    file : bytes
        What `Recommender.save` or `PolicyBase.save` wrote.

    Raises
    ------
    ValueError
        If this is no such file, or its policy or encoder is not the one that the loop's settings describe.
    """
    made: Any = builder(config, Plan(config.policy, config.settings))()
    policy = load_model(file, config.dim)
    if type(policy) is not type(made):
        raise ValueError(f"model: expected a {type(made).__name__}, the loop's policy, got a {type(policy).__name__}")
    if others := different_settings(made, policy):
        ours = made.settings()
        pairs = [f"{name}={value!r} (the loop: {ours[name]!r})" for name, value in others.items()]
        raise ValueError(f"model: expected the loop's settings, got {', '.join(pairs)}")
    sent: Any = _Sent(file)
    note = read_note(sent)
    if made.dim is None:
        _check_numbers(config.policy, note)
    if note is None:
        return Beginning(config, pack(policy.state()), None)
    try:
        config = _with_encoder(config, note)
        arms = _arms_of(config, note)
    except ValueError as error:
        raise ValueError(f"model: {error}") from error
    return Beginning(config, pack(policy.state()), arms)


def loop_of(file: bytes) -> Beginning:
    """What a loop begins with that is made for the policy in a file: policy, settings and encoder are the file's.

    Raises
    ------
    ValueError
        If this is no file of a policy, or not of one that can be served.
    """
    policy = load_model(file)
    name, settings = name_and_settings(policy)
    made = LoopConfig(policy=name, settings=settings, dim=policy.dim)
    config = msgspec.json.decode(msgspec.json.encode(made), type=LoopConfig)  # the constructor checks no bounds
    check(config)
    return read_model(config, file)


def _check_numbers(policy: str, note: Note | None) -> None:
    """Refuse a context-free policy whose numbers of arms cannot be found again from the ids that the service is sent.

    A recommender knows an arm with a text as id by a hash of the text, and so does a loop that begins with its policy.
    """
    if note is None:
        raise ValueError(
            f"model: {policy!r} knows arms by number, and this file does not say which; expected a file of "
            "Recommender.save or `driftbandit learn`"
        )
    if numbers := [arm for arm in note.items if not isinstance(arm, str)]:
        raise ValueError(f"model: {policy!r}: expected arms with texts as ids, as the service has, got {numbers[0]!r}")


def _with_encoder(config: LoopConfig, note: Note) -> LoopConfig:
    """The settings with a file's encoder, if it has one that is written in it."""
    if not isinstance(note.encoder, Encoder) or config.dim is None:
        return config
    found = completed(msgspec.structs.replace(config, encoder=note.encoder.to_json()))
    if config.encoder and config.encoder != found.encoder:
        raise ValueError("expected the loop's encoder, got another; give the loop the file's encoder first")
    return found


def _arms_of(config: LoopConfig, note: Note) -> Catalogued | None:
    """The items of a file as a catalogue; None if there are none, too many, or the loop is sent numbers."""
    ids = [str(arm) for arm in note.items]
    if not 0 < len(ids) <= MAX_ARMS or (config.dim is not None and not config.encoder):
        return None
    for name in ids:
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            raise ValueError(f"items: expected ids of 1 to {_LONGEST_NAME} printable characters, got {name!r:.60}")
    check_different(ids)
    if not config.encoder:
        return Catalogued(0, 0, ids, None)
    named = NamedFeatures(config.encoder)
    wanted = named.arm_columns - {"id"}
    records: list[Any] = [{name: item[name] for name in item if name in wanted} for item in note.items.values()]
    records = msgspec.convert(records, list[Named])
    named.check(ids, records)
    return NamedArms(0, 0, ids, None, records)


def load_model(file: bytes, dim: int | None = None) -> Any:
    """Read a policy from the bytes of its file.

    Parameters
    ----------
    file : bytes
        What `Recommender.save` or `PolicyBase.save` wrote.
    dim : int, optional
        How many features it must have; a policy with others is refused before memory is set aside for it.

    Raises
    ------
    ValueError
        If this is no such file, or it is damaged.
    """
    sent: Any = _Sent(file)  # a zip archive may also be an open file
    with reading(sent) as archive:
        if sum(member.file_size for member in archive.infolist()) > len(file):
            raise ValueError("it is compressed, as save never does")
        settings = json.loads(archive.read("header.json"))["policy"]["settings"]
        if dim is not None and settings.get("dim", dim) != dim:
            raise ValueError(f"expected dim={dim}, got dim={settings['dim']}")
    try:
        return load(sent)
    except (MemoryError, OverflowError) as error:
        raise ValueError(f"model: too large ({error})") from error


def fitting(policy: SavedPolicy, model: bytes) -> bytes:
    """Return a packed state if it is one of this policy's; else raise ValueError."""
    try:
        policy.restore(unpack(model))
    except (ValueError, TypeError, KeyError, MemoryError, OverflowError) as error:
        raise ValueError(f"model: not a state of the loop's policy ({error})") from error
    return model


class _Sent(io.BytesIO):
    """A file in memory, which errors call 'model'."""

    def __str__(self) -> str:
        return "model"
