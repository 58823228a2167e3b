"""The harness with the package's own policies: planned in batches, ranked, timed, benched."""

import dataclasses
import json
from typing import Any

import numpy as np
import peer_policies
import pytest

from rnce.eval.adapters import policy_factory
from rnce.eval.bench_ablations import Variant, ablations_markdown, bench_ablations
from rnce.eval.bench_policies import bench_policies, results_markdown, results_rows
from rnce.eval.compare import compare
from rnce.eval.demonstrator import against_demonstrator, demonstrator
from rnce.eval.environments import make_env
from rnce.eval.evaluate import evaluate
from rnce.eval.latency import Latency
from rnce.eval.protocols import PROTOCOLS, Protocol, paper_numbers
from rnce.eval.rollout import Runner
from rnce.eval.run import evaluate_and_write
from rnce.eval.settings import Job, Settings
from rnce.eval.tables import headline, planning_line

OWN = "peer_policies:LikeOwn"


def settings(policy: str = OWN, **options: Any):
    return Settings(policy, "PathPlanning-v0", (50_000, 50_004), rollouts=4, slots=4, **options)


@pytest.fixture(scope="module")
def result():
    return evaluate(settings(), progress=False)


def test_bits_of_a_compiled_policy_do_not_depend_on_order():
    compiled = settings("tiny_policies:path")
    runner = Runner(compiled)
    first, *rest = [runner.run(jobs).episodes for jobs in compiled.shards]
    *again, last = [runner.run(jobs).episodes for jobs in reversed(compiled.shards)]
    assert last == first
    assert again[::-1] == rest
    assert all(episode.error is None and episode.steps == 49 for episode in first)


def test_an_episode_follows_the_plain_control_loop(result):
    policy, env = peer_policies.LikeOwn(), make_env("PathPlanning-v0")
    obs, info = env.reset(seed=50_001)
    policy.reset(seed=Job(50_001, 2).policy_seed)
    done = False
    while not done:
        batch = {key: part[None] for key, part in obs.items()}
        obs, _, terminated, truncated, info = env.step(policy.act(batch)[0])
        done = terminated or truncated
    (episode,) = [e for e in result.episodes if (e.seed, e.rollout) == (50_001, 2)]
    assert episode.metrics["cost"] == pytest.approx(info["cost"])


def test_planning_time_is_that_of_one_environment(result):
    plan = result.to_json()["plan_ms"]
    assert plan["environments"] == 1
    assert plan["batch"]["environments"] == 4
    assert 0 < plan["p50"] <= plan["p95"]
    assert plan["deadline"] == 1000  # ten waypoints, ten a second
    assert plan["late"] == 0


def test_plans_made_ahead():
    """The harness with a lead follows the control loop with a lead; one beyond the plan is refused."""
    settings = Settings("tiny_policies:push", "PushT-v0", (50_000, 50_003), rollouts=1, lead=4, max_steps=20)
    document = evaluate(settings, progress=False).to_json()
    assert document["lead"] == 4
    assert document["plan_ms"]["deadline"] == 400
    assert not document["failed"]
    assert "planned 4 steps ahead" in headline(document)
    with pytest.raises(ValueError, match="lead=9: use 0 to 8"):
        evaluate(dataclasses.replace(settings, lead=9), progress=False)
    with pytest.raises(ValueError, match="leave out lead or ranker"):
        evaluate(dataclasses.replace(settings, ranker="tiny_policies:push"), progress=False)


def test_late_plans_are_said(result):
    late = dataclasses.replace(result, latency=Latency([0.5, 0.1, 0.1, 0.1], 0.2))
    assert late.to_json()["plan_ms"]["late"] == 0.25
    assert "25% LATE (due after 200 ms)" in planning_line(late.to_json())


def test_ranking_by_itself_changes_nothing_and_by_another_does(result):
    own = evaluate(settings(ranker=OWN), progress=False, latency=False)
    assert [e.metrics for e in own.episodes] == [e.metrics for e in result.episodes]
    contrary = evaluate(settings(ranker="peer_policies:Contrary"), progress=False, latency=False)
    far, near = (np.mean([e.metrics["goal_distance"] for e in r.episodes]) for r in (contrary, result))
    assert far > near + 0.5
    assert contrary.params == 10


@pytest.mark.parametrize(
    ("policy", "options", "match"),
    [
        (OWN, {"ranker": "peer_policies:Elsewhere"}, "different tasks"),
        (OWN, {"ranker": "peer_policies:Wanderer"}, "peer_policies:Wanderer has no samples"),
        ("no/such", {}, "no/such"),
    ],
)
def test_impossible_options_are_named(policy, options, match):
    with pytest.raises(ValueError, match=match):
        policy_factory(policy, **options)()


def test_options_reach_the_policy():
    policy = policy_factory(OWN, samples=3, sampler="mcmc_steps=2,step_size=3e-4,kernel=hmc")()
    assert policy.samples == 3
    assert policy.sampler == {"mcmc_steps": 2, "step_size": 3e-4, "kernel": "hmc"}
    assert policy_factory(OWN, sampler="two-stage")().sampler == "two-stage"


