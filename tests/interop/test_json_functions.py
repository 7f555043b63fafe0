"""Functions on JSON columns return the same rows and values, and refuse the same input, as in pylance."""

import random

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import InvalidInputError
from lance_core.predicate.json_functions import JSON_FUNCTIONS
from lance_core.schema.jsonb import jsonb_from_text

DOCUMENTS = [
    '{"a":1,"b":"x","c":[1,2,3],"d":{"e":true,"f":null},"g":1.5,"h":"12","i":false,"j":"true","k":-7,'
    '"l":9223372036854775807,"m":1e300}',
    '{"a":"s","c":[],"d":5}',
    "null",
    '[1,"two",null,{"x":9}]',
    '"str"',
    "42",
    None,
    '{"a":null,"b":"","c":["x","1",1]}',
    "{}",
    "true",
    '{"a":[1,2],"A":3,"x y":1,"":2,"q.r":4}',
]
ONE = (
    '{"s":"x","n":1,"z":0,"f":1.5,"f2":2.5,"neg":-1.5,"t":true,"u":null,"a":[1,2,3],"o":{"e":true,"g":null},"one":[5],'
    '"e":[],"big":18446744073709551615,"huge":1e300,"sn":"12","sf":"1.5","st":"TRUE","s1":"1","es":"",'
    '"aa":[[1],{"b":2},"q\\"r",1.0,null,true],"k":[{"v":1},{"v":2}]}'
)
PREDICATES = """
json_exists(j, '$.a')
json_exists(j, '$.d.e')
json_exists(j, '$.d.f')
json_exists(j, '$.c[0]')
json_exists(j, '$[3].x')
json_exists(j, '$.*')
json_exists(j, '$')
json_exists(j, 'a')
json_exists(j, '$.zz')
json_exists(j, '$.c[*]')
json_exists(j, '$.c[last]')
json_exists(j, '$."x y"')
json_exists(j, '$["a"]')
json_exists(j, '$.q.r')
json_exists(j, '$[')
json_extract(j, '$.a') = '1'
json_extract(j, '$.b') = '"x"'
json_extract(j, '$.c') = '[1,2,3]'
json_extract(j, '$.d') = '{"e":true,"f":null}'
json_extract(j, '$.a') is null
json_extract(j, '$.a') = 'null'
json_extract(j, '$.c[*]') is not null
json_extract(j, '$.c[*]') = '1'
json_extract(j, '$.c[*]') = '[1,2,3]'
json_extract(j, '$.c[1]') = '2'
json_extract(j, '$') = '42'
json_extract(j, '$.g') = '1.5'
json_extract(j, '$.m') = '1e300'
json_extract(j, '$.zz') is null
json_get(j, 'a') is not null
json_get(j, 'a') is null
json_get_string(json_get(j,'d'),'e') = 'true'
json_get_string(j,'a') = '1'
json_get_string(j,'a') = 's'
json_get_string(j,'b') = 'x'
json_get_string(j,'c') = '[1,2,3]'
json_get_string(j,'d') is not null
json_get_string(j,'a') is null
json_get_string(j,'g') = '1.5'
json_get_string(j,'i') = 'false'
json_get_string(j,'a') = 'null'
json_get_string(j,'$.a') = '1'
json_get_string(j,'0') = '1'
json_get_string(j,'1') = 'two'
json_get_string(j,'A') = '3'
json_get_string(j,'q.r') = '4'
json_get_int(j,'a') = 1
json_get_int(j,'a') > 0
json_get_int(j,'g') = 1
json_get_int(j,'g') is null
json_get_int(j,'h') = 12
json_get_int(j,'b') = 1
json_get_int(j,'i') = 0
json_get_int(j,'k') = -7
json_get_int(j,'l') = 9223372036854775807
json_get_int(j,'m') > 0
json_get_float(j,'a') = 1.0
json_get_float(j,'g') = 1.5
json_get_float(j,'h') = 12
json_get_float(j,'i') = 0
json_get_float(j,'zz') is null
json_get_bool(j,'i')
json_get_bool(j,'i') = false
json_get_bool(j,'j')
json_get_bool(j,'a')
json_get_bool(j,'b')
json_get_bool(j,'zz') is null
json_array_length(j, '$.c') = 3
json_array_length(j, '$.c') = 0
json_array_length(j, '$.c') is null
json_array_length(j, '$') = 4
json_array_length(j, '$.a') = 2
json_array_length(j, '$.zz') is null
json_array_contains(j, '$.c', '1')
json_array_contains(j, '$.c', 'x')
json_array_contains(j, '$.c', 'two')
json_array_contains(j, '$', 'two')
json_array_contains(j, '$', '1')
json_array_contains(j, '$.a', '1')
json_array_contains(j, '$', 'null')
json_array_contains(j, '$.zz', 'null')
json_array_contains(j, '$.c[0]', '1')
not json_exists(j, '$.a')
json_exists(j, '$.a') and id < 5
json_get_int(j,'a') + 1 = 2
lower(json_extract(j,'$.b')) = '"x"'
coalesce(json_get_int(j,'k'),0) < 0
json_get_int(j, 5) = 1
json_exists(j)
json_exists(id, '$.a')
json_exists('{"a":1}', '$.a')
json_get_string(j,'b') like 'x%'
json_get_string(j,'b') in ('x','y')
json_get_float(j,'g') between 1 and 2
regexp_like(json_get_string(j,'b'), 'x')
json_extract(j, '$.c[0,1]') is not null
json_extract(j, '$.d.*') = 'true'
json_extract(j, '$.d.*') is not null
"""
RICH = (
    '{"n":1,"s":"abc","b":true,"u":null,"f":1.5,"a":[1,2,3,"x",null,[4]],"o":{"n":1,"p":{"n":7}},"1":"one","true":4,'
    '"k":[{"v":1,"w":"ab"},{"v":2},{"v":"2"}],"neg":-3,"z":0.0,"l":[1,2],"one":[5],"big":18446744073709551615,'
    '"mi":-9223372036854775808,"e":[]}'
)
OPERANDS = [
    "$.n",
    "$.s",
    "$.b",
    "$.u",
    "$.a",
    "$.a[*]",
    "$.o",
    "$.k[*].v",
    "$.neg",
    "$.z",
    "$.l",
    "$.one",
    "$.big",
    "$.mi",
]
OPERANDS += ["$.zz", "$.f", "1", "-1", "+1", ".5", "7", "null", "true", '"abc"', "18446744073709551616", "1.5"]
OPERATORS = ["==", "!=", "<>", "<", "<=", ">", ">=", "starts with", "+", "-", "*", "/", "%", "="]
EXPRESSIONS = """
$.a[*]?(@ > 1)
$.k[*]?(@.v == 2)
$.k?(@.v == 2)
$.k[*] ? ( @.v == 1 && @.w == "ab" || @.v == 2 ).v
$.k[*]?(@.w starts with "a")
$.k[*]?(exists(@.v?(@ == 2)))
$.k[*]?(exists(@.w) && @.v == 1)
$?(exists($.n)).s
$.k[*]?((@.v == 1) || (@.v == 2))
$.k[*]?(@.v + 1 == 2)
$.k[*]?(@.v)
$.k[*]?(1 == 1)
$.k[*]?(1+1)
$.k[*]?(-1)
$.k[*]?(@["v"]==1)
$.k[*]?(@:v==1&&@.w=="ab")
$.k[*]?(@.v == $.n)
$.k[*]?(@.v == 1)?(@.w == "ab").v
$.k[?(@.v == 1)]
$.k?(exists(@[*].w))
$.a[*]?(@.**{0} == 1)
$.a[*]?(@ == null)
$.a[*]?(@ != null)
$.**
$.**{1}
$.**{1 to 2}
$.**{2 to 1}
$.**{1 TO LAST}
$.**{1to2}.n
$.**{last}
$.**{255}
$.**{256}
$.** {1}
$.**[0]
$.***
$.**?(@ == 7)
$.o.**{0 to 1}?(exists(@.n))
.**
$.n == 1 || $.s == 5
$.n == 2 && $.s == 5
$.n == 1 || $.n == 2 && $.n == 3
$.n == 2 && ($.n == 3 || $.n == 1)
$.n == 1 || 1 + 1
$.n == 1 || -1
(1+2)
($.n)
(($.n == 1))
$.n+1*2
exists($.zz)
exists(@.n)
exists ( $.n ) && $.n == 1
exists($.n) == true
exists($.n == 1)
exists
@.n == 1
starts with "a"
!($.n==1)
$.a.size()
1
true
"s"
-1
--1
- $.n
-$.l
+$.l
-$.a[*]
-$.s
-$.zz
-$.big
-$.mi
-$.z
-7 % 4
$.n--1
$.a[0to1]
$.a[LAST]
$.a[last+0]
$.a[last+1]
$.n === 1
$.n == null1
$.n == 01
$.s == ""
$.s starts with"a"
$.f == .15e1
n?(@ == 1)
?(@.n == 1).n
$.n<>2
"""
KEYS = ["s", "n", "z", "f", "f2", "neg", "t", "u", "a", "o", "one", "big", "huge", "sn", "sf", "st", "s1", "es", "zz"]
GETTERS = ["json_get", "json_get_string", "json_get_int", "json_get_float", "json_get_bool"]
PATHS = ["$.a[*]", "$.one[*]", "$.e[*]", "$.o.*", "$.k[*].v", "$.a[0,2]", "$.a[0 to 1]", "$.a[last]", "$.a[last-1]"]
PATHS += ["$.a[9]", "$.s", "$.u", "$.o", "$", "$.aa", "$.f2", "$.huge", "n", "$n", "$.k.v", "$.s[0]", "$.s[*]", '$."s"']
PATHS += ["$['s']", "$:s", "$.a[-1]", "", " $.n ", "$.N", "$.sn.zz", "$ . n", "$.o.e.*", "*", "$[0]", "$.a[1 to last]"]


