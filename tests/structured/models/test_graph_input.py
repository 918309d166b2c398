"""Graphs and images that are wrong: errors name what, and where it is."""

import numpy as np
import pytest

from sklearn_bundle import StructuredSVM
from sklearn_bundle.models import Graph, Grid

NODES, EDGES, WIDTHS = np.ones((3, 2)), np.array([[0, 1], [1, 2]]), np.ones((2, 1))
GOOD = NODES, EDGES, WIDTHS
NAN = np.array([[1.0, 1.0], [np.nan, 1.0], [1.0, 1.0]])
WRONG = {
    "no tuple": (NODES, "tuple .node_features, edges, edge_features., got a ndarray"),
    "four parts": ((*GOOD, (3, 1)), "got a tuple of length 4"),
    "vector": ((NODES[0], EDGES, WIDTHS), r"node features of X\[1\] must have 2 dimensions"),
    "nan": ((NAN, EDGES, WIDTHS), r"finite, but the entry at \(1, 0\) is nan"),
    "text": ((np.full((3, 2), "a"), EDGES, WIDTHS), r"node features of X\[1\] must hold numbers"),
    "no node": ((NODES[:0], EDGES[:0], WIDTHS[:0]), "at least one node"),
    "triples": ((NODES, np.ones((2, 3)), WIDTHS), r"edges of X\[1\] must be pairs of nodes"),
    "far": ((NODES, EDGES + 1, WIDTHS), r"from 0 to 2, but number 1 is \[2.0, 3.0\]"),
    "negative": ((NODES, EDGES - 1, WIDTHS), r"from 0 to 2, but number 0 is \[-1.0, 0.0\]"),
    "between": ((NODES, EDGES + 0.5, WIDTHS), r"from 0 to 2, but number 0 is \[0.5, 1.5\]"),
    "loop": (
        (NODES, [[0, 1], [1, 1]], WIDTHS),
        r"different .* number 1 is \[1.0, 1.0\]",
    ),
    "rows": ((NODES, EDGES, WIDTHS[:1]), "a row for each of the 2 edges, got 1"),
    "below 0": ((NODES, EDGES, -WIDTHS), r"must not be negative, but the one at \(0, 0\) is -1.0"),
    "inf": ((NODES, EDGES, WIDTHS * np.inf), r"edge features of X\[1\] must be finite"),
    "wider": ((np.ones((3, 4)), EDGES, WIDTHS), r"X\[1\] must have 2 node features, as X\[0\]"),
    "more": ((NODES, EDGES, np.ones((2, 2))), r"X\[1\] must have 1 edge features, as X\[0\], but"),
}


@pytest.mark.parametrize("x, message", WRONG.values(), ids=WRONG)
def test_wrong_graphs(x, message):
    y = [[0, 1, 1], [0, 1, 1]]
    model = StructuredSVM("graph")
    with pytest.raises(ValueError, match=message):
        model.fit([GOOD, x], y)
    assert not hasattr(model, "w_")
    named = message.replace(r"X\[1\]", "x").replace(r"X\[0\]", "the training data")
    with pytest.raises(ValueError, match=named):
        model.fit([GOOD, GOOD], y).predict([x])


@pytest.mark.parametrize(
    "labels, message",
    [
        ([0, 1], r"y\[1\] must have the shape \(3,\), but has \(2,\)"),
        (
            [0, 2, 1],
            r"y\[1\] must hold whole numbers .*, from 0 to 1, but the one at \(1,\) is 2",
        ),
        ([0, 1, -1], "labels, from 0 to 1"),
        ([0, 1, np.nan], "labels, from 0 to 1, but the one at .* is nan"),
        (["a", "b", "a"], r"y\[1\] must hold numbers"),
    ],
)
def test_wrong_labels(labels, message):
    model = StructuredSVM("graph")
    with pytest.raises(ValueError, match=message):
        model.fit([GOOD, GOOD], [[0, 1, 1], labels])
    model.fit([GOOD, GOOD], [[0, 1, 1], [0, 0, 1]])
    with pytest.raises(ValueError, match=message.replace(r"y\[1\]", "y")):
        model.score([GOOD], [labels])


@pytest.mark.parametrize(
    "x, message",
    [
        (np.ones((2, 3)), r"X\[1\] must have 3 dimensions"),
        (np.ones((0, 3, 2)), r"X\[1\] must have pixels and features"),
        (np.ones((2, 3, 0)), r"X\[1\] must have pixels and features"),
        (np.ones((2, 3, 4)), r"X\[1\] must have 2 node features"),
        (np.full((2, 3, 2), np.inf), r"X\[1\] must be finite, but the entry at \(0, 0, 0\)"),
    ],
)
def test_wrong_images(x, message):
    good = np.ones((2, 3, 2))
    with pytest.raises(ValueError, match=message):
        StructuredSVM("grid").fit([good, x], [np.ones((2, 3)), np.ones((2, 3))])


@pytest.mark.parametrize(
    "model, message",
    [
        (Grid(contrast=[2]), r"contrast must be None or .* from 0 to 1, got \[2\]"),
        (Grid(contrast=1), "contrast must be None or a list"),
        (Grid(contrast=[0.5]), "contrast must be None or a list"),
        (Grid(contrast="all"), "contrast must hold numbers"),
        (Grid(cost=[[0, -1], [1, 0]]), r"finite and at least 0, but cost\[0, 1\] is -1\.0"),
        (Grid(cost=np.eye(3)), "cost must have a row and a column for each of the 2 classes"),
    ],
)
def test_wrong_parameters(model, message):
    with pytest.raises(ValueError, match=message):
        StructuredSVM(model).fit([np.ones((2, 3, 2))], [np.ones((2, 3))])


def test_slack_rescaling_is_refused():
    with pytest.raises(ValueError, match="slack_rescaled_inference, which Graph does not have"):
        StructuredSVM("graph", scaling="slack").fit([GOOD], [[0, 1, 1]])


def test_the_weights_have_the_length_of_the_parameters():
    model = Graph()
    model.n_parameters([GOOD], [[0, 1, 1]])
    with pytest.raises(ValueError, match=r"w must have the shape \(3,\), but has \(2,\)"):
        model.inference(GOOD, [1.0, 1.0])


def test_no_cut_for_negative_weights_of_edges():
    model = Graph()
    model.n_parameters([GOOD], [[0, 1, 1]])
    with pytest.raises(ValueError, match=r"w must not be negative .* but w\[2\] is -1\.0"):
        model.inference(GOOD, [1.0, 1.0, -1.0])
