"""Results as Markdown."""

import pytest

from benchmarks.growth import growth_table
from benchmarks.tables import job_table

MADE = {
    "date": "2030-01-02",
    "machine": {"processor": "Abacus 9", "cores": 2, "system": "Linux x86_64"},
    "versions": {"python": "3.11.1", "torch": "2.13.0", "accelerate": None},
    "git": {"commit": "abc123", "dirty": True},
    "threads": 2,
}


def figures(speed, **more):
    return {
        "examples_per_second": speed,
        "tokens_per_second": 20 * speed,
        "peak_memory": 2**30,
        "padding": 0.25,
        **more,
    }


@pytest.fixture
def result():
    ours = [
        figures(speed, first_step_seconds=seconds, mfu=0.5) for speed, seconds in ((6000, 30), (7000, 4), (8000, 5))
    ]
    peer = figures(1000, first_step_seconds=20)
    rounds = [{"encoderlab": one, "trainer_sst2": peer, "plain_loop": figures(2000)} for one in ours]
    commands = {"encoderlab": "python -m encoderlab train", "trainer_sst2": "python -m benchmarks.peers.watched"}
    return {**MADE, "roofs": {"float32": 0.32e12}, "commands": commands, "seeds": [0, 1, 2], "rounds": rounds}


def test_a_jobs_table_shows_the_ratio_its_spread_and_whether_the_target_is_met(result):
    table = job_table("sst2_notebook", result)
    assert "* **encoderlab / trainer_sst2: 7.00x (6.00 to 8.00)** (examples/s; target 5x, met)" in table
    assert "* encoderlab / plain_loop: 3.50x (3.00 to 4.00) (examples/s)" in table


def test_a_sides_row_shows_its_medians_and_the_time_of_a_first_start(result):
    lines = job_table("sst2_notebook", result).splitlines()
    assert "|  | examples/s | real tokens/s | padding | peak memory | first step after | mfu |" in lines
    assert "| encoderlab | 7,000 | 140,000 | 25.0% | 1,024 MiB | 5.0 s (cold 30.0 s) | 50.0% |" in lines
    assert "| plain_loop | 2,000 | 40,000 | 25.0% | 1,024 MiB |  |  |" in lines


def test_a_table_states_where_when_and_with_what_it_was_measured(result):
    table = job_table("sst2_notebook", result)
    assert "2030-01-02, Abacus 9, 2 cores, commit abc123 with changes; python 3.11.1, torch 2.13.0." in table
    assert "3 rounds, 2 threads. Roof: 0.32 TFLOP/s float32." in table
    assert "python -m encoderlab train" in table


def test_a_peer_with_two_targets_has_a_line_for_each(result):
    for found in result["rounds"]:
        found["trainer"] = found.pop("trainer_sst2") | {"peak_memory": 2**31}
    table = job_table("finetune_minilm", result)
    assert "* **encoderlab / trainer: 7.00x (6.00 to 8.00)** (examples/s; target 2.5x, met)" in table
    assert "* **encoderlab / trainer: 0.50x (0.50 to 0.50)** (peak memory; target at most 1x, met)" in table


def test_a_target_of_our_own_is_shown_beside_what_was_measured(result):
    for found in result["rounds"]:
        found["trainer_bert"] = found.pop("trainer_sst2")
    table = job_table("pretrain_mini", result)
    assert "* **encoderlab, mfu: 50.0% (50.0% to 50.0%)** (target at least 35.0%, met)" in table
    assert "7.00x (6.00 to 8.00)** (real tokens/s; target 50x, missed)" in table


def test_another_configuration_of_ours_is_not_a_peer():
    sides = {"encoderlab": 4.0, "map_articles": 20.0, "second start": 2.5}
    rounds = [{name: {"seconds": seconds} for name, seconds in sides.items()}]
    table = job_table("prepare_articles", {**MADE, "roofs": {}, "commands": {}, "rounds": rounds})
    assert "5.00x (5.00 to 5.00)** (seconds measured; target 3x, met)" in table
    assert "* **second start, seconds measured: 2.50 (2.50 to 2.50)** (target at most 2.00, missed)" in table
    assert "/ second start" not in table


def test_an_accuracy_that_nobody_reached_is_not_measured():
    found = {"encoderlab": {"seconds_to_target": 3.0}, "notebook_sst2": {"seconds_to_target": None}}
    table = job_table("sst2_to_787", {**MADE, "roofs": {}, "commands": {}, "rounds": [found]})
    assert "**encoderlab / notebook_sst2: not measured**" in table


def test_growth_is_shown_beside_the_theoretical_one():
    points = [
        {"length": 32, "flops": 1e9, "milliseconds": 10.0, "peak_memory": 2**29},
        {"length": 64, "flops": 2.1e9, "milliseconds": 25.0, "peak_memory": 2**30},
    ]
    table = growth_table({**MADE, "axis": "length", "points": points})
    assert "| length | ms a step | factor | of the FLOPs | GFLOP/s | peak memory |" in table
    assert "| 64 | 25.0 | 2.50 | 2.10 | 84 | 1,024 MiB |" in table


def test_more_rows_are_shown_with_and_without_prepared_data():
    prepared = {"seconds": 40.0, "memory": 2**30}
    trained = {"seconds": 5.0, "milliseconds": 12.0, "memory": 2**29}
    table = growth_table(
        {**MADE, "axis": "rows", "points": [{"times": 10, "rows": 20_000, "prepared": prepared, "trained": trained}]}
    )
    assert "| 20,000 (x10) | 40.0 s | 1,024 MiB | 5.0 s | 12.0 | 512 MiB |" in table


@pytest.mark.parametrize(("ours", "verdict"), [(2.6, "met"), (3.0, "missed")])
def test_a_cost_is_shown_as_a_multiple_of_the_peers(ours, verdict):
    rounds = [{"encoderlab": {"processor_seconds": ours}, "import_torch": {"processor_seconds": 2.0}}]
    table = job_table("start_predict", {**MADE, "roofs": {}, "commands": {}, "seeds": [0], "rounds": rounds})
    times = f"{ours / 2:.2f}"
    assert (
        f"**encoderlab / import_torch: {times}x ({times} to {times})** (processor time; target at most 1.4x, {verdict})"
        in table
    )
