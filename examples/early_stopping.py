"""A sweep with PyTorch in which trainings that fall behind are ended early, so that others get their cores.

Each training is a stream: an `async def` with `yield`, which gives its loss after each epoch. The program reads all of
them at once, and leaves those whose loss is far above the best of the same epoch. To leave a stream ends its job, and
the next training that waits starts on its core. `isolate=True` gives each a process of its own.

For GPUs write `train @ (Cores(4) & GPUs(1))`, and in `train` use the device that PyTorch sees: it is the job's alone.
It takes `pip install torch`, the build for CPUs is enough.

It prints::

    best rate: 0.01
    epochs: ... of 72
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import anyio
import torch

from grainlike import GVAR, Cores, Executor, delayed

RATES = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.3)
EPOCHS = 12


@delayed(isolate=True)
async def train(rate: float) -> AsyncIterator[float]:
    """Fit a curve with a small network; yield the loss of each epoch."""
    torch.set_num_threads(GVAR.res.N)
    torch.manual_seed(0)
    x = torch.linspace(-3, 3, 512).unsqueeze(1)
    y = torch.sin(2 * x)
    model = torch.nn.Sequential(torch.nn.Linear(1, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    for _ in range(EPOCHS):
        for _ in range(40):
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        yield loss.item()


@dataclass
class Sweep:
    best: dict[int, float] = field(default_factory=dict)
    """Least loss after each epoch."""
    losses: dict[float, list[float]] = field(default_factory=dict)

    def goes_on(self, rate: float, loss: float) -> bool:
        """Note a loss; return whether the training is worth its core."""
        reached = self.losses.setdefault(rate, [])
        reached.append(loss)
        self.best[len(reached)] = min(loss, self.best.get(len(reached), loss))
        return len(reached) < 2 or loss < 1.5 * self.best[len(reached)]

    async def follow(self, rate: float) -> None:
        async for loss in (train @ Cores(1))(rate):
            if not self.goes_on(rate, loss):
                break  # ends the job


async def main() -> None:
    sweep = Sweep()
    async with Executor(local=Cores(2)), anyio.create_task_group() as tasks:
        for rate in RATES[::-1]:
            tasks.start_soon(sweep.follow, rate)
    full = [rate for rate, losses in sweep.losses.items() if len(losses) == EPOCHS]
    best = min(full, key=lambda rate: sweep.losses[rate][-1])
    print("best rate:", best)
    print("epochs:", sum(map(len, sweep.losses.values())), "of", EPOCHS * len(RATES))


if __name__ == "__main__":
    anyio.run(main)
