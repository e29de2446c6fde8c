"""The JSON documents follow their schema, and the page about them names all there is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from report.subjects import SUBJECTS, broken, measured, tuned

from critinit.report import Comparison, ReportError, Run, document, schema, to_json

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
RUN = Run(command="critinit measure mlp", seed=3, options={"tol": 0.1, "kind": dict, "none": None})


def check(found: object) -> None:
    jsonschema.Draft202012Validator(schema()).validate(found)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("name", list(SUBJECTS))
def test_every_document_follows_the_schema(name: str) -> None:
    check(json.loads(to_json(SUBJECTS[name](), run=RUN)))
    check(document(SUBJECTS[name]()))


def test_it_holds_what_was_found_and_what_was_run() -> None:
    found = document(tuned(), run=RUN)
    assert found["schema"] == "critinit/result/1"
    assert found["verdict"] == tuned().after.verdict()
    assert found["result"]["after"]["apjn"] == tuned().after.apjn.tolist()
    assert found["result"]["multipliers"] == tuned().multipliers
    assert found["run"]["command"] == "critinit measure mlp"
    assert found["run"]["options"] == {"tol": 0.1, "kind": "<class 'dict'>", "none": None}
    assert {"python", "torch", "critinit"} <= found["run"]["versions"].keys()


def test_a_mapping_is_a_comparison() -> None:
    found = document({"a": measured(), "b": tuned().after})
    assert found["schema"] == "critinit/comparison/1"
    assert found["comparison"]["best"] == "b"


def test_what_is_not_finite_is_null() -> None:
    found = json.loads(to_json(broken()))["profile"]
    assert found["apjn"] == [1.0, None, None, 0.0, 0.5]
    failed = replace(tuned(), history=[replace(tuned().history[0], loss=float("nan"))])
    assert json.loads(to_json(failed))["result"]["history"][0]["loss"] is None


def mistakes() -> dict[str, dict[str, Any]]:
    good = document(measured())
    profile = good["profile"]
    return {
        "another version": {**good, "schema": "critinit/profile/2"},
        "another kind": {**good, "schema": "critinit/scan/1"},
        "something more": {**good, "more": 1},
        "no run": {k: v for k, v in good.items() if k != "run"},
        "J as text": {**good, "profile": {**profile, "apjn": ["0.5"]}},
        "no names": {**good, "profile": {**profile, "names": []}},
    }


@pytest.mark.parametrize("name", list(mistakes()))
def test_the_schema_refuses(name: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        check(mistakes()[name])


def test_a_comparison_refuses_what_makes_no_sense() -> None:
    with pytest.raises(ReportError, match="no profile"):
        Comparison({})
    with pytest.raises(ReportError, match="names other, but the profiles are mine"):
        Comparison({"mine": measured()}, {"other": 1.0})
    with pytest.raises(ReportError, match="a str cannot be reported on"):
        document("profile")  # type: ignore[arg-type]


def test_the_page_about_it_runs_and_names_every_field() -> None:
    text = PAGE.read_text()
    code = text.split("```python\n")[1].split("```")[0]
    scope: dict[str, Any] = {}
    exec(compile(code, PAGE.name, "exec"), scope)
    check(scope["found"])
    for part in [*schema()["$defs"].values(), *schema()["oneOf"]]:
        for field in part.get("properties", {}):
            assert f"`{field}`" in text, field
