"""
Reading words: do the neighbors help?
=====================================

Learn how much a model of whole words gains over reading one character at a time, if a character
says something about the next one. :class:`~sklearn_bundle.StructuredSVM` with the model of a chain
has weights of pixels with labels and of labels that follow one another, and reads the word as a
whole.

The words are made here, of scikit-learn's handwritten digits.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from sklearn_bundle import StructuredSVM
from sklearn_bundle.metrics import sequence_accuracy_score, token_accuracy_score
from sklearn_bundle.plotting import ConvergenceDisplay

# %%
# A word has four to eight digits. After a digit comes one of three: the next one, the one before,
# or twice the digit, all modulo 10. A picture has 8 x 8 pixels, and noise on each.

NOISE = 0.4  # standard deviation, in units of black


def words_of_digits(images, labels, n_words, rng):
    """Pictures of words, a row per digit, and their labels."""
    X, y = [], []
    for length in rng.integers(4, 9, size=n_words):
        word = [int(rng.integers(10))]
        while len(word) < length:
            last = word[-1]
            word.append(int(rng.choice([last + 1, last - 1, 2 * last])) % 10)
        pictures = [images[rng.choice(np.flatnonzero(labels == digit))] for digit in word]
        X.append(np.array(pictures) + NOISE * rng.normal(size=(len(word), images.shape[1])))
        y.append([str(digit) for digit in word])
    return X, y


images, labels = load_digits(return_X_y=True)
images, rng = images / 16, np.random.default_rng(0)
X_train, y_train = words_of_digits(images[:900], labels[:900], 400, rng)
X_test, y_test = words_of_digits(images[900:], labels[900:], 200, rng)
print(f"{len(X_train)} words to train, {len(X_test)} to test; the first: {''.join(y_train[0])}")

# %%
# Two models with the same features. The one of words takes a list with a matrix per word; the one
# of single pictures a matrix with a row per picture, chains of length one without neighbors.
# ``reg_lambda`` is weighed against the mean loss per example, a word or a picture. Ten divided by
# their number is the same weight against the sum of the losses.

X_pictures, y_pictures = np.concatenate(X_train), np.concatenate(y_train)
by_words = StructuredSVM("chain", reg_lambda=10 / len(X_train), random_state=0)
by_pictures = StructuredSVM("chain", reg_lambda=10 / len(X_pictures), random_state=0)
by_words.fit(X_train, y_train)
by_pictures.fit(X_pictures, y_pictures)

# %%
# The certificates: whatever the weights, the objective is not below the first of the two numbers.

for name, model in (("words", by_words), ("pictures", by_pictures)):
    print(
        f"{name:<9} {model.lower_bound_:.4f} <= minimum <= {model.objective_:.4f}, "
        f"gap {model.relative_gap_:.1e} after {model.history_['passes'][-1]} passes of the oracle"
    )

# %%
# On the test words, with the labels of the pictures put together to words again:

ends = np.cumsum([len(word) for word in X_test])[:-1]
alone = by_pictures.predict(np.concatenate(X_test))
alone = [part.tolist() for part in np.split(alone, ends)]
together = by_words.predict(X_test)
print(f"{'':<20}{'characters right':>18}{'words right':>13}")
right = {}
for name, found in (("picture by picture", alone), ("as words", together)):
    characters, whole = token_accuracy_score(y_test, found), sequence_accuracy_score(y_test, found)
    right[name] = characters
    print(f"{name:<20}{characters:>18.3f}{whole:>13.3f}")

# %%
# Test words on which the two disagree. Below a picture, on the left, is the digit that was read
# alone. On the right is the digit that was read in its word. Wrong ones are in bold red.

differ = [k for k, word in enumerate(y_test) if alone[k] != together[k] and len(word) <= 6]
shown = list({"".join(y_test[k]): k for k in differ}.values())[:4]  # no word twice
longest = max(len(y_test[k]) for k in shown)
figure, axes = plt.subplots(len(shown), longest, figsize=(6.4, 5.6), layout="constrained")
for ax in axes.flat:
    ax.axis("off")
for row, k in zip(axes, shown, strict=True):
    columns = zip(X_test[k], y_test[k], alone[k], together[k], strict=True)
    for ax, (pixels, truth, *found) in zip(row, columns, strict=False):
        ax.imshow(pixels.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        for place, label in zip((0.3, 0.7), found, strict=True):
            look = {} if label == truth else {"color": "#D55E00", "weight": "bold"}
            ax.text(place, -0.27, label, transform=ax.transAxes, ha="center", size=13, **look)
single, whole = right.values()
figure.suptitle(f"Characters right: {single:.0%} alone (left), {whole:.0%} in words (right)")
plt.show()

# %%
# What the model has learned of neighbors: the weight of a label (column) after another (row). The
# three that may follow a digit stand out.

figure, ax = plt.subplots(figsize=(5.6, 4.4), layout="constrained")
limit = np.abs(by_words.transitions_).max()
image = ax.imshow(by_words.transitions_, cmap="PuOr", vmin=-limit, vmax=limit)
ticks = range(len(by_words.classes_))
ax.set_xticks(ticks, by_words.classes_)
ax.set_yticks(ticks, by_words.classes_)
ax.set(xlabel="label", ylabel="label before", title="The model finds the digits that may follow")
figure.colorbar(image, ax=ax, label="weight")
plt.show()

# %%
# How the fit of words converged. The gap is known after passes without a step, one in ten.

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
ConvergenceDisplay.from_estimator(by_words, ax=ax)
ax.set_title(
    f"The fit of words ends at most {100 * by_words.relative_gap_:.2g} % above the minimum"
)
plt.show()
