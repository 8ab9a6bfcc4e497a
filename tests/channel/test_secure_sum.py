"""The sum among many clients: exact whoever leaves, refused below the threshold, and no client's two secrets together."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from tacit.channel import secure_sum as module
from tacit.channel.masked import Masks
from tacit.channel.secure_sum import (
    ARRIVED,
    GONE,
    SHARE_BYTES,
    NoiseShares,
    Roster,
    SumClient,
    SumServer,
    SumSettings,
    secure_sum,
)
from tacit.errors import InvalidInputError, PartyError, ProtocolError

STAGES = ("keys", "shares", "vectors", "answers")


def run(setup, vectors, left=()):
    """Run a sum in which client `who` leaves before it sends what belongs to `stage`, for all (who, stage) in `left`."""
    stage_of = {who: STAGES.index(stage) for who, stage in left}

    def there(stage, numbers):
        return [number for number in numbers if stage_of.get(number, len(STAGES)) > STAGES.index(stage)]

    clients = {number: SumClient(setup, number) for number in range(setup.clients)}
    server = SumServer(setup)
    roster = server.roster({number: clients[number].keys() for number in there("keys", clients)})
    inboxes = server.inboxes({number: clients[number].shares(roster) for number in there("shares", clients)})
    requests = server.requests(
        {number: clients[number].masked(inboxes[number], vectors[number]) for number in there("vectors", inboxes)}
    )
    return server, server.total(
        {number: clients[number].unmask(requests[number]) for number in there("answers", requests)}
    )


def random_vectors(setup, seed=0):
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 2**64, (setup.word_count, setup.length), dtype=np.uint64, endpoint=False)
        for _ in range(setup.clients)
    ]


def integers(elements):
    return [sum(int(word) << 64 * place for place, word in enumerate(column)) for column in elements.T]


def exact(setup, vectors, survivors):
    whole = 1 << 64 * setup.word_count
    return [sum(column) % whole for column in zip(*(integers(vectors[one]) for one in survivors), strict=True)]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_the_total_is_exact_modulo_the_word_whoever_leaves_and_when(data):
    clients = data.draw(st.integers(4, 14))
    colluding = data.draw(st.integers(0, max(0, clients - 4) // 2))
    dropouts = data.draw(st.integers(0, (clients - 2 - colluding) // 2))
    setup = SumSettings.choose(
        clients, 3, dropouts=dropouts, colluding=colluding, word_count=data.draw(st.sampled_from([1, 2]))
    )
    who = data.draw(st.permutations(range(clients)))[: data.draw(st.integers(0, dropouts))]
    left = [(one, data.draw(st.sampled_from(STAGES))) for one in who]
    vectors = random_vectors(setup, clients)
    server, total = run(setup, vectors, left)
    assert set(server.survivors) == set(range(clients)) - {one for one, stage in left if stage != "answers"}
    assert integers(total) == exact(setup, vectors, server.survivors)


@pytest.mark.slow
def test_a_sparse_graph_gives_the_exact_total_too():
    """More clients than neighbours, and all stages of leaving; vectors longer than one chunk of masks."""
    setup = SumSettings.choose(150, 17_000, dropouts=6, colluding=0)
    assert setup.neighbours < 80
    left = list(zip(range(0, 150, 25), itertools.cycle(STAGES), strict=False))
    vectors = random_vectors(setup)
    server, total = run(setup, vectors, left)
    expected = sum(vectors[one] for one in server.survivors)
    np.testing.assert_array_equal(total, expected)
    direct, survivors = secure_sum(replace(setup, session=b"another"), vectors, gone=[7, 8])
    np.testing.assert_array_equal(direct, sum(vectors[one] for one in survivors))
    assert set(range(150)) - set(survivors) == {7, 8}


@pytest.mark.parametrize("stage", STAGES)
def test_one_dropout_too_many_is_refused_and_nothing_is_unmasked(stage):
    setup = SumSettings.choose(10, 2, dropouts=3, colluding=1)
    spare = setup.neighbours - setup.threshold
    left = [(one, stage) for one in range(spare + 2 if stage == "answers" else 4)]
    with pytest.raises(PartyError, match="left"):
        run(setup, random_vectors(setup), left)


def test_clients_refuse_to_unmask_a_sum_of_too_few():
    setup = SumSettings.choose(10, 2, dropouts=3, colluding=1)
    clients, _, inboxes = until_vectors(setup)
    client = clients[0]
    client.masked(inboxes[0], random_vectors(setup)[0])
    few = {peer: ARRIVED if peer <= setup.threshold - 1 else GONE for peer in range(1, 10)}
    with pytest.raises(PartyError, match="stay"):
        client.unmask(request(few))


def until_vectors(setup):
    clients = {number: SumClient(setup, number) for number in range(setup.clients)}
    server = SumServer(setup)
    roster = server.roster({number: client.keys() for number, client in clients.items()})
    return clients, server, server.inboxes({number: client.shares(roster) for number, client in clients.items()})


def request(kinds):
    return b"".join(peer.to_bytes(4, "little") + bytes([kind]) for peer, kind in sorted(kinds.items()))


def stolen(setup, victim):
    """Let a server lie about one client to all its neighbours; return how many shares of each secret it could collect.

    Colluding neighbours give both of their shares, honest ones what the protocol makes them give: the server tells half of
    them that the vector arrived and the other half that it did not.
    """
    clients, server, inboxes = until_vectors(setup)
    vectors = random_vectors(setup)
    for number, client in clients.items():
        client.masked(inboxes[number], vectors[number])
    peers = server._roster.neighbours(victim)
    colluding = set(peers[: setup.colluding])
    shares = {ARRIVED: set(), GONE: set()}
    for place, peer in enumerate(one for one in peers if one not in colluding):
        lie = ARRIVED if place % 2 else GONE
        kinds = {other: lie if other == victim else ARRIVED for other in server._roster.neighbours(peer)}
        answer = clients[peer].unmask(request(kinds))
        entries = {answer[at : at + 4]: answer[at + 4 : at + 4 + SHARE_BYTES] for at in range(0, len(answer), 37)}
        share, held = entries[victim.to_bytes(4, "little")], clients[peer]._held[victim]
        assert share in held
        shares[held.index(share)].add(peer)
    return [len(shares[kind] | colluding) for kind in (ARRIVED, GONE)]


@pytest.mark.parametrize(("clients", "dropouts", "colluding"), [(9, 3, 0), (12, 3, 3), (12, 1, 7), (20, 5, 5)])
def test_a_server_that_lies_about_who_left_never_gets_both_secrets(clients, dropouts, colluding):
    setup = SumSettings.choose(clients, 1, dropouts=dropouts, colluding=colluding)
    counts = stolen(setup, 0)
    assert min(counts) < setup.threshold
    # the attack is as good as it can be: with one share less per secret it would succeed
    assert min(counts) >= setup.threshold - 1


def test_the_same_attack_succeeds_below_the_threshold_that_the_settings_demand(monkeypatch):
    setup = SumSettings.choose(12, 1, dropouts=3, colluding=3)
    with pytest.raises(InvalidInputError, match="both secrets"):
        replace(setup, threshold=setup.threshold - 1)
    monkeypatch.setattr(SumSettings, "both", 0.0)
    assert min(stolen(replace(setup, threshold=setup.threshold - 1), 0)) >= setup.threshold - 1


def test_requests_of_an_honest_server_ask_each_client_for_one_secret_of_each_neighbour():
    setup = SumSettings.choose(12, 2, dropouts=4, colluding=1)
    clients, server, inboxes = until_vectors(setup)
    vectors, gone = random_vectors(setup), {2, 5}
    requests = server.requests({n: clients[n].masked(inboxes[n], vectors[n]) for n in clients if n not in gone})
    for number, message in requests.items():
        answer = clients[number].unmask(message)
        for at in range(0, len(answer), 37):
            peer = int.from_bytes(answer[at : at + 4], "little")
            assert answer[at + 4 : at + 37] == clients[number]._held[peer][GONE if peer in gone else ARRIVED]
        assert len(answer) == 37 * 11
        with pytest.raises(ProtocolError, match="once each"):
            clients[number].unmask(message)


def test_a_client_answers_only_about_all_its_neighbours_and_only_with_known_kinds():
    setup = SumSettings.choose(6, 1, dropouts=1, colluding=1)
    for kinds in ({1: ARRIVED}, dict.fromkeys(range(1, 6), 2), dict.fromkeys(range(6), ARRIVED)):
        clients, _, inboxes = until_vectors(setup)
        clients[0].masked(inboxes[0], random_vectors(setup)[0])
        with pytest.raises(ProtocolError):
            clients[0].unmask(request(kinds))


def late_vector(setup, vectors, late):
    """Return what a server makes of a vector that came after its client was given up: all common masks taken off."""
    clients, server, inboxes = until_vectors(setup)
    sent = {n: clients[n].masked(inboxes[n], vectors[n]) for n in clients}
    requests = server.requests({n: message for n, message in sent.items() if n != late})
    answers = {n: clients[n].unmask(message) for n, message in requests.items()}
    parsed = {n: dict(module._entries(message, SHARE_BYTES, setup, "shares")) for n, message in answers.items()}
    secret = server._recovered(parsed)[late]
    private = module.X25519PrivateKey.from_private_bytes(secret)
    keys = {peer: server._roster.key_of_pair(private, b"mask", late, peer) for peer in server._roster.neighbours(late)}
    vector = np.frombuffer(sent[late], np.uint64).reshape(vectors[late].shape)
    mask = Masks(late, keys).hide(np.zeros_like(vector), setup.ring, 0)
    return vector - mask


def test_a_vector_that_comes_too_late_says_nothing(monkeypatch):
    """The self mask hides it when the server has the masks of all pairs; without a self mask the vector is bare."""
    setup = SumSettings.choose(7, 20_000, dropouts=2, colluding=1)
    vectors = [np.full((1, 20_000), 5, dtype=np.uint64) for _ in range(7)]
    left = late_vector(setup, vectors, 3)
    counts = np.bincount(left.view(np.uint8).ravel(), minlength=256)
    expected = counts.sum() / 256
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), 255) > 1e-6
    assert not (left == vectors[3]).any()

    class WithoutSelfMask(Masks):
        def __init__(self, index, keys):
            super().__init__(index, {peer: key for peer, key in keys.items() if peer != setup.clients})

    monkeypatch.setattr(module, "Masks", WithoutSelfMask)
    np.testing.assert_array_equal(late_vector(setup, vectors, 3), vectors[3])


@pytest.mark.parametrize("value", [0, 12345])
def test_what_a_client_sends_is_uniform(value):
    setup = SumSettings.choose(5, 30_000, dropouts=1, colluding=1)
    clients, _, inboxes = until_vectors(setup)
    sent = clients[2].masked(inboxes[2], np.full((1, 30_000), value, dtype=np.uint64))
    counts = np.bincount(np.frombuffer(sent, np.uint8), minlength=256)
    expected = counts.sum() / 256
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), 255) > 1e-6


def test_secrets_are_new_for_every_sum_and_never_sent_in_the_clear():
    setup = SumSettings.choose(5, 4, dropouts=1, colluding=1)
    clients, _, inboxes = until_vectors(setup)
    messages = b"".join(inboxes.values())
    secrets_ = [one._seed for one in clients.values()] + [c._mask_key.private_bytes_raw() for c in clients.values()]
    held = [share for client in clients.values() for share in getattr(client, "_held", {}).values()]
    assert len(set(secrets_)) == 10
    assert not held
    assert all(len(secret) == 32 and secret not in messages for secret in secrets_)


# ------------------------------------------------------------------------------------------- messages that were changed


def test_a_changed_or_misdelivered_share_is_refused():
    setup = SumSettings.choose(5, 1, dropouts=1, colluding=1)
    vector = random_vectors(setup)[0]
    for change in ("bit", "receiver"):
        clients, _, inboxes = until_vectors(setup)
        inbox = bytearray(inboxes[0])
        if change == "bit":
            inbox[20] ^= 1
        else:
            inbox = bytearray(inboxes[1])
            inbox[:4] = (1).to_bytes(4, "little")
        with pytest.raises(ProtocolError):
            clients[0].masked(bytes(inbox), vector)


def test_clients_with_different_lists_of_keys_do_not_trust_each_other():
    """A server that gives one client another roster is found out before any vector is sent."""
    setup = SumSettings.choose(5, 1, dropouts=1, colluding=1)
    clients = {number: SumClient(setup, number) for number in range(5)}
    server = SumServer(setup)
    keys = {number: client.keys() for number, client in clients.items()}
    roster = server.roster(keys)
    stranger = SumClient(setup, 4).keys()
    other = roster.replace(keys[4], stranger)
    messages = {number: clients[number].shares(other if number == 0 else roster) for number in range(5)}
    inboxes = server.inboxes(messages)
    with pytest.raises(ProtocolError, match="different keys"):
        clients[1].masked(inboxes[1], random_vectors(setup)[1])
    client = SumClient(setup, 0)
    client.keys()
    with pytest.raises(ProtocolError, match="own keys"):
        client.shares(roster)


@pytest.mark.parametrize("gone", [(), (3,)])
def test_a_wrong_share_gives_no_total_rather_than_a_wrong_one(gone):
    setup = SumSettings.choose(6, 1, dropouts=1, colluding=1)
    clients, server, inboxes = until_vectors(setup)
    vectors = random_vectors(setup)
    requests = server.requests({n: clients[n].masked(inboxes[n], vectors[n]) for n in clients if n not in gone})
    answers = {n: bytearray(clients[n].unmask(message)) for n, message in requests.items()}
    at = 0 if not gone else 37 * 2 + 0  # the share of client 1, or of client 3, that client 0 gives
    answers[0][at + 36] ^= 1
    with pytest.raises(PartyError, match="secret of client"):
        server.total({n: bytes(message) for n, message in answers.items()})


def test_steps_come_in_order_and_once():
    setup = SumSettings.choose(4, 1, dropouts=0, colluding=0)
    client, server = SumClient(setup, 0), SumServer(setup)
    with pytest.raises(ProtocolError):
        client.shares(b"")
    with pytest.raises(ProtocolError):
        server.total({})
    client.keys()
    with pytest.raises(ProtocolError):
        client.keys()


def test_messages_of_a_wrong_shape_are_refused():
    setup = SumSettings.choose(4, 2, dropouts=1, colluding=0)
    keys = {number: SumClient(setup, number).keys() for number in range(4)}
    for bad in ({**keys, 4: keys[0]}, {**keys, 0: keys[0][:-1]}):
        with pytest.raises(ProtocolError):
            SumServer(setup).roster(bad)
    clients, server, inboxes = until_vectors(setup)
    with pytest.raises(InvalidInputError):
        clients[0].masked(inboxes[0], np.zeros((1, 3), dtype=np.uint64))
    with pytest.raises(PartyError):
        server.requests(dict.fromkeys(range(4), b"short"))


# --------------------------------------------------------------------------------------------- graph and threshold


def test_the_graph_is_regular_symmetric_and_follows_from_the_keys():
    setup = SumSettings.choose(150, 1, dropouts=6, colluding=0)
    keys = [SumClient(setup, number).keys() for number in range(150)]
    graphs = []
    for change in (0, 1):
        keys[0] = SumClient(setup, 0).keys() if change else keys[0]
        roster = Roster(setup, b"".join(number.to_bytes(4, "little") + key for number, key in enumerate(keys)))
        graph = {number: set(roster.neighbours(number)) for number in range(150)}
        assert all(len(peers) == setup.neighbours and number not in peers for number, peers in graph.items())
        assert all(number in graph[peer] for number, peers in graph.items() for peer in peers)
        graphs.append(graph)
    assert graphs[0] != graphs[1]


def ring_neighbours(clients, neighbours, place):
    side = neighbours // 2
    return {(place + step) % clients for step in range(-side, side + 1) if step}


def connected(nodes, clients, neighbours):
    nodes = set(nodes)
    seen, todo = set(), [min(nodes)]
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo.extend(ring_neighbours(clients, neighbours, one) & nodes)
    return seen == nodes


@pytest.mark.parametrize(("clients", "neighbours", "threshold"), [(9, 4, 3), (10, 6, 4)])
def test_the_probabilities_bound_what_counting_all_cases_gives(monkeypatch, clients, neighbours, threshold):
    for name in ("EXPOSURE", "FAILURE"):
        monkeypatch.setattr(module, name, math.inf)
    dropouts, colluding = 2, 2
    setup = SumSettings(clients, 1, dropouts, colluding, neighbours, threshold)
    found = {"failure": 0, "both": 0, "split": 0}
    cases = list(itertools.combinations(range(clients), dropouts))
    for gone in cases:
        left = [clients_ for clients_ in range(clients) if clients_ not in gone]
        around = [len(ring_neighbours(clients, neighbours, one) - set(gone)) for one in range(clients)]
        found["failure"] += min(around) < threshold
        # as a set of colluding clients, seen by the others
        beside = [len(ring_neighbours(clients, neighbours, one) & set(gone)) for one in left]
        found["both"] += any(2 * threshold <= neighbours + count for count in beside)
    for name in ("failure", "both"):
        share = found[name] / len(cases)
        assert share <= getattr(setup, name) <= max(clients * share, 1e-9)
    bad = list(itertools.combinations(range(clients), dropouts + colluding))
    split = sum(not connected(set(range(clients)) - set(one), clients, neighbours) for one in bad) / len(bad)
    assert 0 < split <= setup.split or neighbours == 6


def test_the_chosen_settings_meet_their_bounds_and_fewer_neighbours_would_not():
    setup = SumSettings.choose(100, 1, dropouts=30, colluding=10)
    assert setup.failure <= module.FAILURE
    assert max(setup.both, setup.split) <= module.EXPOSURE
    for threshold in range(1, setup.neighbours - 1):
        with pytest.raises(InvalidInputError):
            replace(setup, neighbours=setup.neighbours - 2, threshold=threshold)


@pytest.mark.parametrize(("clients", "dropouts", "colluding"), [(10, 4, 2), (10, 0, 9), (4, 2, 0)])
def test_more_dropouts_and_colluders_than_any_graph_bears_are_refused(clients, dropouts, colluding):
    with pytest.raises(InvalidInputError, match="below"):
        SumSettings.choose(clients, 1, dropouts=dropouts, colluding=colluding)


# --------------------------------------------------------------------------------------------------------------- noise


def test_the_noise_of_the_honest_clients_that_stay_is_what_the_guarantee_counts():
    setup = SumSettings.choose(12, 4000, dropouts=3, colluding=2)
    noise = NoiseShares(setup, bound=2.0, epsilon=1.0, delta=1e-6)
    total, stayed = secure_sum(setup, [noise.encode(np.zeros(4000)) for _ in range(12)], gone=[0, 1, 2])
    values = noise.decode(total)
    assert len(stayed) == 9
    # the variance of 4000 normal numbers, at level 1e-6 on each side
    stated = noise.noise(9)
    low, high = chi2.ppf([1e-6, 1 - 1e-6], 4000) / 4000
    assert low < np.mean(values**2) / stated**2 < high
    guarantees = {survivors: noise.guarantee(survivors) for survivors in (9, 10, 12)}
    assert guarantees[9].epsilon == pytest.approx(1.0, rel=1e-3)
    assert guarantees[9].epsilon <= 1.0
    assert guarantees[12].epsilon < guarantees[10].epsilon < guarantees[9].epsilon
    for survivors, guarantee in guarantees.items():
        sensitivity = noise._scales[1]
        honest = noise.share * math.sqrt(survivors - 2) / sensitivity
        assert guarantee.releases[0].noise_multiplier <= honest
        assert guarantee.releases[0].noise_multiplier == pytest.approx(honest, rel=1e-9)
    with pytest.raises(InvalidInputError):
        noise.guarantee(8)


def test_shares_of_all_clients_would_not_be_enough_after_dropouts(monkeypatch):
    """The planted bug: shares sized for everybody, dropouts and colluders included."""
    setup = SumSettings.choose(12, 10, dropouts=3, colluding=2)
    monkeypatch.setattr(NoiseShares, "share", property(lambda self: self._scales[2] / math.sqrt(self.settings.clients)))
    assert NoiseShares(setup, bound=2.0, epsilon=1.0, delta=1e-6).guarantee(9).epsilon > 1.2


def test_a_client_cannot_move_the_integers_by_more_than_the_sensitivity(monkeypatch):
    monkeypatch.setattr(module, "with_discrete_gaussian", lambda integers, width: integers)
    setup = SumSettings.choose(5, 50, dropouts=1, colluding=1)
    noise = NoiseShares(setup, bound=3.0, epsilon=1.0, delta=1e-6)
    rng = np.random.default_rng(0)
    for scale in (1e-9, 0.1, 1.0, 1e9):
        moved = noise.encode(rng.normal(size=50) * scale)[0].view(np.int64).astype(float)
        assert np.linalg.norm(moved) <= noise._scales[1]
    assert np.linalg.norm(moved) >= 0.99 * noise._scales[1]
    for bad in (np.full(50, np.nan), np.zeros(49)):
        with pytest.raises(InvalidInputError):
            noise.encode(bad)


# -------------------------------------------------------------------------------------------------------- planted bugs


def swapped_kinds(monkeypatch):
    plain = SumServer._kinds
    monkeypatch.setattr(
        SumServer, "_kinds", lambda self, client: (part[:4] + bytes([1 - part[4]]) for part in plain(self, client))
    )


def same_sign(monkeypatch):
    plain = Masks.hide

    def hide(self, elements, ring, number):
        self.index, kept = (-1 if self.index < 6 else self.index), self.index
        try:
            return plain(self, elements, ring, number)
        finally:
            self.index = kept

    monkeypatch.setattr(Masks, "hide", hide)


def forgotten_pairs(monkeypatch):
    monkeypatch.setattr(SumServer, "_without_pairs", lambda self, total, client, secret: total)


def key_without_ends(monkeypatch):
    plain = Roster.key_of_pair
    monkeypatch.setattr(
        Roster, "key_of_pair", lambda self, private, purpose, own, other: plain(self, private, purpose, 0, other)
    )


@pytest.mark.parametrize("plant", [swapped_kinds, same_sign, forgotten_pairs, key_without_ends])
def test_planted_bugs_spoil_the_total_or_stop_the_sum(monkeypatch, plant):
    setup = SumSettings.choose(6, 3, dropouts=1, colluding=1)
    vectors = random_vectors(setup)
    plant(monkeypatch)
    try:
        total, survivors = secure_sum(setup, vectors, gone=[2])
    except (PartyError, ProtocolError):
        return
    assert integers(total) != exact(setup, vectors, survivors)
