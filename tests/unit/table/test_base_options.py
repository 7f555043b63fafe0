"""Storage options of a table and of individual base paths."""

import pickle

import pytest

from lance_core.errors import InvalidTypeError
from lance_core.table.base_options import StorageOptions, inherited_options, options_of_base, with_base_params


def test_options_given_for_a_base_path_replace_all_other_options() -> None:
    options = with_base_params({"region": "here", "base_1.region": "there"}, {"s3://b/cold/": {"region": "cold"}})
    assert options_of_base(options, 1, "s3://b/cold") == {"region": "cold"}
    assert options_of_base(options, 2, "s3://b/other") is options


def test_options_given_for_a_base_id_override_the_other_options() -> None:
    options = {"Region": "here", "key": "k", "base_1.region": "there", "base_12.region": "far"}
    assert options_of_base(options, 1, "p") == {
        "key": "k",
        "base_1.region": "there",
        "base_12.region": "far",
        "region": "there",
    }
    assert options_of_base(options, 3, "p") is options
    assert options_of_base(None, 3, "p") is None


def test_storage_options_can_be_pickled_and_hide_their_values() -> None:
    options = with_base_params({"secret": "abc"}, {"p": {"secret": "xyz"}})
    assert isinstance(options, StorageOptions)
    again = pickle.loads(pickle.dumps(options))
    assert (again, again.bases) == (options, options.bases)
    assert "abc" not in repr(options)
    assert "xyz" not in repr(options)
    assert dict(options) == {"secret": "abc"}


def test_calls_inherit_storage_options_from_their_handle() -> None:
    handle = with_base_params({"a": "1"}, {"p": {"b": "2"}})
    for arguments in ((None, None), ({"a": "1"}, None)):
        found = inherited_options(handle, *arguments)
        assert (found, options_of_base(found, 1, "p")) == ({"a": "1"}, {"b": "2"})
    found = inherited_options(handle, None, {"p": {"b": "3"}})
    assert (found, options_of_base(found, 1, "p")) == ({"a": "1"}, {"b": "3"})
    assert inherited_options(None, None, None) is None


@pytest.mark.parametrize("given", [["x"], {"p": "x"}, {1: {}}])
def test_malformed_base_store_params_raise_invalid_type(given: object) -> None:
    with pytest.raises(InvalidTypeError, match="base_store_params"):
        with_base_params(None, given)
