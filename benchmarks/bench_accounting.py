"""Noise for a target: tacit's accountant, looser accountants and the published formulas; and the time to calibrate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from harness import Part, main

from tacit.privacy import gaussian_noise_multiplier
from tacit.privacy.published import compare_published

TARGETS = [
    {"epsilon": 0.5, "delta": 1e-4, "steps": 20_000, "sampling_rate": 0.01},
    {"epsilon": 1.0, "delta": 1e-3, "steps": 300, "sampling_rate": 0.02},
    {"epsilon": 1.0, "delta": 1e-5, "steps": 100, "sampling_rate": 1.0},
]


def noise(targets: Sequence[dict[str, Any]] = TARGETS) -> None:
    gaussian_noise_multiplier(1.0, 1e-5, steps=2, sampling_rate=0.5)  # imports dp-accounting, which takes seconds
    for target in targets:
        print(", ".join(f"{name} {value:g}" for name, value in target.items()))
        start = time.perf_counter()
        settings = {name: value for name, value in target.items() if name not in ("epsilon", "delta")}
        gaussian_noise_multiplier(target["epsilon"], target["delta"], **settings)
        taken = time.perf_counter() - start
        rows = compare_published(
            target["epsilon"], target["delta"], steps=target["steps"], sampling_rate=target["sampling_rate"]
        )
        print(f"  {'formula':<30} {'multiplier':>10} {'real epsilon':>12} {'noise, times sound':>18}")
        for row in rows:
            ratio = row.noise_multiplier / rows[0].noise_multiplier
            print(f"  {row.method:<30} {row.noise_multiplier:>10.4g} {row.real_epsilon:>12.4g} {ratio:>18.2f}")
        print(f"  calibrating took {taken:.2f} s\n")


PARTS = {"noise": Part(noise, quick={"targets": TARGETS[2:]})}

if __name__ == "__main__":
    main(__doc__, PARTS)
