"""The report of a run folder, its pictures, and the README's table of results."""

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graft_jax.catalog.catalog import Catalog, Tool
from graft_jax.errors import GraftError
from graft_jax.evaluation.analysis import END, error_kinds, first_errors, reliability
from graft_jax.evaluation.report import write_report
from graft_jax.evaluation.score_files import read_scores, save_scores, slim, write_scores
from graft_jax.evaluation.scores import score_predictions
from graft_jax.evaluation.tables import (
    BEGIN,
    code,
    markdown_table,
    number,
    plain,
    replace_block,
    results_table,
)
from graft_jax.evaluation.tables import END as END_MARK
from graft_jax.io.files import write_json

ROOT = Path(__file__).resolve().parents[2]
NAMES = (
    *(f"{what}_{how}" for what in ("hotel", "train", "alarm") for how in ("book", "query", "drop")),
    "$pay|now$",
    "<<<h1>name</h1>",
    "发送邮件",
)
EDGES = tuple((a, b) for a in NAMES for b in NAMES if (len(a) + len(b)) % 2 == 0)
CATALOG = Catalog(tuple(Tool(name) for name in NAMES), EDGES)


def fake_predictions(n: int, right: float, seed: int, off: bool = False) -> list[dict[str, Any]]:
    """Plans over NAMES of which a share is right, about as often as their probability says."""
    rng = np.random.default_rng(seed)
    gold_rng = np.random.default_rng(0)
    records = []
    for i in range(n):
        length = int(gold_rng.choice([2, 3, 4, 5], p=[0.62, 0.28, 0.08, 0.02]))
        gold = [NAMES[k] for k in gold_rng.integers(0, len(NAMES), size=length)]
        probability = float(np.clip(rng.beta(4 * right + 0.5, 4 * (1 - right) + 0.5), 0.01, 0.99))
        predicted = list(gold)
        if rng.random() > probability**1.5:
            place = rng.integers(0, length)
            near = NAMES[(NAMES.index(gold[place]) + int(rng.geometric(0.7))) % len(NAMES)]
            predicted = [*gold[:place], near, *gold[place + 1 :]]
            if rng.random() < 0.3:
                predicted = gold[:-1]
        record: dict[str, Any] = {
            "id": f"q{i}",
            "query": f"Book <b>room</b> {i} | pay $5\nand *tell* `me`",
            "gold": gold,
            "predicted": predicted,
            "log_prob": float(np.log(probability)),
            "prompt_tokens": 30 + i % 7,
            "generated_tokens": len(predicted) + 1,
            "truncated": False,
            "seconds": 0.2 + 0.01 * (i % 10),
        }
        if off:
            record["non_tool_tokens"] = int(i % 100 == 0)
        records.append(record)
    return records


