"""Parts of images, found with and without privacy, beside the parts that the images were really made of."""

from pathlib import Path

from tacit import NMF, PrivateNMF
from tacit.data import make_images
from tacit.measure import match_topics
from tacit.report.figures import image_rows

data = make_images(6000, side=12, n_parts=6)
plain = NMF(6, random_state=0).fit(data.images)
rows = {
    "the truth": data.parts,
    "no privacy": plain.components_[match_topics(data.parts, plain.components_).permutation],
}
for epsilon in (4.0, 1.0, 0.25):
    model = PrivateNMF(6, epsilon=epsilon, delta=1e-6, row_norm=1.5).fit(data.images)
    match = match_topics(data.parts, model.components_)
    rows[f"epsilon {epsilon:g}"] = model.components_[match.permutation]
    print(f"epsilon {epsilon:g}: similarity to the true parts {match.mean_similarity:.3f}")
    print(model.guarantee_)

figure = image_rows(rows, data.shape)
figure.savefig(Path("private_parts.png"), bbox_inches="tight", dpi=110)