@pytest.fixture(scope="module")
def uri(tmp_path_factory) -> str:
    location = str(tmp_path_factory.mktemp("json") / "many")
    rows = pa.table({"id": range(len(DOCUMENTS)), "j": pa.array(DOCUMENTS, pa.json_())})
    lance.write_dataset(rows, location)
    return location


@pytest.fixture(scope="module")
def rich_uri(tmp_path_factory) -> str:
    location = str(tmp_path_factory.mktemp("json") / "rich")
    lance_core.write_dataset(pa.table({"id": [0], "j": pa.array([RICH], pa.json_())}), location)
    return location


@pytest.fixture(scope="module")
def one_uri(tmp_path_factory) -> str:
    location = str(tmp_path_factory.mktemp("json") / "one")
    lance_core.write_dataset(pa.table({"id": [0], "j": pa.array([ONE], pa.json_())}), location)
    return location


def rows_of(library, uri: str, predicate: str) -> list[int] | str:
    try:
        return library.dataset(uri).to_table(filter=predicate, columns=["id"])["id"].to_pylist()
    except (ValueError, OSError):  # pa.ArrowInvalid, LanceError
        return "refused"


def value_in_pylance(uri: str, name: str, *texts: str) -> tuple[pa.DataType, object] | str:
    arguments = ", ".join("'" + text.replace("'", "''") + "'" for text in texts)
    try:
        found = lance.dataset(uri).to_table(columns={"x": f"{name}(j, {arguments})"})["x"]
    except (ValueError, OSError):
        return "refused"
    return found.type, found[0].as_py()