def write_score_file(path: Path, method: str, constrain: str | None, records: Any) -> None:
    provenance = {
        "method": method,
        "data": "ultratool",
        "split": "test",
        "backbone": None if method == "kNN" else "SmolLM2-135M",
        "constrain": constrain,
        "seed": 0,
        "config": {"sft": {"epochs": 3}},
        "data_hash": "d" * 64,
        "planner_hash": None if method == "kNN" else "p" * 64,
        "versions": {"jax": "0.10", "graft_jax": "0.1"},
    }
    half = [r["id"] for r in records[: len(records) // 2]]
    scores = score_predictions(records, CATALOG, seed=0, groups={"plan seen in training": half})
    write_scores(path, scores, records, provenance)


def fake_metrics() -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    rows: list[dict[str, Any]] = []
    sizes = {"grounding": (100, 5.0), "edges": (60, 0.7), "sft": (400, 3.0), "distill": (150, 0.5)}
    step = 0
    for stage, (updates, start) in sizes.items():
        for k in range(updates):
            step += 1
            loss = start * (0.15 + 0.85 * np.exp(-4 * k / updates)) * (1 + 0.1 * rng.normal())
            row = {
                "step": step,
                "stage": stage,
                "stage_step": k + 1,
                "loss": float(loss),
                "tokens_per_second": 400 + float(rng.normal()),
            }
            if stage == "distill":
                row |= {"kl": float(loss) / 2, "rollout_em": 0.6, "teacher_em": 0.8}
                row |= {"teacher_corrects": 0.2}
            rows.append(row)
            if stage in ("sft", "distill") and (k + 1) % 50 == 0:
                em = 0.6 * (1 - np.exp(-(step - 160) / 150))
                rows.append(
                    {"step": step, "stage": stage, "validation": {"em": em, "elr": 0.9, "acpl": 1}}
                )
    return rows


@pytest.fixture(scope="module")
def full_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "smollm2"
    run.mkdir()
    card = {
        "format": 1,
        "backbone": {"path": "backbones/smollm2-135m", "content_hash": "b" * 64},
        "stages": {"sft": {"epochs": 3, "seed": 0}},
        "data_hash": "d" * 64,
        "scores": {"em": 0.6},
    }
    (run / "planner.json").write_text(json.dumps(card))
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in fake_metrics()))
    scores = run / "scores"
    write_score_file(scores / "test-graph.json", "GRAFT", "graph", fake_predictions(300, 0.75, 1))
    off = fake_predictions(300, 0.7, 2, off=True)
    write_score_file(scores / "test-off.json", "GRAFT", "off", off)
    knn = [
        {key: r[key] for key in ("id", "query", "gold", "predicted")}
        for r in fake_predictions(300, 0.4, 3)
    ]
    write_score_file(scores / "test-knn.json", "kNN", None, knn)
    edges = {"auc": 0.97, "precision_at_out_degree": 0.81, "edges": 600}
    reports = run / "reports"
    reports.mkdir()
    (reports / "edges.json").write_text(
        json.dumps({"all": edges, "held_out": edges, "reverse": {**edges, "auc": None}})
    )
    (reports / "teacher.json").write_text(json.dumps({"with_context": {"em": 0.85}, "rows": 64}))
    write_report(run)
    return run


def test_the_report_has_every_section_and_picture(full_run: Path) -> None:
    text = (full_run / "report.md").read_text()
    for title in (
        "Scores",
        "By plan length",
        "Stages",
        "Most confused tools",
        "Reliability of plan probabilities",
        "Predicted against gold",
        "Cost",
        "Provenance",
    ):
        assert f"\n## {title}\n" in text
    pictures = {path.name for path in (full_run / "pictures").iterdir()}
    assert pictures == {"losses.png", "em_by_length.png", "confusions.png", "reliability.png"}
    for name in pictures:
        assert f"(pictures/{name})" in text
        assert (full_run / "pictures" / name).read_bytes().startswith(b"\x89PNG")


def test_the_report_gives_the_figures_of_the_files(full_run: Path) -> None:
    text = (full_run / "report.md").read_text()
    for stem in ("test-graph", "test-off", "test-knn"):
        em = read_scores(full_run / "scores" / f"{stem}.json")["scores"]["all"]["metrics"]["em"]
        assert f"| {100 * em['value']:.1f} [" in text
    assert "% of tokens" in text  # hallucination under off
    assert "0.9700" in text  # AUC
    assert "`test-graph` minus each of the others" in text
    assert "Better: overall (EM, " in text
    assert "Worse: nowhere." in text
    assert "teacher\\_" not in text
    for words in (
        "teacher_corrects",
        "with_context.em",
        "rollout_em",
        "plan seen in training",
        "b" * 64,
    ):
        assert words in text


def test_names_and_queries_cannot_break_the_tables(full_run: Path) -> None:
    lines = (full_run / "report.md").read_text().split("\n")
    widths: set[int] = set()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if not line.startswith("|"):
            continue
        widths.add(line.replace("\\|", "").count("|"))
        if not after.startswith("|"):
            assert len(widths) == 1
            widths.clear()
    assert "<b>" not in "\n".join(lines)


