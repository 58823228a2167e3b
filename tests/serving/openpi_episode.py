"""Runs beside the real openpi-client: a Push-T episode of gym-pusht, driven through its broker. Prints what it saw."""

import json
import sys

import gym_pusht  # noqa: F401
import gymnasium as gym
import numpy as np
from openpi_client.action_chunk_broker import ActionChunkBroker
from openpi_client.websocket_client_policy import WebsocketClientPolicy

port, token, steps = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
client = WebsocketClientPolicy("127.0.0.1", port, api_key=token)
metadata = client.get_server_metadata()
policy = ActionChunkBroker(client, action_horizon=metadata["execute"])
env = gym.make("gym_pusht/PushT-v0", obs_type="state", max_episode_steps=steps)
obs, _ = env.reset(seed=100_000)
client.infer({"reset": True, "seed": 3})
best, actions, done, result = 0.0, [], False, {}
while not done:
    result = policy.infer({"state": np.asarray(obs)})
    actions.append(result["actions"].tolist())
    obs, reward, terminated, truncated, _ = env.step(result["actions"])
    best, done = max(best, float(reward)), terminated or truncated
try:
    client.infer({"state": np.full(5, np.nan)})
    complaint = ""
except RuntimeError as error:
    complaint = str(error)
print(
    json.dumps(
        {
            "numpy": np.__version__,
            "metadata": metadata,
            "actions": actions,
            "keys": sorted(result),
            "timing": sorted(result["server_timing"]),
            "best": best,
            "complaint": complaint,
        }
    )
)