def value_of(name: str, *texts: str, document: str = ONE) -> tuple[pa.DataType, object] | str:
    [function] = [each for each in JSON_FUNCTIONS if each.name == name]
    documents = pa.array([jsonb_from_text(document.encode())], pa.large_binary())
    try:
        found = function(documents, *(pa.array([text]) for text in texts))
    except InvalidInputError:
        return "refused"
    return found.type, found[0].as_py()


@pytest.mark.parametrize("predicate", PREDICATES.strip().splitlines())
def test_filters_on_json_return_the_same_rows_as_pylance(uri: str, predicate: str) -> None:
    assert rows_of(lance_core, uri, predicate) == rows_of(lance, uri, predicate)


@pytest.mark.parametrize("getter", GETTERS)
def test_json_members_of_each_kind_are_converted_as_in_pylance(one_uri: str, getter: str) -> None:
    for key in KEYS:
        assert value_of(getter, key) == value_in_pylance(one_uri, getter, key), key


@pytest.mark.parametrize("function", ["json_extract", "json_exists", "json_array_length"])
def test_json_paths_find_the_same_values_as_in_pylance(one_uri: str, function: str) -> None:
    for path in PATHS:
        assert value_of(function, path) == value_in_pylance(one_uri, function, path), path


@pytest.mark.parametrize("function", ["json_extract", "json_exists"])
def test_filters_and_expressions_in_json_paths_work_as_in_pylance(rich_uri: str, function: str) -> None:
    for path in EXPRESSIONS.strip().splitlines():
        assert value_of(function, path, document=RICH) == value_in_pylance(rich_uri, function, path), path