def test_the_report_is_the_same_for_the_same_files(full_run: Path) -> None:
    paths = [full_run / "report.md", *(full_run / "pictures").iterdir()]
    before = {path: path.read_bytes() for path in paths}
    write_report(full_run)
    assert {path: path.read_bytes() for path in paths} == before


def test_an_empty_run_says_what_is_missing(tmp_path: Path) -> None:
    text = write_report(tmp_path).read_text()
    for words in (
        "has not been evaluated",
        "The stages grounding, edges, sft and distill were not run",
        "Edge recovery was not measured",
        "no planner.json",
    ):
        assert words in text
    assert not list((tmp_path / "pictures").glob("*"))


def test_a_stage_switched_off_is_said_in_words(tmp_path: Path) -> None:
    rows = [row for row in fake_metrics() if row["stage"] != "edges"]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "The stage edges was not run" in write_report(tmp_path).read_text()


def test_perfect_plans_and_plans_without_probabilities_have_a_report(tmp_path: Path) -> None:
    records = [
        {"id": f"{i}", "query": "q", "gold": ["hotel_book"], "predicted": ["hotel_book"]}
        for i in range(3)
    ]
    write_score_file(tmp_path / "scores" / "test-tools.json", "GRAFT", "tools", records)
    text = write_report(tmp_path).read_text()
    assert "Every plan is right" in text
    assert "carry no probabilities" in text
    assert "no kNN scores" in text
    assert "PA@3" in text


def test_score_sets_over_other_rows_are_not_paired(tmp_path: Path) -> None:
    records = fake_predictions(20, 0.6, 1)
    write_score_file(tmp_path / "scores" / "test-graph.json", "GRAFT", "graph", records)
    write_score_file(tmp_path / "scores" / "test-knn.json", "kNN", None, records[:10])
    text = write_report(tmp_path).read_text()
    assert "`test-knn` cannot be paired with `test-graph`" in text


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "metrics.jsonl",
            '{"step": 1, "stage": "sft"}\n{"ste\n',
            "metrics.jsonl, line 2: is not JSON",
        ),
        ("metrics.jsonl", '{"loss": 1}\n', "metrics.jsonl, line 1: step is None"),
        ("metrics.jsonl", "\udcff\n", "metrics.jsonl: is not UTF-8"),
        ("planner.json", "[]", "planner.json: is \\[\\]; it must be an object"),
        ("scores/other.json", "{}", "other.json: is not a score file"),
        ("reports/edges.json", "[]", "edges.json: is \\[\\]; it must be an object"),
        ("reports/edges.json", '{"all": "x"}', "edges.json: all is 'x'; it must be an object"),
        ("reports/edges.json", '{"all": {"edges": "1"}}', "all.edges is '1'"),
        ("reports/edges_before.json", '{"all": {"edges": 1, "auc": []}}', "all.auc is"),
        ("reports/teacher.json", "5", "teacher.json: is 5; it must be an object"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(GraftError, match=message):
        write_report(tmp_path)
    assert not (tmp_path / "report.md").exists()


SOUND: dict[str, Any] = {
    "kind": "graft-jax scores",
    "format": 1,
    "provenance": {"method": "GRAFT"},
    "scores": score_predictions(
        [{"id": "1", "query": "q", "gold": ["hotel_book"], "predicted": ["hotel_book"]}],
        CATALOG,
        seed=0,
        groups={"seen": ["1"]},
    ),
    "predictions": [{"id": "1", "query": "q", "gold": ["hotel_book"], "predicted": []}],
}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("provenance", []),
        ("provenance.method", 5),
        ("scores", {}),
        ("scores.seed", "0"),
        ("scores.seed", -1),
        ("scores.short_plans", "maybe"),
        ("scores.all", {}),
        ("scores.all.metrics", {}),
        ("scores.all.metrics.em", None),
        ("scores.all.metrics.em", "x"),
        ("scores.all.metrics.em.value", "x"),
        ("scores.all.metrics.tool_f1", 0.5),
        ("scores.by_length.1", None),
        ("scores.by_length.one", SOUND["scores"]["all"]),
        ("scores.groups.seen.metrics", {}),
        ("scores.group_ids.seen", ["2"]),
        ("scores.cost", []),
        ("scores.cost.seconds", 1.0),
        ("scores.per_example", []),
        ("scores.per_example.em", None),
        ("scores.per_example.ned", [1, 2]),
        ("scores.per_example.ned", ["x"]),
        ("scores.per_example.id", ["1", "1"]),
        ("predictions", [[]]),
        ("predictions.0.gold", "hotel_book"),
    ],
)
def test_a_damaged_score_file_is_refused_by_its_place(
    tmp_path: Path, place: str, value: Any
) -> None:
    content = copy.deepcopy(SOUND)
    path = tmp_path / "scores" / "test-graph.json"
    write_json(path, content)
    assert read_scores(path) == content
    at: Any = content
    *above, last = place.split(".")
    for key in above:
        at = at[int(key) if key.isdecimal() and isinstance(at, list) else key]
    at[last] = value
    write_json(path, content)
    for reading in (lambda: results_table([path]), lambda: write_report(tmp_path)):
        with pytest.raises(GraftError, match=r"test-graph\.json: ") as caught:
            reading()
        assert place.rsplit(".", 1)[0] in str(caught.value) or place in str(caught.value)


