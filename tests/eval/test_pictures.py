"""Figures are drawn from real episodes and saved as PNG and PDF."""

import json

import imageio.v2 as imageio
import imageio_ffmpeg
import numpy as np
import pytest
from matplotlib.collections import LineCollection

from rnce.envs.path_planning import scene_for_seed
from rnce.eval import panels, plots
from rnce.eval.compare import compare, load_results, verdict
from rnce.eval.evaluate import evaluate
from rnce.eval.replay import path_of, replay
from rnce.eval.settings import Settings
from rnce.eval.video import write_videos


@pytest.fixture(scope="module")
def paths():
    settings = Settings("peer_policies:Wanderer", "PathPlanning-v0", (50_000, 50_004), rollouts=6, keep_actions=2)
    return evaluate(settings, progress=False)


@pytest.fixture(scope="module")
def pushes():
    settings = Settings("rnce.eval.scripted:random_targets", "PushT-v0", (50_000, 50_002), max_steps=30, keep_actions=2)
    return evaluate(settings, progress=False)


def saved(figure, folder):
    written = plots.save(figure, folder / "figure.png")
    assert [path.suffix for path in written] == [".png", ".pdf"]
    assert written[1].read_bytes().startswith(b"%PDF")
    image = imageio.imread(written[0])
    assert image.std() > 5  # something was drawn
    assert sorted(folder.iterdir()) == sorted(written)  # no temporary file is left


def test_replay_gives_the_episode_back(paths):
    episode = paths.episodes[0]
    track = replay(paths.settings, episode)
    assert path_of(track).shape == (50, 2)
    assert track.infos[-1]["cost"] == pytest.approx(episode.metrics["cost"])
    assert paths.episodes[-1].actions is None
    with pytest.raises(ValueError, match="keep_actions"):
        replay(paths.settings, paths.episodes[-1])


def test_bars_have_clopper_pearson_errors(paths, tmp_path):
    document = paths.to_json()
    figure = plots.per_scene_bars([document, document])
    assert len(figure.axes[0].patches) == 8
    saved(figure, tmp_path)


def test_path_panels(paths, tmp_path):
    figure = panels.path_panels([paths], ["wanderer"], [50_000, 50_001])
    (lines,) = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]
    assert len(lines.get_segments()) == 6
    assert "collisions" in figure.axes[0].get_title()
    saved(figure, tmp_path)


def test_pusht_panels(pushes, tmp_path):
    figure = panels.pusht_panels([pushes], ["random"], [50_000, 50_001])
    assert figure.axes[0].get_title().startswith("score")
    saved(figure, tmp_path)


def test_worst_panels_begin_with_the_worst(pushes, tmp_path):
    figure = panels.worst_panels(pushes, count=2)
    means = [float(axes.get_title().rpartition(" ")[2]) for axes in figure.axes]
    assert means == sorted(means)
    assert len(means) == 2
    saved(figure, tmp_path)


def test_landscape_is_highest_where_the_score_is(tmp_path):
    scene = scene_for_seed(50_000)
    chunks_seen = []

    def score(observation, chunks):
        chunks_seen.append(chunks)
        return -np.linalg.norm(chunks[:, -1] - observation["goal"], axis=-1) * 100

    figure = panels.landscape(score, scene, n_pred=10, samples=np.zeros((3, 10, 2)))
    (chunks,) = chunks_seen
    assert chunks.shape[1:] == (10, 2)
    np.testing.assert_allclose(chunks[:, 0] - scene.start, (chunks[:, -1] - scene.start) / 10)
    saved(figure, tmp_path)


def test_videos_play(pushes, tmp_path):
    (first, second) = write_videos(pushes, tmp_path, progress=False)
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(first))
    assert (frames, seconds) == (31, pytest.approx(3.1))
    pictures = replay(pushes.settings, pushes.episodes[0], render=True).frames
    assert np.abs(pictures[0].astype(int) - pictures[-1]).max() > 50
    assert first != second


def test_ranking_curves_and_paired_picture(paths, tmp_path):
    one, many = (paths.to_json() | {"samples": samples} for samples in (1, 8))
    saved(plots.ranking_curves([one, many], "cost"), tmp_path)
    differences = compare(one, many)
    assert differences["cost"].mean == 0
    assert verdict("cost", differences["cost"]) == "no clear difference"
    (tmp_path / "second").mkdir()
    saved(plots.paired(one, many, "cost", differences["cost"]), tmp_path / "second")


def test_comparison_finds_the_better_one(paths):
    a, b = paths.to_json(), json.loads(json.dumps(paths.to_json()))
    b["per_seed"]["cost"] = [cost + 1 for cost in b["per_seed"]["cost"]]
    difference = compare(a, b)["cost"]
    assert difference.mean == pytest.approx(-1)
    assert verdict("cost", difference) == "A is better"
    with pytest.raises(ValueError, match="two or more in common"):
        compare(a, {**b, "per_seed": {"seed": [1.0, 2.0]}})
    with pytest.raises(ValueError, match="PushT-v0"):
        compare(a, {**b, "env": "PushT-v0"})


@pytest.mark.parametrize("content", ["{", "[1]", '{"policy": "x"}'])
def test_damaged_results_are_named(content, tmp_path):
    path = tmp_path / "result.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"result\.json"):
        load_results(path)
