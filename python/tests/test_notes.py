import json
import logging
import shutil

import talon
from conftest import ROOT, SMALL


def test_an_engine_says_what_drafts(caplog):
    with caplog.at_level(logging.INFO, "talon"):
        assert talon.Model(SMALL, threads=1, drafter="none").drafter == "none"
    assert "drafter none" in caplog.text


def test_the_head_of_another_model_is_told_of(small, tmp_path, caplog):
    head = tmp_path / "head"
    shutil.copytree(ROOT / "tests/data/golden/stories260k/eagle3_head", head)
    (head / "talon.json").write_text(json.dumps({"target_fingerprint": "0000"}))
    with caplog.at_level(logging.WARNING, "talon"):
        small.generate("Once", max_new=4, drafter=f"eagle3:head={head}@policy=fixed")
    warnings = [record.getMessage() for record in caplog.records if record.name == "talon"]
    assert len(warnings) == 1 and f"{head} was made for another model" in warnings[0]
