"""The parts of the private table: the sampler against enumeration, the fit, the bins, the noise that is taken off."""

import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

from tacit.data import CategoryColumn, IntegerColumn
from tacit.synthetic.bins import merge_cells
from tacit.synthetic.classes import tables_of_classes
from tacit.synthetic.finer import Parts, parts_for
from tacit.synthetic.pairs import fit_margins, joint_tables
from tacit.synthetic.pairwise import PairwiseModel, pair_counts, spread_draw
from tacit.synthetic.private_table import cells_of
from tacit.synthetic.shrinkage import centred, shrunk, shrunk_matrix
from tacit.synthetic.triples import without_noise
from tacit.synthetic.within import along_a_line, cells_within_bins

SIZES = np.array([2, 3, 2])
EDGES = np.array([0, 2, 5, 7])


def tables_of(joint):
    """Return the margins and the pair tables of a joint distribution of three columns."""
    margins = np.concatenate([joint.sum(axis=tuple(j for j in range(3) if j != i)) for i in range(3)])
    tables = np.zeros((7, 7))
    for i, j in itertools.combinations(range(3), 2):
        (other,) = {0, 1, 2} - {i, j}
        block = joint.sum(axis=other)
        tables[EDGES[i] : EDGES[i + 1], EDGES[j] : EDGES[j + 1]] = block
        tables[EDGES[j] : EDGES[j + 1], EDGES[i] : EDGES[i + 1]] = block.T
    return margins, tables


def test_the_sampler_draws_from_the_distribution_that_its_couplings_define():
    generator = np.random.default_rng(0)
    joint = generator.dirichlet(np.ones(12)).reshape(2, 3, 2)
    model = PairwiseModel(SIZES, *tables_of(joint))
    couplings = generator.normal(size=(7, 7)).astype(np.float32)
    model.couplings = couplings + couplings.T
    rows = np.array(list(itertools.product(range(2), range(2, 5), range(5, 7))))
    energy = [
        model.fields[row].sum() + sum(model.couplings[a, b] for a, b in itertools.combinations(row, 2)) for row in rows
    ]
    expected = np.exp(np.asarray(energy, dtype=np.float64))
    expected /= expected.sum()
    codes = model.independent(20_000, generator)
    for _ in range(30):
        model.sweep(codes, generator)
    counted = np.array([(codes == row).all(axis=1).sum() for row in rows])
    assert chisquare(counted, expected * 20_000).pvalue > 1e-4


def test_the_fit_reaches_the_pair_tables_and_the_draw_is_nearer_than_chance():
    joint = np.random.default_rng(1).dirichlet(np.full(12, 0.5)).reshape(2, 3, 2)
    margins, tables = tables_of(joint)
    model = PairwiseModel(SIZES, margins, tables)
    chains = model.fit(4000, np.random.default_rng(2))
    drawn = model.draw(chains, 4000, np.random.default_rng(3))
    away = np.abs(model.counts(drawn) / 4000 - tables).sum() / 12  # mean total variation of three tables, counted twice
    assert away < 0.01  # 0.015 for 4,000 independent rows
    assert set(map(tuple, drawn)) <= set(itertools.product(range(2), range(2, 5), range(5, 7)))


def test_forbidden_pairs_are_never_drawn_and_given_bins_are_held():
    joint = np.full((2, 3, 2), 1 / 12)
    forbidden = np.zeros((7, 7), dtype=bool)
    forbidden[0, 2] = forbidden[2, 0] = True
    model = PairwiseModel(SIZES, *tables_of(joint), forbidden)
    chains = model.fit(500, np.random.default_rng(0))
    drawn = model.draw(chains, 3000, np.random.default_rng(1))
    assert not ((drawn[:, 0] == 0) & (drawn[:, 1] == 2)).any()
    held = model.draw(chains, 1000, np.random.default_rng(1), {0: 0})
    assert set(held[:, 0]) == {0}
    assert set(held[:, 1]) == {3, 4}


def test_pairs_are_counted_as_by_hand():
    codes = np.array([[0, 2, 5], [0, 2, 6], [1, 4, 5]])
    expected = np.zeros((7, 7))
    for row in codes:
        for a, b in itertools.combinations(row, 2):
            expected[a, b] += 1
    np.testing.assert_array_equal(pair_counts(codes, 7), expected)