def test_a_lone_surrogate_in_a_request_has_a_report(tmp_path: Path) -> None:
    content = copy.deepcopy(SOUND)
    content["predictions"][0]["query"] = "pay \ud83d"
    save_scores(tmp_path / "scores" / "test-graph.json", content)
    assert read_scores(tmp_path / "scores" / "test-graph.json") == content
    assert "pay \\ud83d" in write_report(tmp_path).read_text()


def test_a_run_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraftError, match="nowhere: no such run folder"):
        write_report(tmp_path / "nowhere")


# Analysis.


def case(gold: str, predicted: str, log_prob: float | None = None) -> dict[str, Any]:
    return {"gold": gold.split(), "predicted": predicted.split(), "log_prob": log_prob}


def test_the_first_error_is_where_the_plans_part() -> None:
    records = [case("a b c", "a x y"), case("a b", "a x"), case("a b", "a"), case("a", "a b")]
    assert first_errors([*records, case("a", "a")]) == [
        ("b", "x", 2),
        (END, "b", 1),
        ("b", END, 1),
    ]


@pytest.mark.parametrize(
    ("predicted", "kind"),
    [
        ("a b c", "right"),
        ("a b", "stopped early"),
        ("", "stopped early"),
        ("a b c a", "went on"),
        ("b a c", "right tools, other order"),
        ("a x c", "one tool wrong"),
        ("x y c", "else"),
        ("x", "else"),
    ],
)
def test_every_plan_is_of_one_kind(predicted: str, kind: str) -> None:
    kinds = error_kinds([case("a b c", predicted)])
    assert {name: n for name, n in kinds.items() if n} == {kind: 1}


def test_calibration_by_hand() -> None:
    records = [case("a", "a", np.log(0.95)), case("a", "b", np.log(0.95)), case("a", "a", 0.0)]
    records += [case("a", "b", np.log(0.25)), case("a", "b")]
    found = reliability(records, seed=0)
    assert found is not None
    assert found.count == 4
    assert found.bins[9].right.count == 3
    expected = 3 / 4 * abs(2 / 3 - (0.95 + 0.95 + 1) / 3) + 1 / 4 * 0.25
    assert found.error == pytest.approx(expected)
    assert reliability([case("a", "a")], seed=0) is None


# Tables.


def test_undefined_figures_are_dashes_and_zero_has_no_sign() -> None:
    assert number(None, 2) == "–"
    assert number(-0.0001, 2) == "0.00"
    assert number(0.6149, 1, percent=True) == "61.5"


