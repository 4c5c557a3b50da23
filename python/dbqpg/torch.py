"""Trained policies as PyTorch modules, for fine-tuning or distillation.

    module = dbqpg.torch.load("runs/Swimmer-v5/trpo-mc-s1")
    action = module(observation)

The module's state_dict has the names of policy.safetensors, so that safetensors.torch.load_file fits too.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn

from dbqpg import policy


class Module(nn.Module):
    """A policy: (batch, o) or (o,) to the mean action within its bounds, or to the likeliest of discrete actions."""

    def __init__(self, source: policy.Policy, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()

        def tensor(values: policy.Floats) -> torch.Tensor:
            return torch.tensor(values, dtype=dtype)

        def constants(**values: policy.Floats) -> nn.Module:
            holder = nn.Module()
            for name, value in values.items():
                holder.register_buffer(name, tensor(value))
            return holder

        self.normalizer: Any = constants(mean=source.mean, std=source.std)
        self.action: Any = constants(low=source.low, high=source.high)
        self.choices = source.choices
        if not self.choices:
            self.log_std = nn.Parameter(tensor(source.log_std))
        self.policy = nn.ModuleList()
        for weight, bias in source.layers:
            layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=dtype)
            with torch.no_grad():
                layer.weight.copy_(tensor(weight))
                layer.bias.copy_(tensor(bias))
            self.policy.append(layer)
        self.clip = source.clip

    def distribution(self, observation: torch.Tensor) -> torch.distributions.Independent:
        """Returns the distribution of the action, before it is clipped: of a Gaussian policy."""
        x = self.outputs(observation)
        return torch.distributions.Independent(torch.distributions.Normal(x, self.log_std.exp().expand_as(x)), 1)

    def distributions(self, observation: torch.Tensor) -> list[torch.distributions.Categorical]:
        """Returns the distribution of each component of a discrete action."""
        logits = self.outputs(observation).split(self.choices, -1)
        return [torch.distributions.Categorical(logits=z) for z in logits]

    def outputs(self, observation: torch.Tensor) -> torch.Tensor:
        """Returns the network's outputs: the mean or the logits."""
        x: torch.Tensor = (observation.to(self.normalizer.mean.dtype) - self.normalizer.mean) / (self.normalizer.std + policy.STD_FLOOR)
        x = x.clamp(-self.clip, self.clip)
        for i, layer in enumerate(self.policy):
            x = layer(x)
            if i < len(self.policy) - 1:
                x = torch.tanh(x)
        return x

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        if self.choices:
            action = torch.stack([d.probs.argmax(-1) for d in self.distributions(observation)], -1)
            return action[..., 0] if len(self.choices) == 1 else action
        mean: torch.Tensor = self.distribution(observation).mean
        return torch.maximum(torch.minimum(mean, self.action.high), self.action.low)


def load(path: str | os.PathLike[str], checkpoint: str | int = "best", dtype: torch.dtype = torch.float64) -> Module:
    """Loads a policy as dbqpg.load does, as a module."""
    return Module(policy.load(path, checkpoint), dtype)
