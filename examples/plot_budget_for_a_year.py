"""
A budget for a year of weekly releases
======================================

A model that is refreshed every week: separate fits, or one schedule with correlated noise.
"""

import matplotlib.pyplot as plt

from tacit.privacy.schedules import Schedule

weeks = range(1, 53)
once = Schedule(52)
four = Schedule(52, participations=4, separation=4)
separate = once.separate_noise
print(f"each person once: the last total has {once.relative_noise(51):.2f} times the noise of one release")
print(f"each person four times: {four.relative_noise(51):.2f} times; separate fits of everything: {separate:.2f} times")

figure, axis = plt.subplots(figsize=(6.6, 3.6))
axis.plot(weeks, [once.relative_noise(week - 1) for week in weeks], label="schedule, each person once")
axis.plot(weeks, [four.relative_noise(week - 1) for week in weeks], label="schedule, each person four times")
axis.axhline(separate, color="C3", linestyle="--", label="52 separate fits of everything")
axis.set(xlabel="week", ylabel="noise, over that of a single release", ylim=(0, None))
axis.legend(frameon=False)
figure.tight_layout()
plt.show()