@pytest.mark.parametrize("n_rows", [7, 1000])
def test_spread_draws_have_the_expected_counts(n_rows):
    shares = np.array([0.5, 0.0, 0.3, 0.2])
    drawn = spread_draw(shares, n_rows, np.random.default_rng(0))
    assert np.abs(np.bincount(drawn, minlength=4) - n_rows * shares).max() <= 1


def test_a_heavy_value_has_a_bin_of_its_own_and_bins_cover_all_cells_in_order():
    histogram = np.full(200, 10.0)
    histogram[0], histogram[120] = 5000, 900
    bins = merge_cells(histogram, IntegerColumn(0, 199), 2.0)
    assert (np.diff(bins) >= 0).all()
    assert set(np.unique(np.diff(bins))) <= {0, 1}
    assert (bins == bins[0]).sum() == 1
    assert (bins == bins[120]).sum() == 1
    counts = np.bincount(bins, histogram)
    assert counts.min() >= 3 * 2.0
    with_missing = merge_cells(np.append(histogram, 3.0), IntegerColumn(0, 199, missing=True), 2.0)
    np.testing.assert_array_equal(with_missing[:-1], bins)
    assert with_missing[-1] == bins[-1] + 1


def test_rare_categories_share_a_bin_and_one_alone_does_not():
    spec = CategoryColumn(tuple("abcde"))
    assert merge_cells(np.array([900.0, 1, 500, 2, -3]), spec, 10.0).tolist() == [0, 2, 1, 2, 2]
    assert merge_cells(np.array([900.0, 1, 500, 70, 80]), spec, 10.0).tolist() == [0, 1, 2, 3, 4]


def test_the_form_within_a_bin_is_kept_where_it_is_more_than_noise():
    generator = np.random.default_rng(0)
    truth = 400 * np.exp(-np.arange(64) / 8)
    bins, widths, margin = np.zeros(64, dtype=np.intp), np.ones(64), np.ones(1)
    noisy = truth + 10 * generator.normal(size=64)
    found = cells_within_bins(noisy, widths, bins, margin, 10.0, ordered=True)
    assert found.sum() == pytest.approx(1)
    shares = truth / truth.sum()
    plain = np.maximum(noisy, 0) / np.maximum(noisy, 0).sum()
    assert np.abs(found - shares).sum() < 0.7 * np.abs(plain - shares).sum()
    exact = cells_within_bins(truth, widths, bins, margin, 0.0, ordered=True)
    np.testing.assert_allclose(exact, shares)
    for ordered in (True, False):  # mostly noise: mostly even
        flat = cells_within_bins(10 * generator.normal(size=64) + 10, widths, bins, margin, 10.0, ordered=ordered)
        assert np.abs(flat - 1 / 64).sum() < 0.5


def test_single_frequent_values_in_a_wide_bin_are_kept():
    """Values that most rows have, as prices that end in 95, stay what they are, with those between them rare."""
    generator = np.random.default_rng(1)
    truth = np.where(np.arange(120) % 10 == 3, 60.0, 1.0)
    bins = np.repeat([0, 1, 2], 40)
    noisy = truth + 5 * generator.normal(size=120)
    found = cells_within_bins(noisy, np.ones(120), bins, np.full(3, 1 / 3), 5.0, ordered=True)
    np.testing.assert_allclose(np.bincount(bins, found), 1.0)
    frequent = truth > 30
    assert np.bincount(bins[frequent], found[frequent]).min() > 0.7  # of 0.87; an even spread has 0.1
    assert found[frequent].min() > 0.12  # of 0.22


