"""Policy files: YAML without its traps, and the line and column of every mistake."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.policy.policy import Policy
from shoal.streams.errors import InputError
from shoal.streams.files.policy_yaml import PolicyFileError, load_policy

GOOD = """\
table: patients
attributes:
  age:    {type: int, min: 0, max: 120}
  zip:    {type: category, hierarchy: lists/zip.csv}
sensitive:
  name: disease
  values: [flu, hiv]
privacy:
  k: 5
  l: 2
  values: redrawn
"""
ZIP = "20433;2043*;*\n20437;2043*;*\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "zip.csv").write_text(ZIP)
    return tmp_path


def _load(folder: Path, text: str | bytes) -> Policy:
    path = folder / "policy.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_policy(path)


def _mistakes(folder: Path, text: str | bytes) -> list[str]:
    with pytest.raises(PolicyFileError) as caught:
        _load(folder, text)
    lines = str(caught.value).split("\n")
    assert all(line.startswith(f"{folder}/policy.yaml:") for line in lines)
    return [line.removeprefix(f"{folder}/policy.yaml:") for line in lines]


def _values(folder: Path, written: str) -> tuple[str, ...]:
    return _load(folder, GOOD.replace("[flu, hiv]", written)).sensitive.hierarchy.leaves


def test_hierarchies_are_found_beside_the_policy(folder: Path) -> None:
    policy = _load(folder, GOOD)
    assert policy.attributes[1].hierarchy is not None
    assert policy.attributes[1].hierarchy.leaves == ("20433", "20437")


def test_a_policy_error_is_an_input_error(folder: Path) -> None:
    with pytest.raises(InputError) as caught:
        _load(folder, "")
    assert caught.value.exit_code == 2


def test_words_that_old_yaml_takes_for_booleans_stay_text(folder: Path) -> None:
    assert _values(folder, "[no, yes, on, off, n, y, True]") == ("no", "yes", "on", "off", "n", "y", "True")


def test_numbers_that_are_codes_stay_text(folder: Path) -> None:
    written = "[02139, 0o17, 0x1F, 1_000, +5, 12:30, 2024-01-01, 1.2.3, -, .]"
    expected = ("02139", "0o17", "0x1F", "1_000", "+5", "12:30", "2024-01-01", "1.2.3", "-", ".")
    assert _values(folder, written) == expected


def test_whole_numbers_as_labels_keep_their_text(folder: Path) -> None:
    assert _values(folder, "[20433, 0, -7]") == ("20433", "0", "-7")


def test_quotes_and_the_str_tag_make_text_of_anything(folder: Path) -> None:
    assert _values(folder, """["true", '1.5', !!str null]""") == ("true", "1.5", "null")


@pytest.mark.parametrize("written", ["true", "1.5", "1e3", "~", "null", ".nan", "-.inf", "1.", "[a]", "{a: b}", ""])
def test_what_is_no_label_is_refused_where_it_stands(folder: Path, written: str) -> None:
    text = GOOD.replace("[flu, hiv]", f"\n    - flu\n    - {written}")
    assert _mistakes(folder, text)[0].startswith("9:")
    assert "sensitive.values[1]: must be text" in _mistakes(folder, text)[0]


def test_aliases_are_understood(folder: Path) -> None:
    assert _values(folder, "[&a flu, hiv]\n  open: [*a]") == ("flu", "hiv")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("k: 5", "k: 0", "9:6: privacy.k: must be at least 1"),
        ("k: 5", "k: 5.0", "9:6: privacy.k: must be a whole number, written without a point or exponent"),
        ("k: 5", "k: 1e3", "9:6: privacy.k: must be a whole number, written without a point or exponent"),
        ("k: 5", "k: 0x10", "9:6: privacy.k: must be a whole number, written without a point or exponent"),
        ("k: 5", "k: true", "9:6: privacy.k: must be a whole number, written without a point or exponent"),
        ("k: 5", "k:", "9:5: privacy.k: is empty; leave it out or give it a value"),
        ("k: 5", "kk: 5", "9:3: privacy.kk: is not a known key; did you mean k?"),
        ("  k: 5\n", "", "8:1: privacy.k: is missing"),
        ("k: 5", "k: 5\n  k: 6", "10:3: the key 'k' is there twice, first on line 9"),
        ("k: 5", "k: 5\n  ? [a]\n  : 3", "10:5: a key must be text; write it in quotes"),
        ("k: 5", "k: 5\n  7: 3", "10:3: a key must be text; write it in quotes"),
        ("k: 5", "k: 5\n  ~: 3", "10:3: a key must be text; write it in quotes"),
        ("k: 5", "k: 5\n  : 3", "10:3: this is not one YAML document"),
        ("k: 5", "k: 5\n  <<: {l: 3}", "10:3: privacy.<<: is not a known key"),
        ("k: 5", "k: !!int five", "9:6: this value is not what its tag says"),
        ("k: 5", "k: !secret 5", "9:6: this tag is not known; leave it out"),
        ("k: 5", "k: !!python/object:os.system 5", "9:6: this tag is not known; leave it out"),
        ("k: 5", "k: " + "9" * 5000, "9:6: this number has too many digits"),
        ("[flu, hiv]", "!set [flu, hiv]", "7:11: this tag is not known; leave it out"),
        ("[flu, hiv]", "&x [flu, *x]", "7:11: this value contains itself"),
        ("max: 120", "max: -1", "3:36: attributes.age.max: must be more than min"),
        ("max: 120", "max: .inf", "3:36: attributes.age.max: must be a whole number"),
        ("max: 120", "mx: 120", "3:31: attributes.age.mx: is not a known key; did you mean max?"),
        ("lists/zip.csv", "nozip.csv", "4:39: attributes.zip.hierarchy: the file nozip.csv cannot be read"),
        ("lists/zip.csv", "lists", "4:39: attributes.zip.hierarchy: the file lists cannot be read"),
        ("{type: int, min: 0, max: 120}", "\n    type: category", "3:3: attributes.age: needs values or hierarchy"),
        ("name: disease", "name: ''", "6:9: sensitive.name: a text is empty"),
    ],
)
def test_a_mistake_has_its_line_and_column(folder: Path, old: str, new: str, expected: str) -> None:
    assert any(line.startswith(expected) for line in _mistakes(folder, GOOD.replace(old, new)))


def test_a_control_character_in_a_name_is_refused_and_not_printed(folder: Path) -> None:
    lines = _mistakes(folder, GOOD.replace("  age: ", '  "a\\ab": '))
    assert lines == [
        r"3:3: attributes.'a\x07b': the name 'a\x07b' has a control character or half a surrogate pair in it"
    ]


def test_mistakes_of_yaml_policy_and_hierarchies_come_together_in_the_order_of_the_file(folder: Path) -> None:
    (folder / "lists" / "zip.csv").write_text("20433;2043*\n20433;*\n20433;*\n")
    text = GOOD.replace("table: patients", "table: P").replace("k: 5", "k: 5\n  k: 6\n  kay: 7")
    assert [line.split(" ")[0] for line in _mistakes(folder, text)] == ["1:8:", "4:39:", "4:39:", "10:3:", "11:3:"]
    assert "lists/zip.csv, line 3: the leaf '20433' was already on line 2" in "\n".join(_mistakes(folder, text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", "1:1: the policy is empty"),
        (b"# nothing\n", "1:1: the policy is empty"),
        (b"- a\n", "1:1: must be a mapping"),
        (b"a: 1\nb: [\n", "3:1: this is not one YAML document"),
        (b"a: 1\n---\nb: 2\n", "2:1: this is not one YAML document"),
        (b"a: b: c\n", "1:5: this is not one YAML document"),
        (b"a: *b\n", "1:4: this is not one YAML document"),
        (b"a: 1\nb: \x01\n", "2:4: this character is not allowed in YAML"),
        (b"a: 1\nb: \xff\n", "2:4: the policy is not UTF-8"),
        (b"[" * 5000, "1:1: the policy is nested too deeply"),
        (b"[" * 330 + b"]" * 330, "1:1: "),
    ],
)
def test_what_is_not_yaml_at_all_is_one_clear_line(folder: Path, text: bytes, expected: str) -> None:
    lines = _mistakes(folder, text)
    assert len(lines) == 1
    assert lines[0].startswith(expected)


def test_aliases_that_would_multiply_do_not(folder: Path) -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 40))
    assert any("a39: is not a known key" in line for line in _mistakes(folder, bomb))
    nested = "[&b0 [x], " + ", ".join(f"&b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, 40)) + "]"
    assert any("must be text" in line for line in _mistakes(folder, GOOD.replace("[flu, hiv]", nested)))


def test_a_byte_order_mark_is_skipped(folder: Path) -> None:
    assert _load(folder, b"\xef\xbb\xbf" + GOOD.encode()).table == "patients"


@pytest.mark.parametrize("name", ["missing.yaml", ".", "nul\0.yaml"])
def test_a_policy_that_cannot_be_read_is_one_sentence(folder: Path, name: str) -> None:
    with pytest.raises(PolicyFileError) as caught:
        load_policy(folder / name)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@given(st.text(alphabet="ab:-[]{}&*!|>'\"#%@, \n\t0.~", max_size=40) | st.binary(max_size=20))
def test_no_text_makes_it_raise_anything_else(tmp_path_factory: pytest.TempPathFactory, text: str | bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PolicyFileError):
        load_policy(path)
