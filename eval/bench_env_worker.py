"""Steps Push-T and reports the CPU time. Runs as a script in any interpreter that has the environment: imports no rnce.

Reads one JSON object from standard input and writes one to standard output; see `bench_env.Job` and `bench_env.Timing`.
"""

import importlib
import json
import sys
import time

import gymnasium as gym
import numpy as np


def run(job):
    """Step through all episodes; only the calls of `step` are timed."""
    importlib.import_module(job["module"])
    env = gym.make(job["env_id"], obs_type=job["obs_type"], max_episode_steps=len(job["actions"][0]))
    seconds, contacts, last = 0.0, 0, []
    for seed, episode in zip(job["seeds"], job["actions"]):
        actions = list(np.array(episode, dtype=np.float32))
        env.reset(seed=seed)
        infos = []
        start = time.process_time()
        for action in actions:
            infos.append(env.step(action)[4])
        seconds += time.process_time() - start
        contacts += sum(info["n_contacts"] > 0 for info in infos)
        last.append([*infos[-1]["pos_agent"].tolist(), *infos[-1]["block_pose"].tolist()])
    steps = sum(map(len, job["actions"]))
    return {
        "microseconds": 1e6 * seconds / steps,
        "contact_share": contacts / steps,
        "last_states": last,
        "versions": {name: importlib.import_module(name).__version__ for name in ("gymnasium", "numpy")}
        | {"pymunk": importlib.import_module("pymunk").version, "python": sys.version.split()[0]},
    }


if __name__ == "__main__":
    json.dump(run(json.load(sys.stdin)), sys.stdout)
