"""Measures of models and of released tables, and attacks on released tables.

These functions use the data without any protection. What they return about private data is a release that no guarantee
covers: keep it with the holder, or measure on public data.

May be imported by all packages except `channel`, `data`, `privacy` and `testing`.
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
    entropy_loss,
    rank_maintenance,
    rank_position,
    value_difference,
)
from tacit.measure.models.reconstruction import held_out_error, non_negative_rows, reconstruction_error
from tacit.measure.models.topics import Match, match_topics, top_words, topic_coherence
from tacit.measure.neighbours import neighbour_overlap, neighbour_rank_change
from tacit.measure.ranking import RankingScores, divided_histories, ranking_scores
from tacit.measure.release import ReleaseMeasures, all_attacks, measure_release

__all__ = [
    "CLASSIFIERS",
    "Match",
    "PanelScore",
    "RankingScores",
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
    "divided_histories",
    "entropy_loss",
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
    "ranking_scores",
    "reconstruction_error",
    "top_words",
    "topic_coherence",
    "value_difference",
]