def fake_demonstrator(seeds, progress):
    return {"cost": 0.2, "per_seed": {"seed": list(map(float, seeds)), "cost": [0.2] * 2, "classes": [2.0] * 2}}


def test_bench_writes_everything_and_resumes(tmp_path, monkeypatch):
    protocol = Protocol(
        "path-planning", "PathPlanning-v0", 2, 2, (3, 1), ("collision", "cost"), pictured=1, first_seed=50_000
    )
    policies = [OWN]
    monkeypatch.setattr("rnce.eval.bench_policies.demonstrator", fake_demonstrator)
    with pytest.raises(ValueError, match="with_options"):
        bench_policies(protocol, ["peer_policies:Wanderer"], tmp_path, progress=False)
    text = bench_policies(protocol, policies, tmp_path, progress=False)
    assert "the paper's" in text
    assert "cost / demonstrator" in text
    document = json.loads((tmp_path / "path-planning.json").read_text())
    assert [result["samples"] for result in document["results"]] == [3, 1]
    assert document["results"][0]["against_demonstrator"]["cost_ratio"] > 0
    assert "<video" in (tmp_path / "report.html").read_text()
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".png", ".pdf"}
    assert len(list((tmp_path / "figures").iterdir())) == 8
    monkeypatch.setattr("rnce.eval.bench_policies.evaluate", None)  # nothing is run again
    assert bench_policies(protocol, policies, tmp_path, resume=True, progress=False) == text


def test_ablations_are_paired_with_the_first(tmp_path):
    variants = [Variant("all", "tiny_policies:push", 4), Variant("one", "tiny_policies:push", 1)]
    text = bench_ablations(variants, (50_000, 50_003), 1, tmp_path, progress=False)
    documents = json.loads((tmp_path / "ablations.json").read_text())["results"]
    assert [document["samples"] for document in documents] == [4, 1]
    difference = compare(documents[1], documents[0])["score"]
    assert f"{difference.mean:+.3f} [" in text
    assert text.count(" [") == 1  # the first is not compared with itself
    assert ablations_markdown(documents).startswith("|  | score | final_coverage | success |")


def test_tables_put_the_papers_numbers_beside_ours(result):
    protocol = PROTOCOLS["path-planning"]
    document = result.to_json() | {"policy": "path-planning/r-nce", "samples": 48}
    text = results_markdown(protocol, [document])
    assert "| collision (the paper's) |" in text
    assert "0.030 ± 0.003" in text
    assert set(paper_numbers("pusht")["methods"]) >= {"nf", "i-r-nce", "diffusion"}


def test_tables_compare_with_the_best_on_paired_seeds(result):
    def document(name, collision):
        found = result.to_json() | {"policy": f"path-planning/{name}", "samples": 48}
        seeds = found["per_seed"]["seed"]
        return found | {
            "metrics": found["metrics"] | {"collision": {"mean": collision}},
            "per_seed": found["per_seed"] | {"collision": [collision + 0.01 * i for i in range(len(seeds))]},
        }

    documents = [document("nf", 0.25), document("r-nce", 0.0), document("nf", 0.5) | {"samples": 1}]
    header, rows = results_rows(PROTOCOLS["path-planning"], documents)
    column = header.index("collision − the best's, paired")
    assert [row[column] for row in rows] == ["+0.250 [+0.250, +0.250]", "", "+0.500 [+0.500, +0.500]"]


def test_demonstrator_counts_free_paths_only(monkeypatch):
    import rnce.datasets

    def plan(obstacles, start, goal, n, seed):
        line = start + np.linspace(0, 1, 50)[:, None] * (goal - start)
        return np.stack([line] * 3 if seed == 50_002 else [obstacles[0, :2] + 0 * line])

    monkeypatch.setattr(rnce.datasets, "plan", plan, raising=False)
    figures = demonstrator([50_002, 50_003], progress=False)  # in the first scene the straight line is free
    assert figures["unsolved"] == 1
    assert figures["per_seed"]["cost"][1] is None
    cost = figures["per_seed"]["cost"][0]
    assert 0.05 < cost < 0.5
    assert figures["per_seed"]["classes"][0] == 1
    ours = {"per_seed": {"seed": [50_002.0, 50_003.0], "cost": [2 * cost, 1.0]}, "modes_per_seed": {}}
    against = against_demonstrator(ours, figures)
    assert against["cost_ratio"] == pytest.approx(2)
    assert against["classes"] is None


def test_several_sample_counts_show_what_ranking_brings():
    outcome = evaluate_and_write(OWN, (50_000, 50_006), [1, 4, 16], rollouts=2, progress=False)
    assert "against ℓ = 1, paired" in outcome.text
    distances = [np.mean([e.metrics["goal_distance"] for e in result.episodes]) for result in outcome.results]
    assert distances[0] > distances[1] > distances[2]
