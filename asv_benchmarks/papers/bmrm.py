"""Section 5 of Teo, Vishwanathan, Smola and Le, Bundle methods for regularized risk minimization.

Figures 4 and 5 (iterations to a gap by lambda and by bundle size), figure 7 and table 2 (accuracy
on test data against the gap), figure 8 (BMRM, LS-BMRM and BT), and figures 9 and 10 (CPU time,
beside LIBLINEAR), on those data sets of the paper that are in the folder and on stand-ins that the
first table names. BMRM is solver="cutting-plane", LS-BMRM solver="line-search", without intercept.
BT (Schramm and Zowe) and the proximal bundle method (Kiwiel) are those of _bundle_peers.py.

What differs from the paper: all planes are kept where it drops those that were inactive for 10
iterations; accuracies are those of the best point so far; the proximal bundle method is run as
well; SVM-perf is not, and neither is figure 6 (many processors).

python asv_benchmarks/papers/bmrm.py --data FOLDER --figure bmrm.png
"""

import _bmrm_bundles as bundles
import _bmrm_convergence as convergence
import _bmrm_figure as figure
import _bmrm_generalization as generalization
import _bmrm_peers as peers
from _bmrm_data import Set
from _common import Study, run

_MOST_FEATURES = 100_000  # of the sets for figures 7, 9 and 10, which take many fits
_LEAST_SECONDS = 120.0  # that have to be left for the last two parts


def reproduce(study: Study) -> None:
    binary, multiclass = convergence.sets_of(study)
    runs = convergence.binary_runs(study, binary)
    convergence.show_lambdas(study, binary, runs)
    sizes = convergence.size_runs(study, binary, runs)
    convergence.show_sizes(study, binary, sizes)
    stabilized = bundles.with_peers(study, binary, runs)
    bundles.show(study, stabilized, "two classes")

    chosen = [data for data in binary if data.X.shape[1] <= _MOST_FEATURES]
    splits = [generalization.split(data, "hinge") for data in chosen]
    learned = {parts.data.name: generalization.learn(study, parts) for parts in splits}
    generalization.show_accuracies(study, splits, learned)
    races = {parts.data.name: peers.race(study, parts, "hinge") for parts in splits}
    peers.show_race(study, splits, races, "hinge")

    if study.seconds_left < _LEAST_SECONDS:
        print("\nno time for figure 10 and several classes")
    else:
        _further(study, chosen, multiclass)
    study.draw(lambda plt: figure.make(plt, stabilized, sizes, learned, races))


def _further(study: Study, chosen: list[Set], multiclass: list[Set]) -> None:
    """Figure 10, and figure 8 for several classes, as far as time allows."""
    logistic = [generalization.split(data, "log_loss") for data in chosen]
    against = {parts.data.name: peers.race(study, parts, "log_loss") for parts in logistic}
    peers.show_race(study, logistic, against, "log_loss")

    several = bundles.multiclass_runs(study, multiclass)
    peers_of_several = bundles.with_peers(study, multiclass, several, loss="multiclass_hinge")
    bundles.show(study, peers_of_several, "several classes")


if __name__ == "__main__":
    run(__doc__, reproduce)
