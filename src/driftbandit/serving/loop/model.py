"""A policy's file as the beginning of a loop: every model of the loop starts as a copy of that policy.

The file is read once, when it comes. From then on the loop's log holds the policy's packed state, so repeating the log
needs neither the file nor the format it had.
"""

from __future__ import annotations

import io
import json
from typing import Any

import msgspec

from driftbandit.features import Encoder
from driftbandit.policies.saving import load, reading
from driftbandit.policies.scoped.per_scope import SavedPolicy
from driftbandit.policies.untold import different_settings, name_and_settings
from driftbandit.recommender import Recommender
from driftbandit.serving.loop.config import LoopConfig, Plan, builder, check
from driftbandit.serving.loop.slab import pack, unpack

_LONGEST_NAME = 200


def read_model(config: LoopConfig, file: bytes) -> bytes:
    """The packed state of the policy in a file.

    Parameters
    ----------
    config : LoopConfig
        Settings of the loop that is to begin with it.
    file : bytes
        What `Recommender.save` or `PolicyBase.save` wrote.

    Raises
    ------
    ValueError
        If this is no such file, or its policy is not the one that the loop's settings describe.
    """
    made: Any = builder(config, Plan(config.policy, config.settings))()
    policy = load_model(file, config.dim)
    if type(policy) is not type(made):
        raise ValueError(f"model: expected a {type(made).__name__}, the loop's policy, got a {type(policy).__name__}")
    if made.dim is None:
        raise ValueError(f"model: {config.policy!r} knows arms by number, and the service numbers them in its own way")
    if others := different_settings(made, policy):
        ours = made.settings()
        pairs = [f"{name}={value!r} (the loop: {ours[name]!r})" for name, value in others.items()]
        raise ValueError(f"model: expected the loop's settings, got {', '.join(pairs)}")
    return pack(policy.state())


def loop_of(file: bytes) -> tuple[LoopConfig, bytes]:
    """Settings of a loop that can begin with the policy in a file, and the policy's packed state.

    Policy, settings and number of features are the policy's; the features have the names that the file's encoder gives
    them, if it has one.

    Raises
    ------
    ValueError
        If this is no file of a policy, or not of one that can be served.
    """
    policy = load_model(file)
    name, settings = name_and_settings(policy)
    made = LoopConfig(policy=name, settings=settings, dim=policy.dim, feature_names=_feature_names(file))
    config = msgspec.json.decode(msgspec.json.encode(made), type=LoopConfig)  # the constructor checks no bounds
    check(config)
    return config, read_model(config, file)


def _feature_names(file: bytes) -> list[str] | None:
    """What the encoder in a file calls the features; None if there is no encoder that can be read."""
    sent: Any = _Sent(file)
    try:
        encoder = Recommender.load(sent).encoder
    except ValueError:  # the file holds a policy alone, or its encoder was not one of ours
        return None
    return [name[:_LONGEST_NAME] for name in encoder.names] if isinstance(encoder, Encoder) else None


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
