"""scikit-learn's conventions, and its transformers in the encoder's place."""

import json

import numpy as np
import pytest

from driftbandit import LinUCB, Recommender
from driftbandit.features import Category, Encoder, Number, Transformed

pytest.importorskip("sklearn", reason="needs driftbandit[data]")

TABLE = [{"age": 20, "genre": "jazz"}, {"age": 40, "genre": "rock"}, {"age": 60, "genre": "jazz"}]
SIDES = {"context": ["age"], "arms": [Category("genre")]}


def test_clone_gives_an_unfitted_encoder_with_the_same_settings():
    from sklearn.base import clone

    encoder = Encoder(**SIDES, dim=12, crosses=[("age", "genre")])
    fitted = Encoder(**encoder.get_params()).fit(TABLE)
    again = clone(fitted)
    assert again.get_params() == encoder.get_params()
    assert again == encoder
    assert not again.is_ready
    assert again.set_params(dim=3).get_params()["dim"] == 3
    assert again.fit(TABLE).dim == 3


def test_it_works_in_a_pipeline():
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.utils.validation import check_is_fitted

    target = np.array([1.0, 2.0, 3.0])
    pipeline = make_pipeline(Encoder(**SIDES), LinearRegression())
    assert pipeline.fit(TABLE, target).predict(TABLE) == pytest.approx(target)
    encoder = pipeline.named_steps["encoder"]
    check_is_fitted(encoder)
    assert encoder.transform(TABLE).tolist() == Encoder(**SIDES).fit_transform(TABLE, target).tolist()
    assert pipeline[:-1].get_feature_names_out().tolist() == list(encoder.names)


def test_a_column_transformer_takes_the_encoders_place():
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

    columns = ["age", "genre"]
    table = np.array([[record[name] for name in columns] for record in TABLE], dtype=object)
    kinds = ColumnTransformer([("numbers", StandardScaler(), [0]), ("words", OneHotEncoder(), [1])])
    transformer = make_pipeline(kinds, PolynomialFeatures(interaction_only=True)).fit(table)
    encoder = Transformed(transformer, columns)
    arms = {"a": {"genre": "jazz"}, "b": {"genre": "rock"}}
    features = encoder.encode({"age": 40}, list(arms.values()))
    expected = transformer.transform(np.array([[40, "jazz"], [40, "rock"]], dtype=object))
    assert features.tolist() == expected.tolist()
    recommender = Recommender(encoder, LinUCB(features.shape[1]))
    for arm in ("a", "b") * 3:
        recommender.learn(recommender.choose({"age": 40}, {arm: arms[arm]}), float(arm == "b"))
    why = recommender.explain({"age": 40}, arms)
    assert why.arm == "b"
    assert "rock" in why.parts[0].name or "jazz" in why.parts[0].name


def test_a_transformer_of_records_is_shown_records():
    from sklearn.feature_extraction import DictVectorizer

    vectorizer = DictVectorizer().fit(TABLE)
    recommender = Recommender(vectorizer, LinUCB(3))
    decision = recommender.choose({"age": 2}, {"a": {"genre": "jazz"}})
    assert decision.features == (2.0, 1.0, 0.0)
    assert isinstance(recommender.encoder, Transformed)


def test_a_transformer_that_was_fitted_to_a_dataframe_is_shown_one():
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder

    transformer = ColumnTransformer([("words", OneHotEncoder(), ["genre"])], remainder="passthrough")
    transformer.fit(pandas.DataFrame(TABLE))
    assert Transformed(transformer).encode({"age": 2}, [{"genre": "rock"}]).tolist() == [[0.0, 1.0, 2.0]]


def test_arrow_tables_are_read():
    import pyarrow

    table = pyarrow.table({"age": [20, 40, None], "genre": ["jazz", "rock", None]})
    encoder = Encoder(**SIDES).fit(table)
    assert encoder.columns["context"] == (Number("age", 20, 40),)
    assert json.dumps(encoder.transform(table).tolist()) == json.dumps(encoder.transform(table.to_pylist()).tolist())