def test_cells_show_their_text_and_nothing_else() -> None:
    assert plain("a|b\n*c* <d> x_y [e](f)") == "a\\|b \\*c\\* &lt;d\\> x_y [e\\](f)"
    assert code("a|b") == "`a\\|b`"
    assert code("a`b") == "`` a`b ``"
    assert len(plain("x" * 1000, limit=50)) == 50
    table = markdown_table(["a", "n"], [["x", "1.5 [1, 2]"], ["y", None]])
    assert table == "| a | n |\n| --- | ---: |\n| x | 1.5 [1, 2] |\n| y | – |\n"


def test_full_and_slim_files_give_the_same_row(full_run: Path, tmp_path: Path) -> None:
    path = full_run / "scores" / "test-graph.json"
    save_scores(tmp_path / "test-graph.json", slim(read_scores(path)))
    table = results_table([path])
    assert table == results_table([tmp_path / "test-graph.json"])
    assert "| ultratool test | GRAFT | SmolLM2-135M | graph | 300 |" in table


def test_a_block_is_replaced_and_replacing_again_changes_nothing() -> None:
    text = f"# Title\n\n{BEGIN}\nold\nlines\n{END_MARK}\nrest\n"
    new = replace_block(text, "| a |\n")
    assert new == f"# Title\n\n{BEGIN}\n| a |\n{END_MARK}\nrest\n"
    assert replace_block(new, "| a |\n") == new


def test_a_block_has_the_line_ends_of_its_file() -> None:
    text = f"# Title\n{BEGIN}\nold\n{END_MARK}\nrest\n".replace("\n", "\r\n")
    assert replace_block(text, "| a |\n| b |\n") == text.replace("old", "| a |\r\n| b |")


@pytest.mark.parametrize(
    "text", ["nothing", BEGIN, f"{END_MARK}\n{BEGIN}", f"{BEGIN}\n{BEGIN}\n{END_MARK}"]
)
def test_markers_must_stand_once_and_in_order(text: str) -> None:
    with pytest.raises(GraftError, match="results:begin"):
        replace_block(text, "x")


def run_results(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "launch" / "results.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_updates_the_readme_and_tells_when_it_is_stale(
    full_run: Path, tmp_path: Path
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"# Title\n{BEGIN}\n{END_MARK}\n")
    other = tmp_path / "speed.json"
    other.write_text('{"tokens_per_second": 400}')
    score_file = full_run / "scores" / "test-graph.json"

    assert run_results("--readme", readme, "--check", score_file).returncode == 1
    updated = run_results("--readme", readme, score_file, other)
    assert updated.returncode == 0
    assert "speed.json: no score file, left out" in updated.stderr
    assert results_table([score_file]) in readme.read_text()
    assert run_results("--readme", readme, "--check", score_file).returncode == 0
    assert run_results(score_file).stdout == results_table([score_file])

    crlf = readme.read_bytes().replace(b"\n", b"\r\n")
    readme.write_bytes(crlf)
    assert run_results("--readme", readme, "--check", score_file).returncode == 0
    readme.write_bytes(crlf.replace(b"300", b"299"))
    assert run_results("--readme", readme, score_file).returncode == 0
    assert readme.read_bytes() == crlf
    readme.write_bytes(crlf + b"\xff")
    refused = run_results("--readme", readme, score_file)
    assert refused.returncode == 2
    assert "README.md: is not UTF-8" in refused.stderr


def test_the_command_refuses_bad_input(tmp_path: Path) -> None:
    other = tmp_path / "speed.json"
    other.write_text("{}")
    refused = run_results(other)
    assert refused.returncode == 2
    assert "none of the files is a score file" in refused.stderr
    missing = run_results(tmp_path / "gone.json")
    assert missing.returncode == 2
    assert "gone.json: no such file" in missing.stderr
