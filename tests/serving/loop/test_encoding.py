"""Contexts, arms and encoders that come from outside: used, or refused with a reason."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftbandit import Encoder
from driftbandit.features import Category, Cycle, Flag, Number, Tags, Vector
from driftbandit.serving.loop.encoding import Named, NamedFeatures, canonical, encoder_names
from driftbandit.serving.loop.events import Refused

ENCODER = Encoder(
    [Category("device", ["phone"]), Cycle("hour", 24), Flag("member")],
    [Category("genre", ["jazz"]), Number("price", 0, 20), Tags("moods"), Vector("sound", 2)],
    dim=16,
)
NAMED = NamedFeatures(ENCODER.to_json())
FITTED = Encoder(dim=2, reduce="project").fit([({"hour": 8}, [{"genre": "rock"}, {"genre": "jazz"}])])
COLUMNS = ["device", "hour", "member", "genre", "price", "moods", "sound", "other"]
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=9)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


@settings(deadline=None, max_examples=100)
@given(st.dictionaries(st.sampled_from(COLUMNS), JSON, max_size=4), st.dictionaries(st.sampled_from(COLUMNS), JSON))
def test_any_context_and_arm_is_encoded_or_refused(context: dict[str, Any], record: dict[str, Any]) -> None:
    try:
        context, record = (msgspec.json.decode(json.dumps(one), type=Named) for one in (context, record))
    except msgspec.ValidationError:  # as a request is read
        return
    try:
        features = NAMED.encode(context, NAMED.records(["a"], [record]))
    except Refused:
        return
    assert np.array_equal(features, ENCODER.encode(context, [record]))
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode([context, record]))
    assert stored == [context, record]  # what the log holds


@settings(deadline=None, max_examples=100)
@given(st.sampled_from([ENCODER, FITTED]), st.data())
def test_a_changed_description_is_an_encoder_or_refused(encoder: Encoder, data: st.DataObject) -> None:
    described = copy.deepcopy(msgspec.json.decode(msgspec.json.encode(encoder.to_json())))
    place: Any = described
    while True:
        key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(JSON)
    try:
        again, dim = canonical(described)
    except ValueError:
        return
    assert canonical(again) == (again, dim)
    assert len(encoder_names(again)) == dim


def test_lists_are_looked_up_and_the_id_is_filled_in() -> None:
    named = NamedFeatures(Encoder([], [Category("id"), Tags("moods")]).to_json())
    assert named.records(["a"], [{"moods": ["calm", "live"]}]) == [{"moods": ("calm", "live"), "id": "a"}]
    assert named.records(["a"], [{"id": "a"}]) == [{"id": "a"}]
    with pytest.raises(Refused, match="expected its own id"):
        named.records(["a"], [{"id": "b"}])
    with pytest.raises(Refused, match="expected features by name for every arm: id, moods"):
        named.records(["a"], None)
    named.encode({}, named.records(["a"], [{"moods": ["calm", "live"]}]))
    side = named.encoder._plan.arms  # type: ignore[union-attr]
    assert side._key(named.records(["a"], [{"moods": ["calm", "live"]}])[0]) in side._cache
