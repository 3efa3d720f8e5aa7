"""Kinds of columns: one value and many give the same numbers, missing is a value of its own, bad values are named."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftbandit.features import Category, Cycle, Flag, Number, Tags, Vector
from driftbandit.features.columns.inference import KINDS, column_from_json, guess

COLUMNS = [
    (Number("x", 0, 10), [5, 5.0, 10, None, 1e9, -1e300, math.nan, "7.5", True, np.float32(0.5)]),
    (Category("x", ["a", "b"]), ["a", "b", "c", None, 7, math.nan, ""]),
    (Category("x", buckets=5), ["a", "b", "c", None, 7, 7.0, 7.5]),
    (Tags("x", ["a", "b"], separator="|"), [["a"], {"b", "a"}, "a|b|z", [], None, ("q", "r"), ["a", "a"]]),
    (Tags("x", ["a"], buckets=3), [["a", "y", "z"], ["q"], None, []]),
    (Cycle("x", 24), [0, 6, 23.5, None, -1, 24, 1e6, math.nan]),
    (Vector("x", 2), [[1, 2], (0.5, -1), None, np.array([3.0, 4.0]), math.nan]),
    (Flag("x"), [True, False, None, 1, 0, 1.0, np.True_, np.int64(0), math.nan]),
]


def dense(column, cell):
    row = np.zeros(len(column.labels))
    np.add.at(row, np.array(cell[0], dtype=int), cell[1])
    return row


@pytest.mark.parametrize(("column", "values"), COLUMNS, ids=lambda one: getattr(one, "kind", ""))
def test_many_values_are_encoded_as_one_by_one(column, values):
    index, value = column.batch(3)(values)
    read = column.reader(3)
    for k, given_value in enumerate(values):
        own = read(given_value)
        places = np.array(own[0], dtype=int) - 3
        expected = dense(column, (places, own[1]))
        filled = value[k] != 0
        assert dense(column, (index[k][filled] - 3, value[k][filled])).tolist() == expected.tolist()


@pytest.mark.parametrize(("column", "values"), COLUMNS, ids=lambda one: getattr(one, "kind", ""))
def test_missing_is_a_value_of_its_own(column, values):
    read = column.reader(0)
    missing = dense(column, read(None)).tolist()
    for value in values:
        is_absent = value is None or (isinstance(value, float) and math.isnan(value))
        assert (dense(column, read(value)).tolist() == missing) == is_absent


@pytest.mark.parametrize(("column", "values"), COLUMNS, ids=lambda one: getattr(one, "kind", ""))
def test_columns_go_to_json_and_back(column, values):
    again = column_from_json(column.to_json())
    assert again == column
    assert again.labels == column.labels
    assert column.kind in KINDS


def test_numbers_by_hand():
    assert Number("x", 0, 10).reader(0)(7.5) == ((0,), (0.5,))
    assert Number("x", 0, 10).reader(0)(1e12)[1] == (5.0,)  # clipped
    fitted = Number("x").fitted([2, 4, None, 4, 4, 5, 5, 7, 9])  # mean 5, deviation 2
    assert (fitted.low, fitted.high) == (3.0, 7.0)
    assert Number("x").fitted([3, 3, 3]).reader(0)(3) == ((0,), (0.0,))
    assert Number("x").fitted([None]).reader(0)(0.5) == ((0,), (0.5,))
    huge = Number("x").fitted([1e300, -1e300])
    assert np.isfinite(huge.reader(0)(1e300)[1][0])


def test_words_that_are_not_in_the_vocabulary_share_a_column_or_are_hashed_with_signs():
    shared = Category("x", ["a"])
    assert shared.labels == ("x=a", "x=other", "x missing")
    assert {shared.reader(0)(f"w{n}") for n in range(50)} == {((1,), (1.0,))}
    hashed = Category("x", ["a"], buckets=8)
    assert hashed.labels[1] == "x=#0"
    cells = [hashed.reader(0)(f"w{n}") for n in range(2000)]
    counts = np.bincount([index for (index,), _ in cells], minlength=10)
    assert counts[0] == counts[9] == 0
    assert counts[1:9].min() > 180  # 250 expected, deviation 15
    assert abs(sum(sign for _, (sign,) in cells)) < 200  # deviation 45
    assert Category("x", ["a"], buckets=8).reader(0)("a") == ((0,), (1.0,))


def test_equal_numbers_are_the_same_word_whatever_their_type():
    read = Category("x", ["1", "2.5"]).reader(0)
    assert {read(one) for one in (1, 1.0, True, "1", np.int8(1), np.float64(1))} == {((0,), (1.0,))}
    assert read(2.5) == read("2.5") == ((1,), (1.0,))


def test_fit_keeps_the_most_common_words_and_hashes_the_rest():
    values = ["b", "a", "a", "c", "c", None, "d"]
    assert Category("x").fitted(values).values == ("a", "b", "c", "d")
    assert Category("x").fitted(values).buckets == 1
    few = Category("x", most=2).fitted(values)
    assert (few.values, few.buckets) == (("a", "c"), 16)
    assert Tags("x", most=1, separator="|").fitted(["a|b", "b|c", None]).values == ("b",)
    declared = Category("x", ["z"])
    assert declared.fitted(values) is declared


def test_a_million_categories_take_no_more_memory_than_a_hundred():
    column = Category("x").fitted([f"user-{n}" for n in range(50_000)])
    assert len(column.labels) == 100 + 16 + 1
    read = column.reader(0)
    for n in range(60_000):
        read(f"other-{n}")
    remembered = next(cell.cell_contents for cell in read.__closure__ if isinstance(cell.cell_contents, dict))
    assert len(remembered) <= 10_000


def test_tags_of_any_number_have_length_one():
    read = Tags("x", ["a", "b", "c", "d"]).reader(0)
    assert read(["a", "b", "c", "d"]) == ((0, 1, 2, 3), (0.5,) * 4)
    assert read([]) == ((), ())
    assert read("a") == ((0,), (1.0,))


@given(st.floats(-1e9, 1e9))
def test_a_cycle_lies_on_the_unit_circle_and_starts_again(hour):
    read = Cycle("hour", 24).reader(0)
    cos, sin = read(hour)[1]
    assert math.hypot(cos, sin) == pytest.approx(1.0)
    assert read(hour % 24)[1] == pytest.approx((cos, sin), abs=1e-6)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (Number("price", 0, 1), "cheap", "price: expected a number, got 'cheap'"),
        (Number("price", 0, 1), math.inf, "price: expected a finite number, got inf"),
        (Number("price", 0, 1), [1, 2], "price: expected a number"),
        (Number("price", 0, 1), 10**400, "price: expected a number"),
        (Category("genre"), ["a"], "genre: expected a text or a number"),
        (Category("genre"), b"a", "genre: expected a text or a number"),
        (Category("genre"), -math.inf, "genre: expected a text or a number"),
        (Tags("moods"), 3, "moods: expected a list of tags, got 3"),
        (Tags("moods"), {"a": 1}, "moods: expected a list of tags"),
        (Cycle("hour", 24), "noon", "hour: expected a number"),
        (Vector("taste", 2), [1], r"taste: expected 2 finite numbers, got \[1\]"),
        (Vector("taste", 2), [1, math.nan], "taste: expected 2 finite numbers"),
        (Vector("taste", 2), "ab", "taste: expected 2 numbers"),
        (Flag("member"), "yes", "member: expected true, false or nothing, got 'yes'"),
        (Flag("member"), 2, "member: expected true, false or nothing"),
    ],
)
def test_bad_values_are_named(column, value, message):
    with pytest.raises(ValueError, match=message):
        column.reader(0)(value)
    with pytest.raises(ValueError, match=column.name):
        column.batch(0)([value])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Number(""), "name: expected a text"),
        (lambda: Number("x", low=1), "x: expected both low and high"),
        (lambda: Number("x", 1, 1), r"x: high: expected a finite number above 1"),
        (lambda: Number("x", "a", 1), "x: low"),
        (lambda: Cycle("x", 0), "x: period"),
        (lambda: Vector("x", 0), "x: size"),
        (lambda: Category("x", "ab"), "x: values: expected a list"),
        (lambda: Category("x", ["a", "a"]), "x: values: expected every value once"),
        (lambda: Category("x", [None]), "x: expected a text or a number"),
        (lambda: Category("x", buckets=0), "x: buckets"),
        (lambda: Tags("x", separator=""), "x: separator"),
        (lambda: column_from_json({"kind": "colour", "name": "x"}), "columns: expected a kind among number"),
        (lambda: Vector("x").fitted([None, 3]), "x: expected a list of numbers in the sample"),
    ],
)
def test_bad_declarations_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("price", [1, 2.5, None], "number"),
        ("price", np.array([1, 2]), "number"),
        ("hour", [0, 23, 5], "cycle"),
        ("hour", [0, 230], "number"),
        ("hour", [0.5], "number"),
        ("member", [True, None, False], "flag"),
        ("genre", ["a", "b"], "category"),
        ("genre", ["a", 1], "category"),
        ("genre", [None, math.nan], "category"),
        ("genre", [], "category"),
        ("taste", [[1, 2], [3, 4.5], None], "vector"),
        ("taste", [np.zeros(3), np.ones(3)], "vector"),
        ("moods", [["a"], []], "tags"),
        ("moods", [["a", "b"], ["c", "d"]], "tags"),
        ("moods", [[1], [2, 3]], "tags"),
    ],
)
def test_kinds_are_guessed(name, values, kind):
    assert guess(name, values).kind == kind
