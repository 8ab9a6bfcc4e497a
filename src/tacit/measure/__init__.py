"""What was kept of the data, and what leaks: topics and dictionaries of models, metrics of released tables, attacks.

These functions look at the data they are given without any protection. What they return about private data is a
release like any other: keep it to yourself, or measure on public data.
"""

from tacit.measure.classifiers import (
    CLASSIFIERS,
    PanelScore,
    area_under_curve,
    classifier_panel,
    classifier_scores,
    misclassification_rate,
)
from tacit.measure.clusters import clustering_accuracy, label_agreement
from tacit.measure.correlation import canonical_correlation, correlation_measure
from tacit.measure.distortion import (
    attribute_rank_change,
    attribute_rank_maintenance,
    rank_maintenance,
    rank_position,
    value_difference,
)
from tacit.measure.models.reconstruction import held_out_error, non_negative_rows, reconstruction_error
from tacit.measure.models.topics import Match, match_topics, top_words, topic_coherence
from tacit.measure.neighbours import neighbour_overlap, neighbour_rank_change
from tacit.measure.release import ReleaseMeasures, all_attacks, measure_release

__all__ = [
    "CLASSIFIERS",
    "Match",
    "PanelScore",
    "ReleaseMeasures",
    "all_attacks",
    "area_under_curve",
    "attribute_rank_change",
    "attribute_rank_maintenance",
    "canonical_correlation",
    "classifier_panel",
    "classifier_scores",
    "clustering_accuracy",
    "correlation_measure",
    "held_out_error",
    "label_agreement",
    "match_topics",
    "measure_release",
    "misclassification_rate",
    "neighbour_overlap",
    "neighbour_rank_change",
    "non_negative_rows",
    "rank_maintenance",
    "rank_position",
    "reconstruction_error",
    "top_words",
    "topic_coherence",
    "value_difference",
]
