"""Playing with a scripted hand, without a display; and with a virtual one where there is one."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pygame
import pytest
from pygame.event import Event

from rnce.cli import main
from rnce.play import SIZE, TASKS, Hand, play


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    class Clock:
        def tick(self, fps):
            assert fps == 10

    monkeypatch.setattr(pygame.time, "Clock", Clock)


def hand_of(*ticks):
    """Events tick by tick, then the window's close button."""
    queue = [list(tick) for tick in ticks]
    return lambda: queue.pop(0) if queue else [Event(pygame.QUIT)]


def press(x, y):
    return Event(pygame.MOUSEBUTTONDOWN, pos=(x, y), button=1)


def release(x, y):
    return Event(pygame.MOUSEBUTTONUP, pos=(x, y), button=1)


def motion(x, y):
    return Event(pygame.MOUSEMOTION, pos=(x, y), rel=(0, 0), buttons=(1, 0, 0))


def key(code):
    return Event(pygame.KEYDOWN, key=code)


def drag(n):
    return [[press(100, 100)], *([motion(100 + 3 * i, 100 + 2 * i)] for i in range(n - 1))]


@pytest.mark.parametrize("name", TASKS)
def test_time_passes_only_while_the_button_is_held(name):
    assert play(TASKS[name], events=hand_of([], [motion(5, 5)], [])) == 0
    assert play(TASKS[name], events=hand_of(*drag(7), [release(9, 9)], [], [])) == 7


@pytest.mark.parametrize("name", TASKS)
def test_steps_end_it(name):
    assert play(TASKS[name], steps=3, events=hand_of(*drag(9))) == 3


def test_the_hand_reads_the_pointer_inside_the_window():
    hand = Hand()
    hand.read([motion(SIZE // 4, -50)])
    np.testing.assert_array_equal(hand.pointer, [0.25, 0.0])
    assert not hand.holding


def test_path_planning_follows_the_pointer_without_jumping():
    observation = {"position": np.array([0.0, 0.0])}
    action = TASKS["path-planning"].action(np.array([1.0, 0.0]), observation)  # the top right corner
    assert np.linalg.norm(action) == pytest.approx(0.08)
    assert action[0] == action[1] > 0


@pytest.mark.parametrize("name", TASKS)
def test_kept_episodes_are_recorded_and_discarded_ones_are_not(name, tmp_path):
    import gymnasium as gym

    from rnce.datasets import load

    path = tmp_path / "demos.zarr"
    kept_by_hand, thrown_away, cut_short = drag(6), drag(4), drag(3)
    events = hand_of(*kept_by_hand, [release(0, 0), key(pygame.K_RETURN)], *thrown_away, [key(pygame.K_r)], *cut_short)
    play(TASKS[name], seed=5, record=path, events=events)
    play(TASKS[name], seed=9, record=path, events=hand_of(*drag(2), [release(0, 0), key(pygame.K_RETURN)]))
    dataset = load(path)
    assert dataset.episode_ends.tolist() == [6, 8]
    assert dataset.episode_arrays["seed"].tolist() == [5, 9]
    assert dataset.action_keys == ("action",)
    assert (
        set(dataset.observation_keys) == {"pusht": {"state"}, "path-planning": {"position", "obstacles", "goal"}}[name]
    )
    # What was recorded is what the environment does.
    env = gym.make(TASKS[name].env_id)
    observation, _ = env.reset(seed=5)
    for step in range(6):
        for recorded, value in TASKS[name].per_step(observation).items():
            np.testing.assert_array_equal(dataset.arrays[recorded][step], value)
        observation, *_ = env.step(dataset.arrays["action"][step])


def test_an_episode_that_ends_by_itself_is_kept(tmp_path):
    from rnce.datasets import load

    path = tmp_path / "demos.zarr"
    play(TASKS["path-planning"], record=path, events=hand_of(*drag(60)))
    assert load(path).episode_ends.tolist() == [49]


def test_command_with_posted_events(capsys, monkeypatch):
    posted = hand_of(*drag(4))
    monkeypatch.setattr(pygame.event, "get", posted)
    main(["play", "path-planning", "--steps", "4"])
    assert "4 steps played" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["play", "chess"], ["play", "pusht", "--steps", "0"], ["play"]])
def test_bad_input_is_one_line(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.parametrize("driver", [None, "no-such-driver"])
def test_no_display_is_one_line(driver):
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env |= {"SDL_VIDEODRIVER": driver} if driver else {}
    command = [sys.executable, "-m", "rnce", "play", "path-planning"]
    result = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert result.returncode == 2
    assert "rnce play: cannot open a window" in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


POST_AND_PLAY = """
import sys, threading, time
from rnce.envs.quiet_pygame import pygame
from rnce.cli import main
pygame.display.init()
def hand():
    while True:
        time.sleep(0.05)
        try:
            pygame.event.post(pygame.event.Event(pygame.MOUSEBUTTONDOWN, pos=(200, 200), button=1))
        except pygame.error:
            return
threading.Thread(target=hand, daemon=True).start()
main(["play", sys.argv[1], "--steps", "3"])
"""


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("display", ["dummy", "xvfb"])
def test_in_a_window_of_its_own(name, display):
    command = [sys.executable, "-c", POST_AND_PLAY, name]
    env = {**os.environ, "SDL_VIDEODRIVER": "dummy"}
    if display == "xvfb":
        if not shutil.which("xvfb-run"):
            pytest.skip("xvfb-run is not installed")
        command, env["SDL_VIDEODRIVER"] = ["xvfb-run", "-a", *command], "x11"
    assert "3 steps played" in subprocess.check_output(command, text=True, env=env, timeout=60)
