"""
Chunking: which words belong together?
======================================

Learn to label the words of a sentence together with :class:`~sklearn_bundle.SDCACRF`, a conditional
random field: from the columns of a file to the F1 of phrases, and to what the model has learned.
Attributes are lists of strings, as for CRFsuite, and the template is that of CRFsuite's own
chunking example.

The data is a toy: 60 short sentences, written and labeled by hand for this page in the style of the
CoNLL-2000 shared task, which has 9,000. The scores here say nothing about real text.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, train_test_split

from sklearn_bundle import SDCACRF
from sklearn_bundle.datasets import load_conll
from sklearn_bundle.metrics import (
    sequence_accuracy_score,
    span_f1_scorer,
    span_precision_recall_fscore_support,
    token_accuracy_score,
)
from sklearn_bundle.plotting import ConvergenceDisplay

# %%
# A sentence is a list of words with their part-of-speech tags. The label of a word begins a phrase
# (B-NP, B-VP, B-PP), is inside one (I-NP, I-VP) or outside (O). What makes it hard: many words are
# nouns and verbs, and two noun phrases can be neighbors ("gave [the boy] [an old book]") or be one
# ("[the garden party]").

SENTENCES = """
[NP The/DT cat/NN] [VP sat/VBD] [PP on/IN] [NP the/DT warm/JJ windowsill/NN] ./.
[NP She/PRP] [VP gave/VBD] [NP the/DT boy/NN] [NP an/DT old/JJ book/NN] ./.
[NP My/PRP$ neighbors/NNS] [VP have/VBP planted/VBN] [NP three/CD apple/NN trees/NNS] ./.
[NP They/PRP] [VP will/MD plan/VB] [NP the/DT garden/NN party/NN] [NP next/JJ week/NN] ./.
[NP The/DT plan/NN] [VP did/VBD not/RB work/VB] [PP in/IN] [NP the/DT end/NN] ./.
[NP Good/JJ work/NN] [VP takes/VBZ] [NP time/NN] ./.
[NP The/DT bank/NN] [VP may/MD cut/VB] [NP its/PRP$ rates/NNS] [NP this/DT year/NN] ./.
[NP A/DT deep/JJ cut/NN] [PP in/IN] [NP rates/NNS] [VP would/MD help/VB] [NP small/JJ firms/NNS] ./.
[NP We/PRP] [VP want/VBP to/TO buy/VB] [NP fresh/JJ bread/NN] [PP at/IN] [NP the/DT market/NN] ./.
[NP The/DT market/NN stall/NN] [VP sells/VBZ] [NP bread/NN] and/CC [NP cheese/NN] ./.
[NP Her/PRP$ brother/NN] [VP plays/VBZ] [NP the/DT piano/NN] [ADVP very/RB well/RB] ./.
[NP The/DT play/NN] [VP was/VBD written/VBN] [PP by/IN] [NP a/DT young/JJ student/NN] ./.
[NP Heavy/JJ rain/NN] [VP delayed/VBD] [NP the/DT morning/NN train/NN] [PP to/TO] [NP York/NNP] ./.
[NP The/DT coach/NN] [VP will/MD train/VB] [NP the/DT new/JJ team/NN] [NP next/JJ month/NN] ./.
[NP It/PRP] [VP rained/VBD] [NP all/DT day/NN] ./.
[NP The/DT old/JJ bridge/NN] [VP can/MD not/RB carry/VB] [NP heavy/JJ trucks/NNS] ./.
[NP He/PRP] [VP opened/VBD] [NP a/DT can/NN] [PP of/IN] [NP tomato/NN soup/NN] ./.
[NP Nobody/NN] [VP knows/VBZ] [NP the/DT answer/NN] ./.
[NP They/PRP] [VP answer/VBP] [NP letters/NNS] [PP on/IN] [NP Monday/NNP mornings/NNS] ./.
[NP The/DT dog/NN] [NP 's/POS tail/NN] [VP hit/VBD] [NP the/DT glass/NN] ./.
[NP The/DT song/NN] [VP became/VBD] [NP a/DT hit/NN] [PP in/IN] [NP many/JJ countries/NNS] ./.
[ADVP Yesterday/RB] [NP the/DT children/NNS] [VP built/VBD] [NP a/DT snow/NN house/NN] ./.
[NP The/DT committee/NN] [VP has/VBZ to/TO decide/VB] [ADVP soon/RB] ./.
[NP The/DT decision/NN] [VP surprised/VBD] [NP members/NNS] [PP of/IN] [NP our/PRP$ club/NN] ./.
[NP I/PRP] [VP left/VBD] [NP my/PRP$ umbrella/NN] [PP at/IN] [NP work/NN] [ADVP again/RB] ./.
[NP The/DT left/JJ door/NN] [VP leads/VBZ] [PP to/TO] [NP the/DT kitchen/NN] ./.
[NP Our/PRP$ teacher/NN] [VP told/VBD] [NP us/PRP] [NP a/DT long/JJ story/NN] ./.
[NP The/DT price/NN] [PP of/IN] [NP coffee/NN] [VP rose/VBD] [PP in/IN] [NP May/NNP] ./.
[NP A/DT rose/NN] [VP stood/VBD] [PP on/IN] [NP the/DT table/NN] ./.
[NP The/DT doctor/NN] [VP should/MD see/VB] [NP her/PRP] [NP this/DT afternoon/NN] ./.
[NP The/DT company/NN] [VP offered/VBD] [NP the/DT bank/NN] [NP new/JJ shares/NNS] ./.
[NP She/PRP] [VP shares/VBZ] [NP a/DT small/JJ flat/NN] [PP with/IN] [NP two/CD friends/NNS] ./.
[NP The/DT tires/NNS] [VP were/VBD] [ADJP completely/RB flat/JJ] ./.
[NP Two/CD police/NN officers/NNS] [VP stopped/VBD] [NP the/DT red/JJ car/NN] ./.
[NP The/DT next/JJ bus/NN stop/NN] [VP is/VBZ] [PP near/IN] [NP the/DT library/NN] ./.
[NP He/PRP] [VP never/RB drinks/VBZ] [NP coffee/NN] [PP after/IN] [NP lunch/NN] ./.
[NP Cold/JJ drinks/NNS] [VP are/VBP sold/VBN] [PP at/IN] [NP the/DT station/NN] ./.
[NP The/DT museum/NN] [VP shows/VBZ] [NP visitors/NNS] [NP rare/JJ maps/NNS] ./.
[NP The/DT evening/NN show/NN] [VP starts/VBZ] [PP at/IN] [NP eight/CD] ./.
[NP A/DT late/JJ start/NN] [VP cost/VBD] [NP the/DT team/NN] [NP the/DT match/NN] ./.
[NP The/DT cost/NN] [PP of/IN] [NP the/DT new/JJ road/NN] [VP has/VBZ doubled/VBN] ./.
[NP Farmers/NNS] [VP fear/VBP] [NP another/DT dry/JJ summer/NN] ./.
[NP His/PRP$ fear/NN] [PP of/IN] [NP heights/NNS] [VP kept/VBD] [NP him/PRP] [ADVP down/RB] ./.
[NP The/DT pilot/NN] [VP could/MD land/VB] [NP the/DT plane/NN] [ADVP safely/RB] ./.
[NP They/PRP] [VP own/VBP] [NP some/DT land/NN] [PP near/IN] [NP the/DT river/NN] ./.
[NP The/DT results/NNS] [VP seem/VBP] [ADJP very/RB good/JJ] ./.
[NP Nurses/NNS] [VP watch/VBP] [NP the/DT patients/NNS] [PP at/IN] [NP night/NN] ./.
[NP My/PRP$ father/NN] [VP lost/VBD] [NP his/PRP$ gold/NN watch/NN] ./.
[NP The/DT editor/NN] [VP wants/VBZ to/TO change/VB] [NP the/DT title/NN] ./.
[NP The/DT change/NN] [VP made/VBD] [NP the/DT text/NN] [ADJP easier/JJR] ./.
[PP In/IN] [NP winter/NN] [NP the/DT lake/NN] [VP freezes/VBZ] [ADVP quickly/RB] ./.
[NP Many/JJ tourists/NNS] [VP visit/VBP] [NP the/DT island/NN] [NP every/DT summer/NN] ./.
[NP A/DT short/JJ visit/NN] [PP to/TO] [NP the/DT castle/NN] [VP is/VBZ planned/VBN] ./.
[NP Lisa/NNP] [NP 's/POS sister/NN] [VP teaches/VBZ] [NP history/NN] [PP in/IN] [NP London/NNP] ./.
[NP The/DT captain/NN] [VP ordered/VBD] [NP the/DT crew/NN] [NP a/DT meal/NN] ./.
[NP The/DT order/NN] [VP arrived/VBD] [NP two/CD days/NNS] [ADVP late/RB] ./.
[NP The/DT report/NN] [VP says/VBZ] [NP sales/NNS] [VP fell/VBD] [PP in/IN] [NP June/NNP] ./.
[NP Witnesses/NNS] [VP report/VBP] [NP a/DT loud/JJ noise/NN] [PP before/IN] [NP the/DT fire/NN] ./.
[NP The/DT manager/NN] [VP will/MD probably/RB fire/VB] [NP nobody/NN] ./.
[NP You/PRP] [VP should/MD read/VB] [NP the/DT first/JJ chapter/NN] [ADVP again/RB] ./.
"""

# %%
# :func:`~sklearn_bundle.datasets.load_conll` reads columns from a file or from a list of lines: a
# token per line with word, tag and label, and an empty line between sentences.


def lines():
    """The sentences in columns."""
    for sentence in SENTENCES.strip().splitlines():
        kind = None
        for token in sentence.split():
            if token.startswith("["):
                kind, label = token[1:], f"B-{token[1:]}"
                continue
            word, tag = token.rstrip("]").split("/")
            yield f"{word} {tag} {label if kind else 'O'}"
            kind = None if token.endswith("]") else kind
            label = f"I-{kind}"
        yield ""


sentences, labels = load_conll(lines())
train, test, y_train, y_test = train_test_split(sentences, labels, test_size=20, random_state=0)
print(f"{len(train)} sentences to train, {len(test)} to test; the first of these:")

for (word, tag), label in zip(test[0], y_test[0], strict=True):
    print(f"{word:<15}{tag:<5}{label}")

# %%
# The template: words and tags at these distances from a word, alone and joined.

WORDS = [(-2,), (-1,), (0,), (1,), (2,), (-1, 0), (0, 1)]
TAGS = [(-2,), (-1,), (0,), (1,), (2,), (-2, -1), (-1, 0), (0, 1), (1, 2)]
TAGS += [(-2, -1, 0), (-1, 0, 1), (0, 1, 2)]


def attributes(sentence):
    """A list of strings per word, such as "w[-1]|w[0]=the|bank"."""
    columns = [("w", WORDS, 0), ("pos", TAGS, 1)]
    rows = []
    for i in range(len(sentence)):
        row = []
        for name, patterns, column in columns:
            for pattern in patterns:
                if all(0 <= i + distance < len(sentence) for distance in pattern):
                    left = "|".join(f"{name}[{distance}]" for distance in pattern)
                    right = "|".join(sentence[i + distance][column] for distance in pattern)
                    row.append(f"{left}={right}")
        rows.append(row)
    rows[0].append("BOS")
    rows[-1].append("EOS")
    return rows


X_train, X_test = ([attributes(sentence) for sentence in part] for part in (train, test))
print(X_test[0][1])

# %%
# The amount of regularization, chosen by the F1 of phrases in three folds. By default
# ``reg_lambda`` is one over the number of sentences.

n = len(X_train)
factors = (10, 1, 0.1, 0.01)
search = GridSearchCV(
    SDCACRF(tol=1e-3, random_state=0),
    {"reg_lambda": [factor / n for factor in factors]},
    scoring=span_f1_scorer,
    cv=3,
).fit(X_train, y_train)
for factor, f1 in zip(factors, search.cv_results_["mean_test_score"], strict=True):
    print(f"reg_lambda = {factor:>4g} / n   F1 {f1:.3f}")

# %%
# The best model was fitted again to all training sentences. Its certificate says how far the
# objective can be from its minimum.

model = search.best_estimator_
print(f"{model.coef_.shape[0]} labels x {model.coef_.shape[1]} attributes, {model.n_iter_} epochs")
print(f"{model.lower_bound_:.4f} <= minimum <= {model.objective_:.4f}")
print(f"converged {model.converged_}, relative gap {model.relative_gap_:.1e}")

# %%
# Scores: a predicted phrase is right if its type, start and end are, as conlleval counts.

y_pred = model.predict(X_test)
print(f"tokens right:    {token_accuracy_score(y_test, y_pred):.3f}")
print(f"sentences right: {sequence_accuracy_score(y_test, y_pred):.3f}\n")
print(f"{'':<9}{'precision':>10}{'recall':>8}{'F1':>8}{'phrases':>9}")
kinds = sorted({label[2:] for labels in y_test for label in labels if label != "O"})
by_kind = span_precision_recall_fscore_support(y_test, y_pred, labels=kinds, average=None)
for kind, precision, recall, f1, number in zip(kinds, *by_kind, strict=True):
    print(f"{kind:<9}{precision:>10.3f}{recall:>8.3f}{f1:>8.3f}{number:>9}")
precision, recall, f1, _ = span_precision_recall_fscore_support(y_test, y_pred)
print(f"{'all':<9}{precision:>10.3f}{recall:>8.3f}{f1:>8.3f}{by_kind[3].sum():>9}")

# %%
# What the model has learned: the heaviest attributes of a label, and the weight of a label after
# another (from the one at the left to the one above), for the labels that occur most often.

counts = dict(zip(*np.unique(np.concatenate(y_train), return_counts=True), strict=True))
frequent = sorted(counts, key=counts.get, reverse=True)[:6]
heaviest = model.heaviest_features(n=4)
for label in frequent:
    print(f"{label:<7}" + "   ".join(f"{name} {weight:+.2f}" for name, weight in heaviest[label]))

print(f"\n{'':<7}" + "".join(f"{label:>7}" for label in frequent))
rows = np.searchsorted(model.classes_, frequent)
for label, weights in zip(frequent, model.transitions_[np.ix_(rows, rows)], strict=True):
    print(f"{label:<7}" + "".join(f"{weight:>7.2f}" for weight in weights))

# %%
# The test sentence of which the model is least sure, and its three best readings with their
# probabilities.

doubtful = np.argmin(model.predict_log_proba(X_test))
words = [word for word, _ in test[doubtful]]
print(" ".join(f"{word:>6}" for word in ["", *words]))
for labels, log_probability in model.decode([X_test[doubtful]], n_best=3)[0]:
    probability = f"{np.exp(log_probability):.3f}"
    columns = zip(["", *words], [probability, *labels], strict=True)
    print(" ".join(f"{label:>{max(len(word), 6)}}" for word, label in columns))

# %%
# The probability of each label at each word of that sentence, and the true labels. Where no field
# of a column is dark, the model is in doubt.

marginals = model.predict_marginals([X_test[doubtful]])[0]
seen = np.flatnonzero(marginals.max(axis=0) > 0.02)
figure, ax = plt.subplots(figsize=(6.4, 4.5), layout="constrained")
image = ax.imshow(marginals[:, seen].T, cmap="Blues", vmin=0, vmax=1, aspect="auto")
ax.set_xticks(range(len(words)), words, rotation=45)
ax.set_yticks(range(len(seen)), model.classes_[seen])
rows = {label: row for row, label in enumerate(model.classes_[seen])}
places = [(k, rows[label]) for k, label in enumerate(y_test[doubtful]) if label in rows]
look = {"color": "#D55E00", "markeredgecolor": "white", "markersize": 11, "linestyle": "none"}
ax.plot(*zip(*places, strict=True), "X", **look, label="true label")
figure.legend(loc="outside lower right")
figure.colorbar(image, ax=ax, label="probability")
ax.set_title(
    f"F1 of phrases {f1:.2f} with {len(train)} training sentences.\n"
    "In a pale column, the model is in doubt"
)
plt.show()

# %%
# The heaviest attributes of the most frequent label. Those with negative weights are evidence
# against it. (BOS is the beginning of a sentence.)

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
names, weights = zip(*model.heaviest_features(n=10)[frequent[0]], strict=True)
colors = ["#0072B2" if weight > 0 else "#D55E00" for weight in weights]
ax.barh(range(len(names)), weights, color=colors)
ax.set_yticks(range(len(names)), names)
ax.invert_yaxis()
ax.axvline(0, color="black", linewidth=0.8)
ax.set(
    xlabel=f"weight with {frequent[0]}",
    title=f"The strongest evidence for {frequent[0]}: {names[0]}",
)
plt.show()

# %%
# How the certificate closes. The lower bound rises with every epoch, which is as many steps as
# there are sentences. The objective is known only after a full pass over the data, and the solver
# makes one when the bound seems to be close.

figure, ax = plt.subplots(figsize=(6.4, 4.3), layout="constrained")
ConvergenceDisplay.from_estimator(model, y="lower_bound", ax=ax)
objective = {"color": "black", "linewidth": 1, "label": "objective of the model returned"}
ax.axhline(model.objective_, **objective)
ax.set(xlabel="epochs", ylabel="nats per sentence")
ax.set_title(f"After {model.n_iter_} epochs the gap is {100 * model.relative_gap_:.2g} %")
ax.legend()
plt.show()