def test_cells_of_a_bin_follow_the_density_of_its_neighbours_and_not_that_of_single_frequent_values():
    bins = np.array([0, 0, 1, 2, 2, 2, 3, 3])
    widths = np.ones(8)
    found = along_a_line(widths, bins, np.array([0.1, 0.5, 0.25, 0.15]))  # densities 0.05, 0.5, 0.083 and 0.075
    np.testing.assert_allclose(np.bincount(bins, found), 1.0)
    assert found[2] == 1.0
    assert found[0] <= found[1]  # the density grows towards bin 2
    # middles at 1, 4.5 and 7; densities 1/20, 1/12 and 3/40
    line = np.interp([3.5, 4.5, 5.5], [1, 4.5, 7], [1 / 20, 1 / 12, 3 / 40])
    np.testing.assert_allclose(found[3:6], line / line.sum())
    alone = along_a_line(np.array([1.0, 3.0, 1.0]), np.array([0, 0, 1]), np.array([0.9, 0.1]))
    np.testing.assert_allclose(alone, [0.25, 0.75, 1.0])


def two_columns_in_bins(n_bins=5, n_cells=40):
    """Return a smooth joint distribution of two columns in cells, and its bins, model and specs."""
    place = (np.arange(n_cells) + 0.5) / n_cells - 0.5
    joint = np.exp(-8 * (place[:, None] ** 2 + place**2 - 1.6 * np.outer(place, place)))
    joint /= joint.sum()
    bins = np.tile(np.arange(n_cells) * n_bins // n_cells, 2)
    cell_margins = np.concatenate([joint.sum(axis=1), joint.sum(axis=0)])
    edges = np.r_[bins[:n_cells], bins[n_cells:] + n_bins]
    margins = np.bincount(edges, cell_margins)
    block = np.add.reduceat(np.add.reduceat(joint, np.arange(0, n_cells, 8), axis=0), np.arange(0, n_cells, 8), axis=1)
    tables = np.zeros((2 * n_bins, 2 * n_bins))
    tables[:n_bins, n_bins:], tables[n_bins:, :n_bins] = block, block.T
    model = PairwiseModel(np.full(2, n_bins), margins, tables)
    return joint, bins, cell_margins / margins[edges], model, [IntegerColumn(0, n_cells - 1)] * 2


def test_tables_of_parts_have_the_tables_of_bins_and_the_margins_and_the_form_between():
    joint, bins, within, model, specs = two_columns_in_bins()
    parts = Parts.of(bins, within, specs, 20)
    assert parts.sizes.tolist() == [20, 20]
    fine = parts.model(model)
    for axis in (0, 1):
        sums = np.add.reduceat(fine.tables, np.searchsorted(parts.parent, np.arange(10)), axis=axis)
        sums = np.add.reduceat(sums, np.searchsorted(parts.parent, np.arange(10)), axis=1 - axis)
        np.testing.assert_allclose(sums, model.tables, atol=1e-9)
    np.testing.assert_allclose(fine.tables[:20, 20:].sum(axis=1), fine.margins[:20], rtol=0.05)
    truth = np.add.reduceat(np.add.reduceat(joint, np.arange(0, 40, 2), axis=0), np.arange(0, 40, 2), axis=1)
    flat = np.outer(parts.chance[:20], parts.chance[20:]) * np.kron(model.tables[:5, 5:], np.ones((4, 4)))
    assert np.abs(fine.tables[:20, 20:] - truth).sum() < 0.7 * np.abs(flat - truth).sum()


def test_parts_and_cells_within_them_have_the_probabilities_of_the_cells():
    within = np.array([0.5, 0.0, 0.2, 0.3, 0.0, 0.0, 1.0, 1.0, 1.0, 0.3, 0.7])
    bins = np.array(
        [0, 0, 0, 0, 1, 1, 1, 2, 0, 1, 1]
    )  # three bins of numbers, missing, three categories, one of them alone
    specs = [IntegerColumn(0, 6, missing=True), CategoryColumn(tuple("abc"))]
    parts = Parts.of(bins, within, specs, 9)
    place = np.concatenate([parts.of_cells[:8], parts.of_cells[8:] + parts.sizes[0]])
    np.testing.assert_allclose(parts.chance[place] * parts.within, within, atol=1e-12)
    np.testing.assert_allclose(np.bincount(place, parts.within), 1.0)  # also in parts without rows
    np.testing.assert_allclose(np.bincount(parts.parent, parts.chance), 1.0)
    assert parts.parent[place].tolist() == [0, 0, 0, 0, 1, 1, 1, 2, 3, 4, 4]
    assert parts.sizes[1] == 2  # categories are not divided
    missing = parts.parent == 2
    assert missing.sum() == 1
    assert (parts.steps[:, 2] == missing).all()  # nothing is drawn along a line to missing
    codes = np.tile(np.arange(5, dtype=np.int32)[None, :], (2000, 1))
    drawn = parts.codes(codes, np.random.default_rng(0))
    np.testing.assert_array_equal(parts.parent[drawn], codes)
    shares = np.bincount(drawn[:, 0], minlength=len(parts.parent))[: (parts.parent == 0).sum()] / 2000
    np.testing.assert_allclose(shares, parts.chance[parts.parent == 0], atol=0.05)


def test_rows_that_are_drawn_in_parts_are_nearer_to_the_table_in_finer_bins_than_in_wide_ones():
    joint, bins, within, model, specs = two_columns_in_bins()
    chains = model.fit(4000, np.random.default_rng(0))
    away = {}
    for most in (1, 20):
        parts = Parts.of(bins, within, specs, most)
        fine = parts.model(model)
        codes = fine.draw(parts.codes(chains, np.random.default_rng(1)), 4000, np.random.default_rng(2), {})
        cells = np.column_stack(
            [
                cells_of(
                    codes[:, place] - fine.edges[place],
                    parts.of_cells[40 * place : 40 * place + 40],
                    parts.within[40 * place : 40 * place + 40],
                    fine.tilts(codes, place),
                    np.random.default_rng(3),
                    even=True,
                )
                for place in (0, 1)
            ]
        )
        counts = np.zeros((20, 20))
        np.add.at(counts, (cells[:, 0] // 2, cells[:, 1] // 2), 1 / 4000)
        truth = np.add.reduceat(np.add.reduceat(joint, np.arange(0, 40, 2), axis=0), np.arange(0, 40, 2), axis=1)
        away[most] = 0.5 * np.abs(counts - truth).sum()
    assert away[20] < 0.6 * away[1]


def test_a_wide_table_or_one_of_few_rows_is_divided_into_fewer_parts():
    assert parts_for(1e6, 10) > parts_for(200, 10) > parts_for(1, 10) == 1
    assert 200 * parts_for(1e6, 200) <= 2000


def test_cells_have_their_distribution_within_a_bin_however_the_rows_lean():
    generator = np.random.default_rng(0)
    bins, within = np.array([0, 0, 0, 1, 1]), np.array([0.5, 0.3, 0.2, 0.9, 0.1])
    local, tilt = generator.integers(0, 2, size=2000), generator.normal(3.0, 2.0, size=2000)
    cells = cells_of(local, bins, within, tilt, generator, even=True)
    np.testing.assert_array_equal(bins[cells], local)
    for bin_ in (0, 1):
        rows = local == bin_
        counts = np.bincount(cells[rows], minlength=5)
        np.testing.assert_allclose(counts, rows.sum() * np.where(bins == bin_, within, 0.0), atol=1.01)
    assert tilt[cells == 2].mean() > tilt[cells == 0].mean() + 0.3  # rows that lean upwards are in the upper cells


def test_a_single_row_is_anywhere_in_its_bin():
    bins, within = np.array([0, 0]), np.array([0.5, 0.5])
    drawn = [
        cells_of(np.array([0]), bins, within, np.zeros(1), np.random.default_rng(seed), even=True)[0]
        for seed in range(40)
    ]
    assert set(drawn) == {0, 1}


def test_noise_is_taken_off_and_a_table_without_noise_stays():
    generator = np.random.default_rng(0)
    low = np.outer(generator.normal(size=12), generator.normal(size=9))
    noisy = low + 0.3 * generator.normal(size=low.shape)
    assert np.linalg.norm(shrunk(noisy, 0.3) - low) < 0.7 * np.linalg.norm(noisy - low)
    np.testing.assert_array_equal(shrunk(noisy, 0.0), noisy)
    np.testing.assert_allclose(shrunk(0.3 * generator.normal(size=(20, 20)), 0.3), 0, atol=0.3)
    whole = np.outer(generator.normal(size=30), np.ones(30))
    whole = whole + whole.T
    edges = np.array([0, 10, 20, 30])
    noise = np.tril(generator.normal(size=(30, 30)), -1)
    given = whole + noise + noise.T
    off = np.ones((30, 30), dtype=bool)
    for first, last in itertools.pairwise(edges):
        off[first:last, first:last] = False
    given = np.where(off, given, 0.0)
    found = shrunk_matrix(given, np.where(off, 1.0, 0.0))
    assert np.linalg.norm((found - whole)[off]) < 0.7 * np.linalg.norm((given - whole)[off])


def test_noise_that_the_margins_explain_is_left_out():
    """A table of 2 x 2 has one number beyond its margins; the other three are noise that would hide it."""
    generator = np.random.default_rng(0)
    signal = 2.5 * np.array([[1.0, -1.0], [-1.0, 1.0]]) / 2
    errors = {True: [], False: []}
    for _ in range(300):
        noisy = signal + generator.normal(size=(2, 2))
        errors[True].append(np.sum((shrunk(centred(noisy), 1.0, is_centred=True) - signal) ** 2))
        errors[False].append(np.sum((shrunk(noisy, 1.0) - signal) ** 2))
    assert np.mean(errors[True]) < 0.6 * np.mean(errors[False])
    assert not shrunk(np.zeros((1, 5)), 1.0, is_centred=True).any()


def test_margins_are_kept():
    generator = np.random.default_rng(0)
    left, right = generator.dirichlet(np.ones(4)), generator.dirichlet(np.ones(5))
    table = np.outer(left, right) + 0.01 * generator.normal(size=(4, 5))
    found = fit_margins(table, left, right)
    assert found.min() >= 0
    np.testing.assert_allclose(found.sum(axis=0), right, atol=1e-3)
    np.testing.assert_allclose(found.sum(axis=1), left, atol=1e-3)


def test_latent_classes_have_the_tables_of_a_mixture():
    generator = np.random.default_rng(0)
    share, inside = generator.dirichlet(np.ones(3)), [generator.dirichlet(np.ones(k), size=3) for k in SIZES]
    joint = np.einsum("z,za,zb,zc->abc", share, *inside)
    _, tables = tables_of(joint)
    found = tables_of_classes(tables, SIZES)
    assert np.abs(found - tables).sum() / 12 < 0.01


def test_pair_tables_are_nearer_to_the_truth_than_measured():
    generator = np.random.default_rng(4)
    sizes, share = [8, 8, 8, 8], generator.dirichlet(np.ones(4))
    inside = [generator.dirichlet(np.full(k, 0.5), size=4) for k in sizes]
    margins = [share @ part for part in inside]
    truth = {(i, j): (inside[i].T * share) @ inside[j] for i, j in itertools.combinations(range(4), 2)}
    measured = {pair: 5000 * table + 30 * generator.normal(size=table.shape) for pair, table in truth.items()}
    joint = joint_tables(measured, dict.fromkeys(measured, 30.0), margins)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    ours = [np.abs(joint[edges[i] : edges[i + 1], edges[j] : edges[j + 1]] - truth[i, j]).sum() for i, j in truth]
    plain = [np.abs(measured[pair] / 5000 - truth[pair]).sum() for pair in truth]
    assert np.mean(ours) < 0.5 * np.mean(plain)
    np.testing.assert_allclose(joint, joint.T, atol=1e-12)


def test_of_a_triple_table_only_what_pairs_do_not_tell_is_kept():
    generator = np.random.default_rng(1)
    blocks = [(slice(0, 4), slice(4, 8))]
    expected = np.zeros((2, 8, 8))
    expected[:, :4, 4:] = generator.dirichlet(np.ones(32)).reshape(2, 4, 4)
    noise = 1e-3
    margins_moved = expected.copy()
    margins_moved[0, :4, 4:] += 0.01 * np.arange(4)[:, None]
    measured = margins_moved + noise * generator.normal(size=expected.shape)
    np.testing.assert_allclose(without_noise(measured, expected, noise, blocks), expected, atol=1e-12)
    checks = 0.01 * np.outer([1, -1, 1, -1], [1, 1, -1, -1])
    truth = expected + 0.02
    truth[:, :4, 4:] += np.array([checks, -checks])
    found = without_noise(truth + noise * generator.normal(size=truth.shape), expected + 0.02, noise, blocks)
    assert np.abs(found - truth)[:, :4, 4:].mean() < noise
