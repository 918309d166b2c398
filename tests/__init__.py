"""Tests mirror the package: one folder per folder, one file per module or a few modules.

Files without ``test_`` hold what tests share: ``certificates`` judges any fit, ``subproblems*`` say
what a fit solved, ``client`` is a user's script for type checkers, ``reference*`` compute optima
and formulas without the package, ``random_*`` draw problems, ``interrupts`` sends Ctrl-C;
``fits``, ``callbacks``, ``user_losses``, ``user_models``, ``chains``, ``structures``,
``sequences``, ``parameters``, ``blocks``, ``kernel_machines`` and ``kernel_problems`` are helpers
for tests of their kind. No file of tests imports another.

The map has a file of tests on the left, and on the right the modules whose faults it has to find.
Their paths begin in the folder of ``sklearn_bundle`` that heads the part, or with ``/`` at its
root. A folder stands for everything in it. A file without modules tests the package as a whole, or
the references. ``test_house.py`` compares the map with the folders.

.
    test_smoke.py
    test_house.py
    test_floors.py
    test_common.py
    test_certificates.py
    test_plain_shapes.py
    test_best_kept.py
    test_stress.py
    test_realdata.py
    test_parameters.py          _parameters.py _values.py _repr.py
    test_arguments.py           _values.py _weights.py /estimators/_validation.py
    test_bad_input.py           estimators/_validation.py
    test_callbacks.py           estimators/_base.py estimators/_fit.py estimators/_monitor.py
                                estimators/_reports.py
    test_bars.py                callbacks.py _bars.py estimators/_monitor.py
    test_misread.py             _misread.py estimators/_validation.py
    test_sparse_format.py       _sparse.py
    test_blas.py                _blas.py
    test_jit.py                 _jit.py _fragments.py _cache.py
    test_compile.py             compile.py _announce.py
    test_imports.py             __init__.py
    test_pages.py               _pages.py
    test_onnx.py                onnx.py
    test_saving.py
    test_paper_peers.py
    test_cells.py
    test_projection.py          projection.py _numeric/multiplier.py _compiled/projection.py
                                _compiled/box.py _compiled/pivots.py
    test_references.py
    test_references_structured.py

estimators
    test_declared.py            _fit.py _linear.py _kernel.py _labeling.py _search.py
    test_bmrm.py                bmrm.py _linear.py _fit.py _validation.py /losses/target.py
    test_bmrm_optima.py         bmrm.py
    test_bmrm_multiclass.py     bmrm.py _bundle.py _thresholds.py
    test_bmrm_regressor.py      bmrm_regressor.py
    test_bmrm_ranker.py         bmrm_ranker.py _features.py
    test_bmrm_novelty.py        bmrm_novelty.py
    test_bmrm_regularizers.py   _bundle.py
    test_listing.py             _listing.py
    test_cost.py                _linear.py _path.py
    test_flat_grids.py          _fit.py
    test_hints.py               _hints.py
    test_single_precision.py    _linear.py
    test_strong_regularization.py _bundle.py /problems/largest.py
    test_units_of_y.py          bmrm_regressor.py
    test_bmrm_path.py           _path.py _path_result.py _grid.py
    test_bmrm_cv.py             bmrm_cv.py _search.py _path_scores.py _loss_scores.py
    test_searches.py            _search.py _search_results.py _time_limit.py _path_scores.py
    test_sparse_models.py       _grid.py _bundle.py _linear.py /problems/largest.py
    test_seen.py                _base.py _linear.py
    test_multiclass.py          _multiclass.py
    test_warm_start.py          _warm.py _fit.py
    test_blocks.py              _blocks.py _lazily.py _bundle.py /_dask.py /problems/row_block.py
                                /problems/row_blocks.py /solvers/newton_rounds.py
                                /solvers/rounds.py
    test_blocks_cluster.py      /_dask.py
    test_blocks_frames.py       /_dask_rows.py _blocks.py
    test_blocks_time.py         /_dask.py /solvers/rounds.py
    test_refits.py              _warm.py
    test_pragam.py              pragam.py
    test_swap_svc.py            swap.py _kernel.py
    test_swap_svc_optimum.py    swap.py _kernel.py /problems/l2svm.py
    test_swap_svc_runs.py       swap.py /solvers/active_set.py
    test_swap_svc_limits.py     swap.py /problems/l2svm.py /solvers/handover.py
    test_semidefinite.py        _kernel.py /problems/semidefinite.py
    test_kernel_sparse.py       _kernel.py
    test_swap_svc_input.py      swap.py _kernel.py
    test_swap_rounding.py       swap.py /problems/l2svm.py
    test_swap_cv.py             swap_cv.py _kernel_search.py _search.py
    test_crf_cv.py              crf_cv.py _chain_path.py _path.py _search.py
    test_swap_svr.py            swap_svr.py _kernel_tube.py _kernel.py
    test_swap_svr_cv.py         swap_svr_cv.py _kernel_search.py _search.py
    test_swap_novelty.py        swap_novelty.py _kernel_tube.py
    test_structured.py          structured.py _structures.py /solvers/one_slack.py
    test_structured_api.py      structured.py _structures.py _outputs.py _labeling.py
    test_structured_runs.py     structured.py _fit.py
    test_structured_log.py      structured.py _structured_solvers.py _outputs.py
                                /solvers/structured_lbfgs.py
    test_crf.py                 crf.py
    test_crf_api.py             crf.py
    test_crf_input.py           crf.py _packing.py
    test_crf_l1.py              crf.py _labeling.py /problems/_chain_penalty.py
    test_crf_predict.py         crf.py _labeling.py
    test_crf_runs.py            crf.py
    test_crf_passes.py          crf.py /solvers/lbfgs.py
    test_crf_rounding.py        /problems/_chain_rounding.py /_compiled/chain_rounding.py
                                /_roundoff.py
    test_sequences.py           _sequences.py _packing.py
    test_sequences_tokens.py    _sequences.py _packing.py
    test_sequences_errors.py    _sequences.py _packing.py
    test_chain_shapes.py        crf.py structured.py
    test_sequences_empty.py     _sequences.py _packing.py _labeling.py /models/chain.py

solvers
    test_contract.py            contract.py
    test_certificate.py         _certificate.py
    test_asks.py                asks.py kernel_asks.py _oracle.py linear_start.py
    test_bundle.py              bundle.py _line_search.py _descent.py inner/planes.py
    test_balanced_planes.py     /problems/balance.py bundle.py
    test_inner.py               inner/ /_compiled/simplex_qp.py
    test_newton.py              newton.py _descent.py _newton_descent.py
                                /problems/newton_model.py /losses/_newton_loss.py
                                /_compiled/hessian.py
    test_newton_regression.py   newton.py /losses/_newton_regression.py
    test_dual_coordinate.py     dual_coordinate.py /problems/dual_steps.py /losses/_dual.py
                                /losses/_dual_loss.py /_compiled/coordinate.py
    test_dual_targets.py        dual_coordinate.py /losses/_dual_targets.py
    test_class_coordinate.py    class_coordinate.py _dual_ascent.py /problems/class_dual.py
                                /losses/_class_dual.py /_compiled/class_steps.py
    test_gram_path.py           gram_path.py /estimators/_path.py
    test_coordinate_descent.py  coordinate_descent.py _working_set.py _sweeps.py
                                /problems/column_model.py /_compiled/lasso.py /losses/_conjugate.py
    test_linear_lbfgs.py        linear_lbfgs.py _score_descent.py _descent_solver.py
                                _corrections.py
    test_softmax.py             softmax.py _class_curvature.py _class_descent.py
                                /problems/softmax_model.py /losses/_softmax.py
    test_least_squares.py       least_squares.py /problems/normal_equations.py /problems/_costs.py
                                /losses/_squares.py
    test_sample_planes.py       sample_planes.py /problems/sample_space.py
    test_linear_auto.py         linear_auto.py _contest.py linear_start.py linear_task.py
    test_excessive_gap.py       excessive_gap.py /problems/hinge_dual.py /_compiled/dual.py
    test_marginal_gap.py        marginal_gap.py excessive_gap.py /problems/marginal_chain.py
                                /_compiled/chain_marginals.py
    test_swap.py                swap.py /_compiled/swap.py /_compiled/vertices.py
    test_active_set.py          active_set.py /problems/l2svm.py /_compiled/lazy.py
    test_kernel_gradients.py    kernel_gradients.py inner/low_rank.py /problems/l2tube.py
    test_decomposition.py       decomposition.py /_compiled/decomposition.py /_compiled/tiles.py
                                /_compiled/lanes.py /_compiled/exact_sums.py
                                /problems/_tiles.py /problems/_distances.py
    test_whole.py               whole.py /_compiled/whole.py /problems/l2svm.py
                                /problems/kernel_data.py
    test_chain_states.py        sdca.py chain_auto.py
    test_lbfgs.py               lbfgs.py _corrections.py structured_lbfgs.py
    test_structured_solvers.py  _block_solver.py _adapted.py block_coordinate.py simplicial.py
                                one_simplex.py one_slack.py
                                inner/blocks.py inner/faces.py inner/outputs.py
                                /_compiled/block_steps.py /_compiled/faces.py
                                /_compiled/outputs.py

problems
    test_linear.py              linear.py rows.py memory_rows.py _linear_sums.py
                                /_compiled/design.py /_parallel.py
    test_linear_rounding.py     linear_rounding.py
    test_l2tube.py              l2tube.py _extended_sums.py
    test_row_blocks.py          row_block.py row_blocks.py /solvers/lbfgs_rounds.py
    test_gathered_rows.py       gathered_rows.py row_block.py
    test_kernel.py              kernel.py kernel_function.py kernel_scores.py _points.py
                                _distances.py /_compiled/rows.py
    test_chain.py               chain.py /models/chain.py /_compiled/chain.py /_compiled/chain_d*.py
                                /_compiled/chain_loss.py /_compiled/chain_sdca.py
                                /_compiled/exponentiated.py /_compiled/sums.py
    test_structured.py          structured.py /models/base.py /models/examples.py
                                /_compiled/structures.py
    test_structured_log.py      structured_log.py /models/base.py /models/examples.py
                                /models/listed.py /_compiled/structures.py
                                /_compiled/chain_expectation.py /_compiled/class_oracle.py

losses
    test_binary.py              base.py target.py samples.py hinge.py logistic.py _sums.py
                                /_numeric/roots.py
    test_hinge.py               hinge.py
    test_intercepts.py          _piecewise.py hinge.py
    test_regression.py          regression.py quantile.py tube.py poisson.py novelty.py
                                _piecewise.py _poisson.py
    test_multiclass.py          multiclass.py softmax.py ontology.py
    test_measures.py            measures.py
    test_ranking.py             ranking.py grades.py pairs.py positions.py
    test_newton_binary.py       _newton.py _newton_loss.py _newton_binary.py

models
    test_listed.py              listed.py base.py
    test_classes.py             classes.py examples.py /_compiled/class_oracle.py
                                /_compiled/structures.py
    test_graph.py               graph.py /_compiled/graph_oracle.py
    test_graph_input.py         graph.py
    test_matching.py            matching.py
    test_pairwise.py            pairwise.py pairwise_input.py pairwise_relaxed.py
                                /_compiled/pairwise_oracle.py /solvers/_block_solver.py
    test_multilabel.py          multilabel.py /_compiled/multilabel_oracle.py
                                /estimators/_multilabel_reader.py
    test_chain_structure.py     chain_structure.py chain.py /_compiled/chain_oracle.py
                                /_compiled/chain.py
    test_segments.py            segments.py segment_layout.py /_compiled/segment_*.py
                                /estimators/_segment_reader.py
    test_score_rounding.py      score_rounding.py

regularizers
    test_regularizers.py        base.py norms.py sparse.py entropy.py
                                /_numeric/definite.py

_numeric
    test_kinks.py               kinks.py

_compiled
    test_elementary.py          elementary.py
    test_vector.py              vector.py
    test_selection.py           selection.py
    test_simplex_qp.py          simplex_qp.py
    test_clique_projection.py   clique_projection.py
    test_sampling.py            sampling.py
    test_forward_backward.py    forward_backward.py
    test_min_cut.py             min_cut.py

datasets
    test_readers.py             _conll.py _svmlight.py _openml.py _files.py
    test_frame.py               _frame.py
    test_mapped.py              _mapped.py

metrics
    test_metrics.py             _spans.py _tokens.py _label_sequences.py
    test_scorers.py             _spans.py _tokens.py _flat.py
    test_segments.py            _segments.py

plotting
    test_plotting.py            _convergence.py _path.py _figures.py
"""
