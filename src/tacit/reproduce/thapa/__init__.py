"""Thapa (2013), chapters 3 to 7: hidden clusters, perturbed tables, classifiers trained on them, and measures of distortion.

Tables are used in their own units, as in the thesis: its distortions of truncated SVD are those of the raw tables. It does not
state the numbers of clusters (10 on Yeast, 2 on Sonar and 3 on Iris fit its distortions), the classes of the wines (here:
white wines, good from quality 6), the settings of its kernels, or how rows were split.

May be imported by `tacit.reproduce.catalogue`, which loads it when it is asked for, and by `claims`.
"""

from tacit.reproduce.thapa import classifiers, clusters, hiding, measures, neighbourhoods

__all__ = ["classifiers", "clusters", "hiding", "measures", "neighbourhoods"]
