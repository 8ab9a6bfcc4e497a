import numpy as np
import pytest
from perturbed_tables import LABELS, TABLE

from tacit.errors import InvalidInputError
from tacit.measure.attacks import Finding
from tacit.perturb import compare_releases, named_release
from tacit.perturb.compare import COMPARED, gain
from tacit.perturb.named import RELEASES


def test_every_method_has_a_name_and_unknown_settings_are_refused():
    for name, (kind, _) in RELEASES.items():
        assert type(named_release(name)) is kind
    assert named_release("uniform-noise", level=0.3, random_state=None).level == 0.3
    with pytest.raises(InvalidInputError, match="method to be one of"):
        named_release("rotation")
    with pytest.raises(InvalidInputError, match="settings of nmf"):
        named_release("nmf", eta=0.1)


def test_gain_is_the_share_of_what_there_is_to_gain():
    def finding(recovered, baseline):
        return Finding("a", "b", recovered, baseline, (0.0, 1.0), 10)

    assert gain(finding(0.75, 0.5)) == pytest.approx(0.5)
    assert gain(finding(0.3, 0.5)) == 0
    assert gain(finding(1.0, 0.2)) == 1
    assert gain(finding(1.0, 1.0)) == 0


def test_more_distortion_gives_less_away_and_what_cannot_be_reached_is_said():
    told = []
    found = compare_releases(
        *(TABLE, LABELS),
        methods=["normal-noise", "constrained-nmf", "private-table"],
        distortions=[0.02, 0.5],
        epsilons=[5.0],
        bounds=[(-5.0, 15.0)] * 4,
        advance=told.append,
    )
    assert told == ["normal-noise", "constrained-nmf", "private-table"]
    little, much, _, unreachable, private = found
    assert little.leak > much.leak
    assert little.distortion == pytest.approx(0.02, rel=0.02)
    assert unreachable.utility is None
    assert "the largest is" in unreachable.note
    assert private.distortion is None
    assert private.note == ""
    assert private.leak < little.leak
    assert set(little.attacks) == set(private.attacks)
    assert little.leak == max(little.attacks.values())


def test_the_comparison_is_repeatable_but_for_private_noise():
    assert "hide-membership" not in COMPARED
    one, two = (
        compare_releases(TABLE, None, methods=["uniform-noise", "correlation-aware"], distortions=[0.1])
        for _ in range(2)
    )
    assert [point.to_dict() for point in one] == [point.to_dict() for point in two]
    assert one[1].note == "needs labels"
    assert np.isfinite(one[0].utility)