def test_operators_in_json_paths_work_as_in_pylance(rich_uri: str) -> None:
    rng = random.Random(13)
    for _ in range(300):
        left, right = rng.choices(OPERANDS, k=2)
        path = f"{left} {rng.choice(OPERATORS)} {right}"
        ours = value_of("json_extract", path, document=RICH)
        assert ours == value_in_pylance(rich_uri, "json_extract", path), path


@pytest.mark.parametrize("wanted", ["1", "1.0", "true", "null", 'q"r', '"q\\"r"', "[1]", '{"b":2}', "2", "TRUE"])
def test_items_of_json_arrays_are_compared_as_in_pylance(one_uri: str, wanted: str) -> None:
    for path in ("$.aa", "$.a", "$.s", "$.o", "$.zz", "$.a[*]"):
        name = "json_array_contains"
        assert value_of(name, path, wanted) == value_in_pylance(one_uri, name, path, wanted), path


def test_arguments_of_json_functions_may_differ_between_rows(tmp_path) -> None:
    documents = ['{"a":1,"b":2}', '{"a":3}', None, '{"b":4}']
    rows = pa.table({"j": pa.array(documents, pa.json_()), "key": ["b", "a", "a", None]})
    dataset = lance_core.write_dataset(rows, str(tmp_path / "t"))
    for predicate, expected in [
        ("json_get_int(j, key) > 0", ["b", "a"]),
        ("json_get_int(j, key) is null", ["a", None]),
    ]:
        for library in (lance_core, lance):
            found = library.dataset(dataset.uri).to_table(filter=predicate, columns=["key"])
            assert found["key"].to_pylist() == expected


def test_deletes_accept_json_functions_in_their_predicates(tmp_path) -> None:
    rows = pa.table({"j": pa.array(['{"a":1}', '{"a":2}', "{}"], pa.json_())})
    dataset = lance_core.write_dataset(rows, str(tmp_path / "t"))
    dataset.delete("json_get_int(j, 'a') = 1")
    assert lance.dataset(dataset.uri).to_table()["j"].to_pylist() == ['{"a":2}', "{}"]


def test_json_values_that_cannot_be_converted_are_named_in_the_error(uri: str) -> None:
    with pytest.raises(InvalidInputError, match="at 'b' cannot be converted to an integer"):
        lance_core.dataset(uri).to_table(filter="json_get_int(j, 'b') = 1")


def test_invalid_json_paths_are_named_in_the_error(uri: str) -> None:
    for path in ("$[", "$.c[?(@ > 2)]", "$..e", "$.c[*]?(@ > 2", "$.a == 1.5", "(" * 1000):
        with pytest.raises(InvalidInputError, match="is invalid: "):
            lance_core.dataset(uri).to_table(filter=f"json_exists(j, '{path}')")
